"""Variables of TFLite that handles name, as variables of TOSA."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frontends.lowered_tflite import NEEDS_TFLITE, lowered
from frontends.tflite_models import OperatorRow, Subgraph, TensorRow, model
from frontends.tflite_schema import ACTIVATIONS

import tosa_convert as tc
from tosa_convert.cli.main import run, verb

pytestmark = NEEDS_TFLITE


def floats(*values: float) -> Any:
    return np.array(values, np.float32)


def handle(tensor: int, name: str) -> OperatorRow:
    return OperatorRow("VAR_HANDLE", (), (tensor,), {"shared_name": name})


def rows_of(*names: str, dtype: str = "float32") -> list[TensorRow]:
    """Return a handle, and tensors of two elements."""
    return [TensorRow("handle", "resource", ()), *(TensorRow(name, dtype, (2,)) for name in names)]


def initial(value: Any, more: Sequence[OperatorRow] = ()) -> Subgraph:
    """Return a subgraph that assigns a value, and does more."""
    rows = [TensorRow("h", "resource", ()), TensorRow("c", value.dtype.name, value.shape, value)]
    rows.append(TensorRow("d", value.dtype.name, value.shape))
    assign = OperatorRow("ASSIGN_VARIABLE", (0, 2 if more else 1), ())
    return Subgraph(rows, [handle(0, "total"), *more, assign], [], [])


CALL = OperatorRow("CALL_ONCE", (), (), {"init_subgraph_index": 1})


@pytest.mark.parametrize(
    ("number", "code", "message"),
    [
        (2, "not-lowered", "the subgraph that it calls assigns no constant"),
        (3, "unrecognised-input", "the TFLite file has no subgraph 3"),
    ],
)
def test_only_constants_are_initial_values(
    number: int, code: str, message: str, tmp_path: Path
) -> None:
    empty = Subgraph(
        rows_of("c"), [handle(0, "total"), OperatorRow("ASSIGN_VARIABLE", (0, 1), ())], [], []
    )
    call = replace(CALL, options={"init_subgraph_index": number})
    with pytest.raises(tc.TosaConvertError, match=message) as caught:
        lowered(tmp_path, rows_of("x"), [call], [1], [1], others=[initial(floats(5, 7)), empty])
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("first", "message"),
    [
        (initial(floats(5, 7), [OperatorRow("ABS", (1,), (2,))]), "that it calls has ABS"),
        (initial(floats(5, 7, 9)), r"its variable holds float32 \[2\], and at first others"),
        (initial(np.ones(2, np.int32)), r"its variable holds float32 \[2\], and at first others"),
    ],
)
def test_other_first_values_are_refused(first: Subgraph, message: str, tmp_path: Path) -> None:
    operators = [CALL, handle(0, "total"), OperatorRow("READ_VARIABLE", (0,), (2,))]
    with pytest.raises(tc.TosaConvertError, match=message):
        lowered(tmp_path, rows_of("x", "y"), operators, [1], [2], others=[first])


def test_each_variable_has_its_own_first_value(tmp_path: Path) -> None:
    rows = [*rows_of("x", "a", "b", "y"), TensorRow("other", "resource", ())]
    first = initial(floats(5, 7))
    more = [TensorRow("o", "resource", ()), TensorRow("e", "float32", (2,), floats(1, 2))]
    more.append(TensorRow("none", "float32", (2,)))
    both = [handle(3, "other"), OperatorRow("ASSIGN_VARIABLE", (3, 4), ())]
    first = replace(first, tensors=[*first.tensors, *more], operators=[*first.operators, *both])
    operators = [CALL, handle(0, "total"), handle(5, "other")]
    operators += [OperatorRow("READ_VARIABLE", (at,), (to,)) for at, to in ((0, 2), (5, 3))]
    operators.append(OperatorRow("SUB", (2, 3), (4,)))
    graph = lowered(tmp_path, rows, operators, [1], [4], others=[first])
    (found,) = tc.run(graph, {"x": floats(0, 0)}).outputs.values()
    np.testing.assert_array_equal(found, [4, 5])


def test_parts_of_a_program_with_variables_are_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = rows_of("x", "before", "sum", "y")
    operators = [
        CALL,
        handle(0, "total"),
        OperatorRow("READ_VARIABLE", (0,), (2,)),
        OperatorRow("ADD", (1, 2), (3,)),
        OperatorRow("ADD", (3, 3), (4,), {"activation": ACTIVATIONS["tanh"]}),
    ]
    path = tmp_path / "m.tflite"
    path.write_bytes(model(rows, operators, [1], [4], others=[initial(floats(5, 7))]))
    words = [str(path), "-o", str(tmp_path / "m.tosa"), "--partial"]
    assert run(verb("convert"), words) == 4
    said = capsys.readouterr().err
    assert "the program has the states total, which several programs cannot share" in said
