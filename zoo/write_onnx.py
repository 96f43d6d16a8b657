"""Writes the torch networks of the zoo as ONNX models.

python zoo/write_onnx.py FOLDER [NAME ...]

`FOLDER/unet.inputs.npz` has the network's example inputs, with which `suite` compares `FOLDER/unet.onnx`
and its program. It needs torch, onnx and onnxscript.
"""

from __future__ import annotations

import argparse
import copy
import warnings
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from networks import TORCH, networks


class NotHeldError(Exception):
    """A format cannot hold a network."""


def export(factory: Callable[[], Any], path: Path) -> None:
    """Write a network and its example inputs.

    Raises:
        NotHeldError: a call of the network changes a buffer.
        Exception: torch's exporter raises what it likes.
    """
    import onnx
    import torch

    module, args = factory()
    if _changes(module, args):
        raise NotHeldError("ONNX has no state: torch exports buffers that change as constants")
    with torch.no_grad():
        torch.onnx.export(module, args, path, dynamo=True, verbose=False)
    names = [row.name for row in onnx.load(str(path), load_external_data=False).graph.input]
    # TOSA has no integers of 64 bits.
    arrays = [one.to(torch.int32) if one.dtype == torch.int64 else one for one in args]
    with open(path.with_suffix(".inputs.npz"), "wb") as file:
        np.savez(file, **{name: one.numpy() for name, one in zip(names, arrays, strict=True)})


def _changes(module: Any, args: tuple[Any, ...]) -> bool:
    """Whether a call changes a buffer; of a copy, so that the network stays as it was."""
    import torch

    copied = copy.deepcopy(module)
    with torch.no_grad():
        copied(*args)
    after = dict(copied.named_buffers())
    return any(not torch.equal(one, after[name]) for name, one in module.named_buffers())


def write(folder: Path, names: Collection[str]) -> Iterator[str]:
    """Write networks, all if none is named, and yield a line for each file, or why there is none."""
    folder.mkdir(parents=True, exist_ok=True)
    for _, name, factory in networks(TORCH):
        if names and name not in names:
            continue
        path = folder / f"{name}.onnx"
        try:
            export(factory, path)
        except Exception as error:
            path.unlink(missing_ok=True)
            reason = str(error).strip().partition("\n")[0]
            yield f"{name}: {type(error).__name__}: {reason}"
        else:
            yield str(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="networks; by default all")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    for line in write(chosen.folder, chosen.names):
        print(line, flush=True)


if __name__ == "__main__":
    main()
