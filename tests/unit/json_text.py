"""JSON texts of a small program, with one thing changed."""

from __future__ import annotations

import json
from typing import Any

from refusing import error_of
from unit.building import PRODUCER

from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.json.read import read
from tosa_convert.formats.json.write import write
from tosa_convert.graph import Graph, compare

Json = Any
OPERATOR = "regions[0].blocks[0].operators[0]"
TENSOR = "regions[0].blocks[0].tensors[0]"


def text(made: Graph) -> bytes:
    return b"".join(write(made, PRODUCER))


def same(made: Graph, raw: bytes) -> None:
    found = read(raw)
    assert compare(made, found, locations=True, version=True) is None
    assert found.producer == PRODUCER
    # The text also has what the comparison ignores, such as padding.
    assert text(found) == text(made)


def base() -> Json:
    """Return a program that reverses a constant, as Python values to be changed."""
    return json.loads(
        """{
        "version": {"_major": 1, "_minor": 1, "_patch": 0},
        "regions": [{"name": "main", "blocks": [{
            "name": "main",
            "operators": [{
                "op": "REVERSE", "attribute_type": "ReverseAttribute", "attribute": {"axis": 1},
                "inputs": ["a"], "outputs": ["b"]}],
            "tensors": [
                {"name": "a", "shape": [2], "type": "INT8", "data": [1, 2]},
                {"name": "b", "shape": [2], "type": "INT8"}],
            "outputs": ["b"]}]}]
    }"""
    )


def changed(path: str, value: Any = None, *, drop: bool = False) -> bytes:
    """Return the program with another value at `path` of the operator, tensor or graph."""
    made = base()
    head, _, key = path.rpartition(".")
    place = {
        "": made,
        "version": made["version"],
        "region": made["regions"][0],
        "block": made["regions"][0]["blocks"][0],
        "operator": made["regions"][0]["blocks"][0]["operators"][0],
        "attribute": made["regions"][0]["blocks"][0]["operators"][0]["attribute"],
        "tensor": made["regions"][0]["blocks"][0]["tensors"][0],
    }[head]
    if drop:
        del place[key]
    else:
        place[key] = value
    return json.dumps(made).encode()


def respelled(old: str, new: str) -> bytes:
    """Return the program's text with one passage replaced by another."""
    raw = json.dumps(base())
    assert raw.count(old) >= 1
    return raw.replace(old, new, 1).encode()


def refused(raw: bytes) -> TosaConvertError:
    return error_of(read, raw)
