"""JSON -> Graph: hostile text costs neither much time nor much memory."""

from __future__ import annotations

import json
import time
import tracemalloc

import numpy as np
import pytest
from unit.building import example, graph, op, tensor
from unit.json_text import refused, same, text

from tosa_convert.formats.json import values
from tosa_convert.formats.json.read import read
from tosa_convert.graph import compare
from tosa_convert.io.options import DEFAULT_LIMITS


@pytest.mark.parametrize(
    "nest",
    [
        b'{"x": ' + b"[" * 1_000_000,
        b'{"x": ' + b'{"a":' * 1_000_000,
        b'{"regions": ' + b"[" * 1_000_000,
        b"[" * 1_000_000,
        b'{"regions": [{"blocks": ' * 100_000,
    ],
)
def test_deep_nesting_is_refused(nest: bytes) -> None:
    assert refused(nest).code == "malformed-json"


@pytest.mark.parametrize(
    ("raw", "limit"),
    [
        (b'{"regions": [' + b"{}," * 50_000, 20),
        (b'{"regions": [{"blocks": [' + b"{}," * 50_000, 20),
        (b'{"regions": [{"blocks": [{"tensors": [' + b"{}," * 10_000, 20),
        pytest.param(
            b'{"regions": [{"blocks": [{"operators": [' + b"{}," * 50_000,
            20,
            marks=pytest.mark.slow,
        ),
        pytest.param(
            b'{"regions": [{"blocks": [{"tensors": [' + b"{}," * 50_000, 20, marks=pytest.mark.slow
        ),
        pytest.param(
            b'{"regions": [{"blocks": [{"shapes": [' + b"{}," * 50_000, 50, marks=pytest.mark.slow
        ),
        pytest.param(
            b'{"regions": [{"blocks": [{"inputs": [' + b"[]," * 50_000, 20, marks=pytest.mark.slow
        ),
        (b'{"regions": [{"blocks": [{"inputs": [' + b'"",' * 50_000, 20),
        (b'{"x": [' + b"[]," * 50_000, 20),
        (b'{"x": ["' + b"a" * 150_000, 20),
        (b'{"regions": [{"name": "' + b"\\n" * 75_000, 20),
        (b'{"' + b"a" * 150_000 + b'": 1}', 20),
        (b"{" + b"a" * 150_000 + b": 1}", 20),
        (b'{"version": {"_major": ' + b"9" * 150_000, 20),
        (b'{"regions": [{"blocks": [{"tensors": [{"shape": [' + b"1," * 75_000, 20),
        (b'{"regions": [{"blocks": [{"tensors": [{"data": [' + b"1," * 75_000 + b"]", 20),
        (b'{"regions": [{"blocks": [{"tensors": [{"data": [' + b"1,/**/" * 25_000 + b"]", 20),
        (b'{"regions": [{"blocks": [{"tensors": [{"data": [' + b" " * 150_000 + b"]", 20),
        (b'{"regions": [{"blocks": [{"tensors": [{"data": [' + b"9" * 150_000 + b"]", 20),
        (b'{"regions": [{"blocks": [{"tensors": [{"data": [' + b"," * 150_000 + b"]", 20),
        (b"//" * 75_000, 20),
        (b"/**/" * 40_000, 20),
        (b'{"x":1,' * 25_000, 20),
    ],
)
def test_a_hostile_file_costs_neither_much_time_nor_much_memory(raw: bytes, limit: int) -> None:
    started = time.monotonic()
    tracemalloc.start()
    try:
        refused(raw)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < (4 << 20) + limit * len(raw)
    # Generous: tracing makes it several times slower, and quadratic code would take hours.
    assert time.monotonic() - started < 60


def test_weights_take_little_more_memory_than_their_bytes() -> None:
    count = 1 << 21
    value = tensor("t", "INT8", (count,), bytes(np.arange(count, dtype=np.uint8)))
    raw = text(graph("", "t", [value], [op("CONST", "", "t")]))
    tracemalloc.start()
    found = read(memoryview(raw))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * count + (32 << 20)
    assert value.data is not None
    data = found.main.tensors["t"].data
    assert data is not None
    assert data.same_bits(value.data)


def strings_in(scanner: values.Scanner) -> list[str]:
    """Return the members of the list that the scanner is at."""
    return list(scanner.strings())


def test_strings_that_the_text_repeats_are_one_object() -> None:
    raw = memoryview(b'["first", "second", "first", "sec\\u006fnd"]')
    first, _, again, _ = strings_in(values.Scanner(raw, DEFAULT_LIMITS))
    assert first is again


def test_no_more_strings_are_remembered_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "REMEMBERED", 2)
    raw = memoryview(json.dumps([f"name {index % 5}" for index in range(50)]).encode())
    scanner = values.Scanner(raw, DEFAULT_LIMITS)
    largest = 0

    def counted(data: bytes, at: int) -> str:
        nonlocal largest
        result = values.Scanner.remembered(scanner, data, at)
        largest = max(largest, len(scanner._strings))
        return result

    monkeypatch.setattr(scanner, "remembered", counted)
    assert strings_in(scanner) == json.loads(bytes(raw))
    assert largest == 2
    same(example(), text(example()))


def test_the_graph_does_not_refer_to_the_buffer() -> None:
    raw = bytearray(text(example()))
    found = read(raw)
    raw[:] = bytes(len(raw))
    raw.clear()
    assert compare(found, example()) is None
