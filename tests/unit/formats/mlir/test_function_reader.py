"""Operations that are read all at once are read as one by one."""

from __future__ import annotations

import random

import pytest

import tosa_convert as tc
from tosa_convert.formats.mlir.bytecode import operations
from tosa_convert.formats.mlir.read import columns
from tosa_convert.io.options import Names
from tosa_convert.qualify.random_graphs.generate import generate


def outcome(data: bytes, names: Names) -> str:
    """Return the program as JSON, or the findings."""
    try:
        return tc.dumps(tc.load(data, names=names), "json").decode()
    except tc.TosaConvertError as error:
        return str(error)


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Return the data with another byte somewhere, near its end in most cases.

    There are the operations.
    """
    changed = bytearray(data)
    at = chance.randrange(len(data) // 2, len(data))
    changed[at] = chance.choice((changed[at] ^ 2, changed[at] ^ 4, chance.randrange(256)))
    return bytes(changed)


@pytest.mark.slow
@pytest.mark.parametrize("names", ["retain", "generate"])
def test_operations_read_all_at_once_equal_others(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(7)
    cases = []
    for seed in range(6):
        data = tc.dumps(generate(seed, 14), "mlirbc", names=names)
        cases += [data, *(damaged(data, chance) for _ in range(15))]
    quick = columns.read_all_at_once
    taken: list[bool] = []

    def counted(*args: object) -> bool:
        taken.append(quick(*args))  # type: ignore[arg-type]
        return taken[-1]

    monkeypatch.setattr(operations, "_MIN_COLUMNS", 2)
    monkeypatch.setattr(columns, "read_all_at_once", counted)
    found = [outcome(data, names) for data in cases]
    assert {True, False} == set(taken)
    assert len(set(found)) > len(cases) // 4
    monkeypatch.setattr(columns, "read_all_at_once", lambda *_: False)
    for data, expected in zip(cases, found, strict=True):
        assert outcome(data, names) == expected
