"""Renaming of arguments and results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from refusing import refused
from unit.building import example, graph, op, tensor

import tosa_convert as tc
from tosa_convert.cli.main import run, verb
from tosa_convert.errors import TosaConvertError
from tosa_convert.graph import verify
from tosa_convert.graph.derived import extract, rename_in_order


def program() -> tc.Graph:
    tensors = [tensor(name, "FP32", (2,)) for name in ("a", "b", "t", "y", "z")]
    operators = [op("ADD", "a b", "t"), op("EXP", "t", "y"), op("ABS", "t", "z")]
    return graph("a b", "y z", tensors, operators)


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        (["x"], None, 'found 1 names for 2 arguments: "a", "b"'),
        (None, ["x", "y", "z"], "found 3 names for 2 results"),
        (["x", "x"], None, "would both be called 'x'"),
        (["t", "x"], None, "would both be called 't'"),
        (["x", "w"], ["w", "v"], "would both be called 'w'"),
        (["x", ""], None, "found '', expected a name"),
        (["x", 3], None, "found 3, expected a name"),
        ("xw", None, "expected a list of names"),
    ],
)
def test_names_that_clash_or_have_the_wrong_number_are_refused(
    inputs: Any, outputs: Any, message: str
) -> None:
    with refused("option-conflict", message):
        tc.rename(program(), inputs, outputs)


def test_a_value_that_is_an_argument_and_a_result_has_one_name() -> None:
    through = graph("x", "x", [tensor("x")], [])
    assert tc.rename(through, ["y"]).main.outputs == ["y"]
    assert tc.rename(through, ["y"], ["y"]).main.inputs == ["y"]
    with pytest.raises(tc.TosaConvertError, match="would get two names"):
        tc.rename(through, ["y"], ["z"])


def test_a_wrong_number_of_names_leaves_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tc.save(program(), tmp_path / "m.tosa")
    arguments = [str(tmp_path / "m.tosa"), "-o", str(tmp_path / "n.json"), "--input-names", "p"]
    assert run(verb("convert"), arguments) == 2
    assert "found 1 names for 2 arguments" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["m.tosa"]


def test_names_of_frameworks_are_made_to_fit() -> None:
    made = program()
    renamed = rename_in_order(made, ["t", ""], ["t", "b"])
    assert renamed.main.inputs == ["t", "b"]
    assert renamed.main.outputs == ["t_1", "b_1"]
    assert "t_2" in renamed.main.tensors, "the value between them had the name"
    assert verify(renamed) == []
    assert tc.compare(renamed, made, names=False) is None


def test_an_unknown_output_that_is_close_to_none_lists_the_outputs() -> None:
    with pytest.raises(TosaConvertError, match='its outputs are "y"'):
        extract(example(), ["nosuch"])
