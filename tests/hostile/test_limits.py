"""Limits have names, hold, and can be set."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import pytest
from click.testing import CliRunner
from unit.building import example

import tosa_convert as tc
from tosa_convert import api
from tosa_convert.cli.convert import convert
from tosa_convert.limits import LIMITS, limit, set_limit

DEEP = b'{"unknown": ' + b"[" * 50 + b"]" * 50 + b"}"
TOSA = b"".join(bytes(piece) for piece in api.encode(example()))


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = {name: limit(name) for name in LIMITS}
    yield
    for name, value in before.items():
        set_limit(name, value)


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_is_the_constant_that_its_module_uses(name: str) -> None:
    row = LIMITS[name]
    set_limit(name, limit(name) - 1)
    module = importlib.import_module(f"tosa_convert.{row.module}")
    assert getattr(module, row.constant) == limit(name)


@pytest.mark.parametrize(
    ("name", "value", "data", "code"),
    [
        ("input-bytes", 100, TOSA, "too-large"),
        ("json-depth", 40, DEEP, "nested deeper than 40"),
        ("flatbuffer-memory", 1, TOSA, "malformed-flatbuffer"),
    ],
)
def test_a_lower_limit_refuses_what_passed(name: str, value: int, data: bytes, code: str) -> None:
    def said() -> str:
        try:
            tc.load(data)
        except tc.TosaConvertError as error:
            return str(error)
        return ""

    set_limit("flatbuffer-memory-per-byte", 1 if name == "flatbuffer-memory" else 12)
    assert code not in said()
    set_limit(name, value)
    assert code in said()


@pytest.mark.parametrize(
    ("name", "value"), [("depth", 1), ("json-depth", 0), ("location-depth", 999)]
)
def test_a_limit_that_is_none_is_refused(name: str, value: int) -> None:
    with pytest.raises(tc.TosaConvertError, match="expected") as caught:
        set_limit(name, value)
    assert caught.value.code == "option-conflict"


def test_the_command_sets_limits() -> None:
    refused = CliRunner().invoke(convert, ["--limit", "input-bytes=10"], input=TOSA)
    assert isinstance(refused.exception, tc.TosaConvertError)
    assert refused.exception.code == "too-large"
    for wrong in ("input-bytes", "input-bytes=-1", "=1", "input-bytes=1e3"):
        done = CliRunner().invoke(convert, ["--limit", wrong], input=TOSA)
        assert done.exit_code == 2 or isinstance(done.exception, tc.TosaConvertError), wrong
