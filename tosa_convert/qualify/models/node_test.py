"""A test of ONNX: a model, its inputs, and the outputs that ONNX expects."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import numpy as np

from tosa_convert.errors import fail
from tosa_convert.golden.accuracy.comparison import Comparison
from tosa_convert.golden.accuracy.criteria import FLOATING_POINT, Tolerances
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.arrays.npz import Slot
from tosa_convert.golden.backends.runners import Record
from tosa_convert.golden.checking.check import check_outputs
from tosa_convert.golden.models.compare_model import as_slot
from tosa_convert.golden.running.programs import input_slots, output_slots
from tosa_convert.golden.running.run_options import RunOptions
from tosa_convert.graph.model import Graph, counted
from tosa_convert.qualify.models.find_cases import DATA_SETS, NODE_TEST_MODEL
from tosa_convert.qualify.models.onnx_files import NoTensorError, OnnxModel, read_model, read_tensor
from tosa_convert.records import dataclass

#: The relative tolerance of ONNX's own runner. Its absolute one is smaller; a sum of FP32 needs this.
_RTOL: Final = 1e-3
_ATOL: Final = 1e-5
#: The relative tolerance for elements of 16 bits: the last bit of BF16.
_RTOL_16_BITS: Final = 4e-3
#: The pattern of all tensors; integers must be equal.
_ALL: Final = "*"
#: Operators whose first input is a size or a condition.
_SIZES_FIRST: Final = frozenset(
    {
        *("ConstantOfShape", "Range", "If", "Loop", "MelWeightMatrix"),
        *("BlackmanWindow", "HammingWindow", "HannWindow"),
    }
)


@dataclass(frozen=True, slots=True)
class NodeTest:
    """A test that was read. inputs: by name, in order. outputs: in order."""

    path: Path
    model: OnnxModel
    inputs: dict[str, Array]
    outputs: list[Array]

    def constants(self) -> dict[str, Array]:
        """Return the inputs that can only be constants in TOSA: sizes, axes and the like.

        These are the inputs of rank 0 and 1; the first input is one only if it is a size or a condition
        of an operator. All others remain inputs.
        """
        first_too = bool(_SIZES_FIRST.intersection(self.model.operators))
        return {
            name: array
            for index, (name, array) in enumerate(self.inputs.items())
            if (index or first_too) and array.ndim <= 1
        }


def operator_of(folder: Path) -> str:
    """Return what a test tests: its operator, or "several"."""
    kinds = set(read_model(folder / NODE_TEST_MODEL).operators)
    return kinds.pop() if len(kinds) == 1 else "several"


def read_node_test(folder: Path) -> NodeTest:
    """Read the test of a folder, with its first set of inputs and outputs."""
    path = folder / NODE_TEST_MODEL
    model = read_model(path)
    if model.not_tensors:
        raise NoTensorError("; ".join(model.not_tensors))
    data = min(folder.glob(DATA_SETS))
    given, expected = _arrays(data, "input"), _arrays(data, "output")
    for what, arrays, names in (
        ("inputs", given, model.inputs),
        ("outputs", expected, model.outputs),
    ):
        if len(arrays) != len(names):
            message = f"it has {len(arrays)} {what}, the model has {len(names)}"
            raise fail("file-error", str(data), message)
    return NodeTest(path, model, dict(zip(model.inputs, given, strict=True)), expected)


def _arrays(folder: Path, what: str) -> list[Array]:
    count = len(list(folder.glob(f"{what}_*.pb")))
    return [read_tensor(folder / f"{what}_{index}.pb") for index in range(count)]


def compare_node_test(
    test: NodeTest, graph: Graph, constants: Iterable[str], timeout: float
) -> Comparison:
    """Compare what a test's program gives on the reference model with what ONNX expects."""
    left = set(constants)
    given = [array for name, array in test.inputs.items() if name not in left]
    slots, results = input_slots(graph), output_slots(graph)
    if len(given) != len(slots) or len(test.outputs) != len(graph.main.outputs):
        message = (
            f"the program has {counted(len(slots), 'input')} and "
            f"{counted(len(graph.main.outputs), 'output')}, the test {len(given)} and "
            f"{len(test.outputs)}"
        )
        raise fail("frontend-failed", "onnx", message, "please report it")
    inputs = {s.key: as_slot(array, s) for s, array in zip(slots, given, strict=True)}
    by_key = {slot.key: slot for slot in results}
    expected = {
        name: _in_type_of(by_key[name], array)
        for name, array in zip(graph.main.outputs, test.outputs, strict=True)
    }
    short = [
        name
        for name, array in expected.items()
        if array.dtype.itemsize == 2 and array.dtype.kind not in "iub"
    ]
    tolerances = Tolerances(
        atol=((_ALL, 0.0), (FLOATING_POINT, _ATOL)),
        rtol=((_ALL, 0.0), (FLOATING_POINT, _RTOL), *((name, _RTOL_16_BITS) for name in short)),
    )
    return check_outputs(
        graph,
        inputs,
        Record("the test", expected),
        tolerances,
        RunOptions(timeout=timeout),
    )


def _in_type_of(slot: Slot, array: Array) -> Array:
    """Return an expected array in the program's type, if that holds the same values; else as it is."""
    target = np.dtype(slot.dtype.numpy)
    kinds = array.dtype.kind, target.kind
    if kinds == ("f", "f") and array.dtype.itemsize == 8:
        return array.astype(target)
    if kinds == ("u", "i") and array.dtype.itemsize == target.itemsize:
        return array.view(target)
    if kinds in (("i", "i"), ("u", "i")):
        narrow = array.astype(target)
        return narrow if np.array_equal(narrow, array) else array
    return array
