from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rewrites.programs import kinds, program, rewritten

import tosa_convert as tc
from tosa_convert.cli.main import run, tosa_flatbuffer, verb
from tosa_convert.graph import Graph
from tosa_convert.graph.dtypes import RoundingMode

NAME = "reduce-before-rescale"
FOR_U55 = "vela:ethos-u55==5.2.0"


def largest(element: str = "int8", kind: str = "max", numbers: int = 1 << 30, **more: Any) -> Graph:
    """Return the distance of each number to the largest of its row, as a softmax begins."""

    def build(b: Any) -> Any:
        x = b.input("x", element, (4, 64))
        shift, zero = (12, 3) if element == "int8" else (20, 0)
        wide = b.rescale(x, numbers, shift, dtype="int32", input_zp=zero, **more)
        return b.sub(wide, getattr(b, f"reduce_{kind}")(wide, axis=1))

    return program(build)


@pytest.mark.parametrize(
    "graph",
    [largest(rounding_mode=RoundingMode.INEXACT_ROUND), largest("int32")],
    ids=["inexact", "int32"],
)
def test_what_may_change_the_order_or_gains_nothing_stays(graph: Graph) -> None:
    made, _ = rewritten(graph, NAME)
    assert made is graph


@pytest.mark.parametrize("accelerator", ["ethos-u55", "ethos-u65-512", "ethos-u85"])
def test_for_changes_what_the_accelerator_would_not_read(
    accelerator: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source, target = tmp_path / "m.tosa", tmp_path / "n.tosa"
    tc.save(largest(), source)
    reader = f"vela:{accelerator}==5.2.0"
    assert run(verb("repack"), [str(source), "-o", str(target), "--for", reader]) == 0
    is_changed = "u85" not in accelerator
    assert (f"changed for {reader}" in caplog.text) is is_changed
    assert kinds(tc.load(target)).count("RESCALE") == 1 + is_changed
    assert tc.validate(tc.load(target), for_reader=reader) == []
    found = tc.validate(tc.load(source), for_reader=reader)
    assert bool(found) is is_changed
    assert all(row.hint.startswith("repack and convert change that: --for vela") for row in found)


def test_doctor_prints_the_command_that_changes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tc.save(largest(), "m.tosa")
    run(verb("doctor"), ["m.tosa", "--for", FOR_U55])
    command = "tosa-flatbuffer repack m.tosa -o m_for_vela.tosa --for vela:ethos-u55"
    assert capsys.readouterr().out.splitlines()[-1].strip() == f"$ {command}"
    assert run(tosa_flatbuffer, command.split()[1:]) == 0
    assert tc.validate(tc.load("m_for_vela.tosa"), for_reader=FOR_U55) == []
