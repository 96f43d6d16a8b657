"""A seeded sample of the official tests: we and the outside tools agree on every file.

The sample is in $TOSA_SUITE_DIR, or made once in pytest's cache. For all of the official tests:
 `python tests/oracle/official_suite.py DIR` and `python tests/oracle/compare_suite.py DIR`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import compare_profiles, compare_suite, official_suite, written_cases
from oracle.judge import Judge, Verdict
from oracle.official_suite import Case

import tosa_convert as tc
from tosa_convert.builder import Builder, Value

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(bool(official_suite.missing()), reason=official_suite.missing()),
]

#: Operators that the official generator makes no tests for; cases/ has some.
NEVER_GENERATED = {"custom", "variable", "variable_read", "variable_write"}


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge() as found:
        yield found


@pytest.mark.slow
def test_a_part_of_the_sample_agrees_in_both_directions(official_cases: list[Case]) -> None:
    """At least one file of each operator."""
    first = {case.operator: case for case in reversed(official_cases)}
    files = [case.tosa for case in sorted({*official_cases[::20], *first.values()})]
    tally = compare_suite.Tally()
    for verdict in compare_suite.judge_all(files, os.cpu_count() or 1):
        tally.add(verdict)
    print("\n".join(tally.lines()))
    assert not tally.different, "\n".join(tally.lines())
    assert tally.passed
    assert tally.files >= 90
    assert set(official_suite.operators()) - tally.operators == NEVER_GENERATED
    # tosa-opt can judge nearly all. The reference model judges the others, each for a reason.
    assert tally.yes["exported"] > 0.95 * tally.files
    assert tally.yes["imported"] > 0.95 * tally.files


@pytest.mark.slow
def test_profiles_extensions_and_versions_are_those_of_the_descriptors(
    official_cases: list[Case],
) -> None:
    assert len(official_cases) >= 900
    for case in official_cases[::6]:
        unknown = [row for row in compare_profiles.compare(case.tosa.parent) if not row.reason]
        assert not unknown


def test_operators_that_the_generator_never_uses_have_a_case_written_by_hand() -> None:
    text = "".join(case.text for case in written_cases.cases())
    assert not [name for name in NEVER_GENERATED if f"tosa.{name}" not in text]


# -- proof that the comparison can fail ------------------------------------------------------------


def first(cases: list[Case], operator: str, words: str = "") -> Path:
    """Return the first case of an operator whose folder's name, with a slash, contains `words`."""
    for case in cases:
        if case.operator == operator and words in f"{case.folder.name}/":
            return case.tosa
    raise AssertionError(f"the sample has no {operator} {words}")


def built(path: Path, make: Callable[[Builder], Value]) -> Path:
    """Return a file of a program with one operator."""
    b = Builder("main")
    b.output(make(b))
    tc.save(b.graph(), path)
    return path


def spoil(monkeypatch: pytest.MonkeyPatch, change: Callable[[tc.Graph], None]) -> None:
    """Make every export of ours change the graph first."""
    real = tc.export_tosa_func_to_flatbuffer

    def export(module: Any, path: Path, **options: Any) -> None:
        graph = tc.load(real(module, **options))
        change(graph)
        tc.save(graph, path, validate=False)

    monkeypatch.setattr(tc, "export_tosa_func_to_flatbuffer", export)


def other_axis(graph: tc.Graph) -> None:
    for operator in graph.main.operators:
        if "axis" in operator.attributes:
            operator.attributes["axis"] = 1 - int(operator.attributes["axis"])  # type: ignore[arg-type]


def one_bit(graph: tc.Graph) -> None:
    for tensor in graph.main.tensors.values():
        if tensor.data is not None:
            flipped = bytearray(tensor.data.packed())
            flipped[0] ^= 1
            tensor.data.buffer = memoryview(flipped)
            return
    raise AssertionError("no constant to change")


def one_scale(graph: tc.Graph) -> None:
    for tensor in graph.main.tensors.values():
        if tensor.scale is not None and tensor.scale.data is not None:
            tensor.scale.data.buffer = memoryview(bytes(b ^ 1 for b in tensor.scale.data.packed()))
            return
    raise AssertionError("no block-scaled constant to change")


def outputs_swapped(graph: tc.Graph) -> None:
    graph.main.outputs.reverse()


def operand_swapped(graph: tc.Graph) -> None:
    for operator in graph.main.operators:
        if len(operator.inputs) == 2:
            operator.inputs = operator.inputs[::-1]


def dropped(graph: tc.Graph) -> None:
    graph.main.operators.pop()
    graph.main.outputs = list(graph.main.inputs)


def moved(graph: tc.Graph) -> None:
    for operator in graph.main.operators:
        operator.location = 'loc("elsewhere":7:7)'


SPOILT = [
    ("argmax", "", other_axis, "axis"),
    ("conv2d", "i8xi8", one_bit, "data[0]"),
    ("rfft2d", "", outputs_swapped, "outputs[0]"),
    ("sub", "", operand_swapped, "inputs[0]"),
    ("abs", "", dropped, ""),
]


@pytest.mark.slow
@pytest.mark.parametrize(("operator", "words", "change", "where"), SPOILT)
def test_a_changed_export_is_found(
    official_cases: list[Case],
    judge: Judge,
    monkeypatch: pytest.MonkeyPatch,
    operator: str,
    words: str,
    change: Callable[[tc.Graph], None],
    where: str,
) -> None:
    file = first(official_cases, operator, words)
    assert not judge.file(file).differences
    spoil(monkeypatch, change)
    verdict = judge.file(file)
    assert verdict.exported is False
    assert verdict.returned is False
    found = [line.partition(":")[0] for line in verdict.differences]
    assert "export" in found
    assert "round trip" in found
    assert where in next(line for line in verdict.differences if line.startswith("export"))


def test_a_changed_import_is_found(
    tmp_path: Path, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = built(tmp_path / "m.tosa", lambda b: b.reverse(b.input("x", "int8", (2, 3)), axis=0))
    real = tc.import_tosa_func_from_flatbuffer

    def load(source: Any, **options: Any) -> Any:
        graph = tc.load(source)
        other_axis(graph)
        path = judge.scratch / "spoilt.tosa"
        tc.save(graph, path, validate=False)
        return real(path, **options)

    monkeypatch.setattr(tc, "import_tosa_func_from_flatbuffer", load)
    verdict = judge.file(file)
    assert verdict.imported is False
    assert [line for line in verdict.differences if line.startswith("import: ") and "axis" in line]


@pytest.mark.slow
def test_a_change_of_scales_changes_what_the_reference_model_computes(
    official_cases: list[Case], judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = first(official_cases, "conv2d", "bs32-f8ue8m0-f8e4m3xbs32")
    verdict = judge.file(file)
    assert verdict.ran is True
    assert verdict.reason
    spoil(monkeypatch, one_scale)
    assert judge.file(file).ran is False


def test_a_change_of_locations_does_not_count(
    tmp_path: Path, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = built(tmp_path / "m.tosa", lambda b: b.abs(b.input("x", "int32", (2, 3))))
    spoil(monkeypatch, moved)
    assert not judge.file(file).differences


def test_a_file_that_the_oracle_refuses_for_an_unknown_reason_is_a_difference(
    judge: Judge, tmp_path: Path
) -> None:
    graph = tc.load(built(tmp_path / "m.tosa", lambda b: b.const(np.ones(16, np.int8), "int4")))
    one = next(tensor for tensor in graph.main.tensors.values() if tensor.data is not None)
    assert one.data is not None
    known = b"\x11" * len(one.data.buffer)
    one.data.buffer = memoryview(known)
    good = tmp_path / "test.tosa"
    tc.save(graph, good, validate=False)
    # An INT4 of -8: tosa-opt aborts, we refuse it. MLIR's verifier did not refuse it.
    data = good.read_bytes()
    assert data.count(known) == 1
    good.write_bytes(data.replace(known, b"\x18" + known[1:]))
    verdict = judge.file(good)
    assert "int4-minus-8" in verdict.differences[0]
    assert "crash" in verdict.differences[0]


def test_the_command_fails_when_nothing_was_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare_suite.main([str(tmp_path), "--jobs", "1"]) == 1
    assert "0 files" in capsys.readouterr().out


def test_one_difference_fails_the_command() -> None:
    tally = compare_suite.Tally()
    tally.add(Verdict("a", {"abs"}, exported=True, imported=True, returned=True))
    assert tally.passed
    tally.add(Verdict("b", {"abs"}, exported=True, imported=True, returned=True, differences=["x"]))
    assert not tally.passed


def test_a_failure_at_one_file_is_a_difference_and_the_others_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, sound = (
        built(tmp_path / name, lambda b: b.exp(b.input("x", "fp32", (2, 3))))
        for name in ("broken.tosa", "sound.tosa")
    )
    real = tc.load

    def load(source: Any) -> Any:
        if source == broken:
            raise KeyError("a bug")
        return real(source)

    monkeypatch.setattr(tc, "load", load)
    one, other = compare_suite.judge_files([broken, sound])
    assert one.differences == ["failed: KeyError('a bug')"]
    assert other.differences == []


def test_a_worker_that_dies_is_a_difference(tmp_path: Path) -> None:
    """MLIR may abort: the files must be reported, not lost."""
    verdicts = list(compare_suite.judge_all([tmp_path / "a", tmp_path / "b"], 2, work=die))
    assert [verdict.file for verdict in verdicts] == [str(tmp_path / "a"), str(tmp_path / "b")]
    assert all("died" in verdict.differences[0] for verdict in verdicts)


def die(files: object) -> list[Verdict]:
    os.abort()
