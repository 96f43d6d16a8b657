"""JSON -> Graph: programs and values that are read."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.building import example, graph, op, tensor
from unit.json_text import Json, base, changed, same, text

from tosa_convert.formats.json.read import read


@pytest.mark.parametrize("dims", [(), (0,), (2, 0, 3), (1, 1)])
def test_rank_0_and_empty_constants_survive(dims: tuple[int, ...]) -> None:
    count = int(np.prod(dims))
    made = graph("", "t", [tensor("t", "INT16", dims, bytes(2 * count))], [op("CONST", "", "t")])
    same(made, text(made))


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_name_survives(name: str, location: str) -> None:
    made = graph("x", "y", [tensor("x"), tensor("y")], [op("EXP", "x", "y", location)])
    made.main.name = name
    same(made, text(made))


@pytest.mark.parametrize(
    "layout",
    [
        lambda made: json.dumps(made, separators=(",", ":")),
        lambda made: json.dumps(made, indent=8),
        lambda made: json.dumps(made, indent="\t").replace("\n", "\r\n"),
        lambda made: "\ufeff" + json.dumps(made),
        lambda made: json.dumps(made, sort_keys=True),
        lambda made: "// a\n/* b\n* / ** */" + json.dumps(made, indent=1).replace("\n", "//,\n"),
        lambda made: json.dumps(made).replace(":", "/* : */:/**/").replace(",", "//\r,"),
        lambda made: (
            json.dumps(made)
            .replace("]", ",]")
            .replace("}", ", }")
            .replace("[,]", "[]")
            .replace("{, }", "{}")
        ),
        lambda made: json.dumps(made).replace('"regions"', "regions").replace('"data"', "data"),
        lambda made: json.dumps(made).replace('"type"', '"\\u0074ype"'),
    ],
    ids=[
        "compact",
        "indented",
        "CRLF",
        "BOM",
        "sorted keys",
        "comments between lines",
        "comments around punctuation",
        "trailing commas",
        "bare keys",
        "escaped key",
    ],
)
def test_the_form_of_the_text_makes_no_difference(layout: Callable[[Json], str]) -> None:
    made = example()
    for row in made.main.operators:
        # Some of the layouts replace punctuation wherever it is.
        row.location = "here"
    assert text(read(layout(json.loads(text(made))).encode())) == text(made)


def test_attributes_may_come_before_their_type() -> None:
    made = base()
    row = made["regions"][0]["blocks"][0]["operators"][0]
    for key in ("attribute_type", "op"):
        row[key] = row.pop(key)
    assert read(json.dumps(made).encode()).main.operators[0].attributes == {"axis": 1}


def test_up_to_7_bytes_of_padding_are_preserved() -> None:
    found = read(changed("tensor.data", [1, 2, 9, 9, 9])).main.tensors["a"].data
    assert found is not None
    assert (found.padding, bytes(found.buffer)) == (3, b"\1\2")
    found = read(changed("tensor.data", [1, 2, *[0] * 8])).main.tensors["a"].data
    assert found is not None
    assert found.padding == 0
