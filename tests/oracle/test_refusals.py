"""Changed modules: we read the numbers that MLIR reads, and explain what only one of us refuses."""

from __future__ import annotations

from typing import cast

import pytest
from oracle import compare_refusals
from oracle.compare_refusals import JUDGES, Judges, Tally, judged
from oracle.mlir_child import Read

import tosa_convert as tc

TEXT = """func.func @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "tosa.const"() <{values = dense<[1.0, 2.0]> : tensor<2xf32>}> : () -> tensor<2xf32>
  %1 = tosa.add %arg0, %0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
"""
#: What we refuse: the type of the constant is not that of its values.
WRONG = TEXT.replace("> : tensor<2xf32>}", "> : tensor<2xbf16>}")


def read(text: str) -> Read:
    """Return what a judge says who reads a module as this text."""
    return Read("", tc.dumps(tc.load(text.encode()), "mlirbc"))


def verdict(text: str, *said: Read) -> tuple[str, str]:
    """Return how judges who say this agree with us."""
    answers = dict(zip(JUDGES, said, strict=True))
    return judged(text.encode(), cast("Judges", lambda data: answers))


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize(("form", "count"), [("text", 50), ("bytecode", 50)])
def test_mutants_are_read_as_mlir_reads_them(form: str, count: int) -> None:
    tally = compare_refusals.compare({form: count}, seed=5)
    counts = tally.counts[form]
    assert sum(counts.values()) == count
    assert counts["all refuse"] >= count // 4
    assert counts["all accept, equal"] >= count // 20
    assert not tally.unexplained(), "\n".join(tally.lines())


@pytest.mark.oracle
def test_tosa_opt_and_torch_mlir_judge_a_module() -> None:
    judges = Judges()
    try:
        assert judged(TEXT.encode(), judges) == ("all accept, equal", "")
        assert judged(WRONG.encode(), judges) == ("all refuse", "")
        for answer in judges(WRONG.encode()).values():
            assert "same attr/result element types" in answer.refusal
    finally:
        judges.close()


REFUSED = Read("<stdin>:1:2: error: something 1")


@pytest.mark.parametrize(
    ("text", "said", "expected"),
    [
        (TEXT, (read(TEXT), read(TEXT)), ("all accept, equal", "")),
        (TEXT, (REFUSED, REFUSED), ("only MLIR refuses", "MLIR refuses: something _")),
        (TEXT, (read(TEXT), REFUSED), ("only MLIR refuses", "tosa-opt refuses: something _")),
        (WRONG, (REFUSED, REFUSED), ("all refuse", "")),
        (
            WRONG,
            (REFUSED, read(TEXT)),
            ("one MLIR refuses, and we", "we and torch-mlir refuse: something _"),
        ),
    ],
)
def test_a_disagreement_says_who_refuses(
    text: str, said: tuple[Read, Read], expected: tuple[str, str]
) -> None:
    assert verdict(text, *said) == expected


def test_other_numbers_in_one_reader_are_a_disagreement_without_an_explanation() -> None:
    other = read(TEXT.replace("2.0", "3.0"))
    found, kind = verdict(TEXT, read(TEXT), other)
    assert found == "other numbers"
    assert kind.startswith("tosa-opt differs: ")
    tally = Tally()
    tally.add("text", b"", found, kind)
    assert tally.unexplained() == [kind]


def test_only_we_refuse_what_both_readers_accept() -> None:
    found, kind = verdict(WRONG, read(TEXT), read(TEXT))
    assert found == "only we refuse"
    assert kind.startswith("we refuse: ")


def test_a_difference_without_an_explanation_is_listed() -> None:
    tally = Tally()
    tally.add("text", b"", "only MLIR refuses", "MLIR refuses: something new")
    tally.add("text", b"", "only we refuse", "we refuse: duplicate-name: twice")
    assert tally.unexplained() == ["MLIR refuses: something new"]
