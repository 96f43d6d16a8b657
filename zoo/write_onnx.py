"""Writes the torch networks of the zoo as ONNX models.

python zoo/write_onnx.py FOLDER [NAME ...] [--forms float,qdq]

`FOLDER/unet.inputs.npz` has the network's example inputs, with which `suite` compares `FOLDER/unet.onnx`
and its program. `FOLDER/qdq/unet.onnx` is quantised by onnxruntime: int8, weights by channel, and the
ranges of seeded inputs. `timm:resnet18` names a published network. It needs torch, onnx and onnxscript,
and for qdq onnxruntime.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from networks import TORCH, chosen

#: Inputs from which the ranges of a quantised network are taken.
_SETS: Final = 4


class NotHeldError(Exception):
    """A format cannot hold a network."""


def export(factory: Callable[[], Any], path: Path, *, external_data: bool = True) -> None:
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
        torch.onnx.export(
            module, args, path, dynamo=True, verbose=False, external_data=external_data
        )
    names = [row.name for row in onnx.load(str(path), load_external_data=False).graph.input]
    # TOSA has no integers of 64 bits.
    arrays = [one.to(torch.int32) if one.dtype == torch.int64 else one for one in args]
    with open(path.with_suffix(".inputs.npz"), "wb") as file:
        np.savez(file, **{name: one.numpy() for name, one in zip(names, arrays, strict=True)})


def quantise(factory: Callable[[], Any], path: Path) -> None:
    """Write a network in ONNX with operators that quantise and dequantise around each other one.

    Raises:
        Exception: what `export` raises, and onnxruntime.
    """
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType
    from onnxruntime.quantization import quantize_static as quantize
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Inputs(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self, name: str, shape: tuple[int, ...]) -> None:
            random = np.random.default_rng(0)
            arrays = [random.normal(size=shape).astype(np.float32) for _ in range(_SETS)]
            self._calls = iter([{name: array} for array in arrays])

        def get_next(self) -> dict[str, Any] | None:
            return next(self._calls, None)

    with tempfile.TemporaryDirectory() as folder:
        plain, ready = Path(folder, "plain.onnx"), Path(folder, "ready.onnx")
        export(factory, plain, external_data=False)
        quant_pre_process(plain, ready, skip_symbolic_shape=True)
        ((name, array),) = np.load(plain.with_suffix(".inputs.npz")).items()
        quantize(
            ready,
            path,
            Inputs(name, array.shape),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
            extra_options={"ActivationSymmetric": False},
        )
        with open(path.with_suffix(".inputs.npz"), "wb") as file:
            np.savez(file, **{name: array})


def _changes(module: Any, args: tuple[Any, ...]) -> bool:
    """Return whether a call changes a buffer; of a copy, so that the network stays as it was."""
    import torch

    copied = copy.deepcopy(module)
    with torch.no_grad():
        copied(*args)
    after = dict(copied.named_buffers())
    return any(not torch.equal(one, after[name]) for name, one in module.named_buffers())


def write(folder: Path, names: Collection[str], forms: Sequence[str] = ("float",)) -> Iterator[str]:
    """Write networks, all if none is named, and yield a line for each file, or why there is none."""
    folder.mkdir(parents=True, exist_ok=True)
    for (name, factory), form in itertools.product(chosen(TORCH, names), forms):
        path = folder / (form if form != "float" else "") / f"{name}.onnx"
        path.parent.mkdir(exist_ok=True)
        try:
            FORMS[form](factory, path)
        except Exception as error:
            path.unlink(missing_ok=True)
            reason = str(error).strip().partition("\n")[0]
            yield f"{name}: {type(error).__name__}: {reason}"
        else:
            yield str(path)


FORMS: Final = {"float": export, "qdq": quantise}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="networks; by default all")
    parser.add_argument("--forms", default="float")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for line in write(given.folder, given.names, given.forms.split(",")):
        print(line, flush=True)


if __name__ == "__main__":
    main()
