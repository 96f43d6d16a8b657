"""JSON of a valid program with one or two tokens replaced: refused, or a program that can be written."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytest.importorskip("hypothesis", reason="hypothesis is not installed")

from hypothesis import given, settings
from hypothesis import strategies as st
from roundtrip.graphs import graphs
from roundtrip.test_flatbuffer import QUICK

import tosa_convert as tc
from tosa_convert import api
from tosa_convert.graph import Graph, compare, verify

#: A string, a number or word, or a mark.
TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\w.+-]+|[^\s\w]')
OTHERS = [
    b"null", b"true", b"{}", b"[]", b'""', b"-1", b"1.5", b"1e400", b"NaN", b'"\\ud800"', b'"\xff"',
    b"9" * 30, b"[" * 100, b'"FP32"', b'"ADD"', b'"COND_IF"', b"2147483648", b'"UNKNOWN"', b"}", b"",
]  # fmt: skip


def text_of(made: Graph) -> bytes:
    pieces: Any = api.render(made, "json", weights="embedded")
    return b"".join(bytes(piece) for piece in pieces)


@settings(QUICK, max_examples=20)
@given(graphs())
def test_a_graph_survives_json_exactly(made: Graph) -> None:
    text = text_of(made)
    found = tc.load(text)
    assert compare(made, found, locations=True, version=True) is None
    assert text_of(found) == text


@pytest.mark.slow
@settings(QUICK, max_examples=80)
@given(graphs(), st.data())
def test_json_with_replaced_tokens_is_refused_or_is_a_program(made: Graph, data: Any) -> None:
    text = text_of(made)
    places = [match.span() for match in TOKEN.finditer(text)]
    for _ in range(data.draw(st.integers(1, 2))):
        start, end = data.draw(st.sampled_from(places))
        other = data.draw(st.sampled_from(places))
        new = data.draw(st.sampled_from([text[slice(*other)], *OTHERS]))
        text = text[:start] + new + text[end:]
    try:
        found = tc.load(text)
        written = text_of(found)
    except tc.TosaConvertError:
        return
    again = tc.load(written)
    assert verify(again) == []
    assert compare(found, again, locations=True, version=True) is None
    assert text_of(again) == written
