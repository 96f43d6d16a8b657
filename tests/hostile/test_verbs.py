"""Command lines on programs and files that are damaged in ways the campaign of fuzz/ has found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from unit.building import PRODUCER, graph, op, tensor

import tosa_convert as tc
from tosa_convert.cli.main import run, verb
from tosa_convert.errors import TosaConvertError
from tosa_convert.flatbuffer.write import plan
from tosa_convert.graph import OPERATORS

#: Verbs that look at every operator, and their arguments after the file.
INSPECTING = {
    "show": ["--operators"],
    "show --json": ["--json", "--operators", "--tensors"],
    "validate": ["--for", "vela"],
    "doctor": [],
    "report": ["-o", "m.dot"],
    "rewrite": ["-o", "out.tosa", "--no-validate"],
    "extract": ["--outputs", "y", "-o", "out.tosa", "--no-validate"],
    "weights": ["-o", "out.tosa"],
    "diff": ["m.json"],
    "convert": ["-o", "out.mlir", "--no-validate"],
    "upgrade": ["-o", "out.tosa", "--no-validate"],
}


@pytest.mark.parametrize("operands", [0, 1, 9])
def test_operators_with_a_wrong_number_of_operands_are_no_defect(
    operands: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    values, operators = [tensor("x", "INT8"), tensor("y", "INT8")], [op("IDENTITY", "x", "y")]
    program = json.loads(tc.dumps(graph("x", "y", values, operators), "json"))
    block = program["regions"][0]["blocks"][0]
    wrong = []
    for spec in OPERATORS:
        operator = {"op": spec.name, "attribute_type": f"{spec.table}Attribute", "attribute": {}}
        block["operators"] = [{**operator, "inputs": ["x"] * operands, "outputs": ["y"]}]
        Path("m.json").write_text(json.dumps(program))
        try:
            Path("m.tosa").write_bytes(b"".join(plan(tc.load("m.json"), PRODUCER).pieces()))
        except TosaConvertError:
            continue  # It lacks an attribute that has no default.
        for words, further in INSPECTING.items():
            name = words.split()[0]
            command = ["strip", "m.tosa"] if name == "weights" else ["m.tosa"]
            code = run(verb(name), [*command, *further])
            if code not in (0, 1, 2, 3, 4):
                wrong.append(f"{spec.name} {words}: {capsys.readouterr().err[-900:]}")
    assert not wrong, "\n".join(wrong)
