"""Runs the networks of the zoo through frontends, and writes what came out to results.json.

python zoo/measure_zoo.py [--frontends torch,onnx] [--results FILE] [NAME ...]

With names, such as `unet`, only these networks; the rows of others stay as they are. It needs the extras
`torch`, `onnx` and `refmodel`, and onnxscript.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import tosa_convert as tc
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.frontends import child
from tosa_convert.frontends.finish import finish
from tosa_convert.frontends.interface import INTERFACE_FILE, Interface
from tosa_convert.frontends.request import REQUEST_FILE, Request
from tosa_convert.golden.running.variable_states import STATE_PREFIX, variables_of
from tosa_convert.options import ReadOptions

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results.json"
FAMILIES = (
    "classifiers",
    "mobile",
    "dense_prediction",
    "image_generation",
    "attention",
    "speech",
    "sequences",
    "others",
)
PREFIX = "make_"
FAILURE = "failure.txt"
#: The frontend, and the file that it reads.
FILES = {"torch": "module.pt2", "onnx": "model.onnx"}
PACKAGES = ("torch", "torch-mlir", "onnx", "onnxruntime", "onnxscript", "tosa-tools", "numpy")

Row = dict[str, Any]


class NotHeldError(Exception):
    """A format cannot hold a network."""


def networks() -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Family, name and factory of each network."""
    sys.path.insert(0, str(FOLDER))
    for family in FAMILIES:
        module = importlib.import_module(family)
        for name, factory in vars(module).items():
            if name.startswith(PREFIX):
                yield family, name.removeprefix(PREFIX), factory


def export(frontend: str, module: Any, args: tuple[Any, ...], path: Path) -> None:
    """Write a network as the file that a frontend reads."""
    import torch

    with torch.no_grad():
        if frontend == "torch":
            torch.export.save(torch.export.export(module, args), path)
        else:
            torch.onnx.export(module, args, path, dynamo=True, verbose=False)


def lowered(frontend: str, path: Path) -> tuple[tc.Graph, float]:
    """The program of a file, and the seconds of processor time that its converter took.

    The converter runs in a fork of this process, which has imported torch: that takes longer than most
    networks.
    """
    folder = path.parent
    request = Request(frontend=frontend, source=str(path), shown=path.name)
    (folder / REQUEST_FILE).write_text(request.to_json(), encoding="utf-8")
    pid = os.fork()
    if not pid:
        code = 1
        try:
            code = child.main(folder)
        except SystemExit as error:
            (folder / FAILURE).write_text(str(error), encoding="utf-8")
        finally:
            os._exit(code)
    _, status, used = os.wait4(pid, 0)
    if status:
        failure = folder / FAILURE
        text = failure.read_text(encoding="utf-8") if failure.exists() else f"status {status}"
        raise fail("frontend-failed", frontend, text)
    interface = Interface.from_json((folder / INTERFACE_FILE).read_text(encoding="utf-8"))
    if interface.findings:
        raise TosaConvertError(interface.findings)
    graph = finish(request, interface, folder, ReadOptions(narrow=("i64", "f64")))
    return graph, round(used.ru_utime + used.ru_stime, 1)


def named(names: Sequence[str], tensors: Sequence[Any]) -> dict[str, Any]:
    """Arrays by the names of a program, whose whole numbers have 32 bits."""
    import torch

    found = {}
    for name, tensor in zip(names, tensors, strict=True):
        narrowed = tensor.to(torch.int32) if tensor.dtype == torch.int64 else tensor
        found[name] = narrowed.detach().numpy()
    return found


def answers(graph: tc.Graph, module: Any, args: tuple[Any, ...]) -> dict[str, Any]:
    """What torch computes: its outputs, and the final state of each variable of the program."""
    import torch

    with torch.no_grad():
        found = module(*args)
    outputs = found if isinstance(found, tuple) else (found,)
    buffers = dict(module.named_buffers())
    states = [name for name in variables_of(graph) if name in buffers]
    return named(graph.main.outputs, outputs) | named(
        [f"{STATE_PREFIX}{name}" for name in states], [buffers[name] for name in states]
    )


def changes(module: Any, args: tuple[Any, ...]) -> bool:
    """Whether a call changes a buffer; of a copy, so that the network stays as it was."""
    import torch

    copied = copy.deepcopy(module)
    with torch.no_grad():
        copied(*args)
    after = dict(copied.named_buffers())
    return any(not torch.equal(one, after[name]) for name, one in module.named_buffers())


def measured(frontend: str, factory: Callable[[], Any]) -> Row:
    """What came out of one network: how far it came, the largest error, and the converter's seconds."""
    import torch

    # Threads would not survive the fork.
    torch.set_num_threads(1)
    row: Row = {"exported": False, "lowered": False, "equal": False}
    with tempfile.TemporaryDirectory(prefix="zoo-") as folder:
        path = Path(folder) / FILES[frontend]
        try:
            module, args = factory()
            if frontend == "onnx" and changes(module, args):
                raise NotHeldError(
                    "ONNX has no state: torch exports buffers that change as constants"
                )
            export(frontend, module, args, path)
            row["exported"] = True
            graph, row["seconds"] = lowered(frontend, path)
            row["lowered"] = True
            row["operators"] = len(graph.main.operators)
            inputs = named(graph.main.inputs, args)
            backend = answers(graph, module, args) if frontend == "torch" else f"onnxruntime:{path}"
            result = tc.check(graph, backend, inputs)
        except (TosaConvertError, NotHeldError) as error:
            row["reason"] = _in_short(str(error))
        except Exception as error:  # Exporters raise what they like.
            row["reason"] = _in_short(f"{type(error).__name__}: {error}")
        else:
            row["equal"] = result.ok
            row["largest_error"] = max(float(f"{t.needed_atol:.2g}") for t in result.tensors)
            if not result.ok:
                row["reason"] = _in_short(str(result))
    return row


def _in_short(text: str) -> str:
    """The first lines of a message."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "\n".join(lines[:12])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="networks; by default all")
    parser.add_argument("--frontends", default=",".join(FILES))
    parser.add_argument("--results", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    found: dict[str, Any] = {"networks": {}}
    if chosen.names and chosen.results.exists():
        found = json.loads(chosen.results.read_text(encoding="utf-8"))
    found["releases"] = {package: metadata.version(package) for package in PACKAGES}
    for family, name, factory in networks():
        if chosen.names and name not in chosen.names:
            continue
        rows = found["networks"].setdefault(name, {"family": family})
        for frontend in chosen.frontends.split(","):
            rows[frontend] = row = measured(frontend, factory)
            print(name, frontend, json.dumps(row), flush=True)
            text = json.dumps(found, indent=1) + "\n"
            chosen.results.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
