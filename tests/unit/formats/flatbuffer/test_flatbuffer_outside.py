"""Files exchanged with the `flatbuffers` package in both directions, and one file written by hand."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from unit.both_readers import read
from unit.building import PRODUCER, branching, example, graph, op, shape, tensor

from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.flatbuffer import write as writing
from tosa_convert.formats.flatbuffer.write import plan
from tosa_convert.graph import (
    Graph,
    compare,
    verify,
)

flatbuffers = pytest.importorskip("flatbuffers", reason="the flatbuffers package is not installed")

from unit import outside_flatbuffer as outside  # noqa: E402 - it imports flatbuffers


def encode(made: Graph, **options: Any) -> bytes:
    return b"".join(plan(made, PRODUCER, **options).pieces())


@pytest.mark.slow
def test_the_hash_seed_does_not_affect_the_bytes(root: Any) -> None:
    script = (
        "import sys; sys.path.insert(0, 'tests')\n"
        "from unit.building import *\n"
        "from tosa_convert.formats.flatbuffer.write import plan\n"
        "sys.stdout.buffer.write(b''.join(plan(branching(), PRODUCER).pieces()))\n"
    )
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        found = subprocess.run(
            [sys.executable, "-c", script],
            cwd=root,
            env=environment,
            capture_output=True,
            check=True,
        )
        assert found.stdout == encode(branching())


def test_data_moves_out_of_line_at_the_size_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = tensor("w", "INT8", (4096,), bytes(range(256)) * 16)
    made = graph("", "w", [weight], [op("CONST", "", "w")])
    whole = plan(made, PRODUCER, out_of_line=False).size
    monkeypatch.setattr(writing, "SIZE_LIMIT", whole + 1)
    assert not plan(made, PRODUCER).out_of_line
    monkeypatch.setattr(writing, "SIZE_LIMIT", whole)
    assert plan(made, PRODUCER).out_of_line
    with pytest.raises(TosaConvertError) as caught:
        plan(made, PRODUCER, out_of_line=False)
    assert caught.value.code == "too-large"
    monkeypatch.setattr(writing, "SIZE_LIMIT", 100)
    with pytest.raises(TosaConvertError, match="without weights") as caught:
        plan(made, PRODUCER)
    assert caught.value.code == "too-large"


def test_a_constant_is_a_view_of_the_buffer() -> None:
    data = bytearray(encode(example()))
    found = read(data).main.tensors["w"].data
    assert found is not None
    data[data.rindex(bytes(found.packed())) + 4] ^= 0xFF
    assert bytes(found.packed())[4] == 0xFF


def test_constants_without_elements_remain_constants() -> None:
    made = graph("", "e", [tensor("e", shape=(0, 3), data=b""), shape("s")],
                 [op("CONST", "", "e"), op("CONST_SHAPE", "", "s")])  # fmt: skip
    for out_of_line in (False, True):
        found = read(encode(made, out_of_line=out_of_line))
        assert verify(found) == []
        assert compare(made, found) is None


@pytest.mark.parametrize("name", ["", "é", "\N{GRINNING FACE}", "a\0b", "x" * 70_000, 'a\\"\n'])
def test_any_name_survives(name: str) -> None:
    made = graph("", "", [tensor(name)], [])
    made.main.inputs = [name]
    data = encode(made)
    assert outside.read(data)["regions"][0]["blocks"][0]["inputs"] == [name]
    assert compare(made, read(data)) is None


def test_a_name_with_a_lone_surrogate_is_refused() -> None:
    made = graph("", "", [tensor("half\ud800")], [])
    with pytest.raises(TosaConvertError, match=r"half\\ud800"):
        encode(made)


def test_sizes_beyond_the_rank_of_a_shape_are_dropped() -> None:
    fields = outside.read(encode(graph("", "", [shape("s", 5, 7, 9)], [])))
    (row,) = fields["regions"][0]["blocks"][0]["shapes"]
    row["rank"] = 2
    data = read(outside.write(fields)).main.shapes["s"].data
    assert data is not None
    assert (data.numpy().tolist(), data.buffer.nbytes) == ([5, 7], 16)
