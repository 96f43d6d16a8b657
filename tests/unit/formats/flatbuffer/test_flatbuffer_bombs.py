"""Small files that describe enormous graphs, because a flatbuffer may share its parts."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from refusing import refused
from unit.building import encode, graph, op, tensor
from unit.surgery import File

from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.flatbuffer.read import read
from tosa_convert.graph import verify

flatbuffers = pytest.importorskip("flatbuffers", reason="the flatbuffers package is not installed")

from unit import outside_flatbuffer as outside  # noqa: E402 - it imports flatbuffers

Fields = dict[str, Any]
VERSION = {"_major": 1, "_minor": 0, "_patch": 0, "_draft": False}
#: Peak memory that a file may use: a constant, and an amount for each of its bytes.
FREE_BYTES = 64 << 20
BYTES_PER_BYTE = 8


def file(*blocks: Fields, regions: list[Fields] | None = None) -> bytes:
    """Return a file of these blocks, a region each."""
    if regions is None:
        regions = [{"name": f"{index}", "blocks": [b]} for index, b in enumerate(blocks)]
    return outside.write({"version": VERSION, "regions": regions})


def exp(inputs: list[str], outputs: list[str]) -> Fields:
    return {"op": 37, "attribute_type": 37, "attribute": {}, "inputs": inputs, "outputs": outputs}


def one_region_many_times() -> bytes:
    return file(regions=[{"name": "r" * 50_000, "blocks": [{"name": "b" * 50_000}]}] * 8_000)


def many_regions_of_one_block() -> bytes:
    block = {"operators": [exp(["x"], ["y"])] * 4_000, "tensors": [{"name": "x"}] * 4_000}
    return file(regions=[{"name": f"{index}", "blocks": [block]} for index in range(2_000)])


def one_list_of_names_in_many_operators() -> bytes:
    names = ["x"] * 20_000
    return file({"operators": [exp(names, names) for _ in range(2_000)]})


def one_shape_in_many_tensors() -> bytes:
    sizes = [1] * 50_000
    return file({"tensors": [{"name": f"{i}", "type": 7, "shape": sizes} for i in range(3_000)]})


def one_list_of_numbers_in_many_operators() -> bytes:
    attribute = {"perms": [0] * 50_000}
    row = {
        "op": 61,
        "attribute_type": 61,
        "attribute": attribute,
        "inputs": ["x"],
        "outputs": ["x"],
    }
    return file({"operators": [row] * 8_000, "tensors": [{"name": "x", "type": 7}]})


def one_long_name_in_many_findings() -> bytes:
    name = "n" * 100_000
    operators = [exp([name], [name])] * 8_000
    return file(
        {"name": name, "operators": operators, "tensors": [{"name": name, "type": 99}] * 8_000}
    )


def one_undefined_operand_in_many_operators() -> bytes:
    return file({"operators": [exp(["x"], ["y"])] * 8_000, "tensors": [{"name": "y", "type": 7}]})


def a_tensor_of_many_dimensions() -> bytes:
    sizes = [2**31 - 1] * 50_000
    return file({"tensors": [{"name": "x", "type": 7, "shape": sizes, "data": bytes(8)}]})


def a_shape_of_many_wrong_dimensions() -> bytes:
    return file({"tensors": [{"name": "x", "type": 7, "shape": [-2] * 50_000}]})


def one_weight_of_many_constants() -> bytes:
    weight = bytes(200_000)
    tensors = [
        {"name": f"{i}", "type": 3, "shape": [200_000], "data": weight} for i in range(5_000)
    ]
    return file({"tensors": tensors})


def one_weight_out_of_line_of_many_constants() -> bytes:
    size = 200_000
    tensors = [
        {"name": f"{i}", "type": 3, "shape": [size], "offset": 8, "size": size}
        for i in range(5_000)
    ]
    return file({"tensors": tensors})


def overlapping_blobs_of_many_operators() -> bytes:
    """Each word of a blob is the length of a vector that starts after it."""
    operators = [
        {"op": 69, "attribute_type": 69, "attribute": {"implementation_attrs": bytes(4)},
         "inputs": [], "outputs": []}
        for _ in range(5_000)
    ]  # fmt: skip
    found = File(file({"operators": operators}) + (50_000).to_bytes(4, "little") * 25_000)
    blob = len(found) - 100_000
    for index in range(5_000):
        field = found.at(f"regions 0 blocks 0 operators {index} attribute 2").field
        found.put("I", field, blob + 4 * index - field)
    return bytes(found)


def one_blob_of_many_operators() -> bytes:
    custom = {"operator_name": "f", "domain_name": "d", "implementation_attrs": bytes(200_000)}
    row = {"op": 69, "attribute_type": 69, "attribute": custom, "inputs": [], "outputs": []}
    return file({"operators": [row] * 8_000})


BOMBS: list[Callable[[], bytes]] = [
    one_region_many_times,
    many_regions_of_one_block,
    one_list_of_names_in_many_operators,
    one_shape_in_many_tensors,
    one_list_of_numbers_in_many_operators,
    one_long_name_in_many_findings,
    one_undefined_operand_in_many_operators,
    a_tensor_of_many_dimensions,
    a_shape_of_many_wrong_dimensions,
    one_weight_of_many_constants,
    one_weight_out_of_line_of_many_constants,
    one_blob_of_many_operators,
    overlapping_blobs_of_many_operators,
]


@pytest.mark.slow
@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: bomb.__name__)
def test_a_small_file_cannot_use_much_memory(bomb: Callable[[], bytes]) -> None:
    data = bomb()
    tracemalloc.start()
    try:
        text = ""
        try:
            findings = verify(read(data))
            text = "\n".join(map(str, findings))
        except TosaConvertError as error:
            text = str(error)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < FREE_BYTES + BYTES_PER_BYTE * len(data)
    # The printed findings must be short, too.
    assert len(text) < 8 << 20


@pytest.mark.slow
@pytest.mark.parametrize(
    "bomb",
    [
        many_regions_of_one_block,
        one_list_of_names_in_many_operators,
        one_weight_of_many_constants,
        one_weight_out_of_line_of_many_constants,
        overlapping_blobs_of_many_operators,
    ],
    ids=lambda bomb: bomb.__name__,
)
def test_more_sharing_than_the_file_could_hold_is_refused(bomb: Callable[[], bytes]) -> None:
    data = bomb()
    with refused(
        "malformed-flatbuffer",
        f"a file of {len(data)} bytes",
        match="describes more than it could hold",
    ):
        read(data)


def test_the_sharing_of_real_writers_is_accepted() -> None:
    name = "layer_" + "x" * 200
    blob = bytes(range(256)) * 40
    values = [tensor(f"{name}{i}", shape=(1, 2, 3, 4, 5, 6)) for i in range(2_000)]
    operators = [
        op("CUSTOM", f"{name}{i}", f"{name}{i + 1}", f'loc("{name}")',
           operator_name=name, domain_name=name, implementation_attrs=blob)
        for i in range(1_999)
    ]  # fmt: skip
    made = graph(f"{name}0", f"{name}1999", list(values), operators)
    data = encode(made)
    found = read(data)
    assert verify(found) == []
    blobs = {id(operator.attributes["implementation_attrs"]) for operator in found.main.operators}
    assert len(blobs) == 1


@pytest.mark.slow
def test_a_graph_of_many_small_regions_is_read_in_linear_time() -> None:
    blocks = [{"tensors": [{"name": "x", "type": 7}], "inputs": ["x"]} for _ in range(5_000)]
    found = read(file(*blocks))
    assert len(found.regions) == 5_000
