"""VGF files that Arm's model converter wrote become the programs that went in."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unit.formats.vgf.vgf_programs import FOLDER, PROGRAMS

import tosa_convert as tc
from tosa_convert.cli.main import run, tosa_flatbuffer
from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.vgf import (
    GRAPH,
    GRAPH_END,
    read_container,
    read_module,
    read_segment,
)
from tosa_convert.graph import Graph

FILES = {name: (FOLDER / f"{name}.vgf").read_bytes() for name in PROGRAMS}
SEGMENTS = FOLDER / "segments.vgf"


def operators(graph: Graph) -> list[Any]:
    """Describe the operators without names, and constants by their elements."""
    block = graph.main

    def value(name: str) -> Any:
        if name in block.shapes:
            return block.shapes[name].values()
        tensor = block.tensors[name]
        data = None if tensor.data is None else tensor.data.numpy().tolist()
        return tensor.dtype, tensor.shape, data

    return [
        (
            op.spec.name,
            [value(name) for name in op.inputs],
            [value(name) for name in op.outputs],
            op.attributes,
        )
        for op in block.operators
        if op.spec.operands
    ]


def refusal(data: bytes) -> tuple[str, str]:
    """Return the code and the text of the error for a file."""
    with pytest.raises(TosaConvertError) as caught:
        tc.load(data)
    return caught.value.code, str(caught.value)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_program_comes_back(name: str) -> None:
    graph = tc.load(FILES[name])
    assert tc.validate(graph) == []
    assert operators(graph) == operators(PROGRAMS[name]())


def test_locations_of_debug_information_are_kept() -> None:
    made = [op for op in tc.load(FILES["floating"]).main.operators if op.spec.operands]
    assert {op.location for op in made} == {'loc("net.py":3:7)'}


def test_verbs_take_it_and_none_writes_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, back = tmp_path / "m.vgf", tmp_path / "m.tosa"
    path.write_bytes(FILES["integer"])
    assert run(tosa_flatbuffer, ["show", str(path)]) == 0
    assert "VGF file" in capfd.readouterr().out
    assert run(tosa_flatbuffer, ["convert", str(path), "-o", str(back)]) == 0
    assert run(tosa_flatbuffer, ["diff", str(path), str(back)]) == 0
    assert run(tosa_flatbuffer, ["validate", str(path)]) == 0
    assert run(tosa_flatbuffer, ["convert", str(back), "--to", "vgf"]) != 0
    assert run(tosa_flatbuffer, ["convert", str(back), "-o", str(tmp_path / "n.vgf")]) != 0
    assert not (tmp_path / "n.vgf").exists()
    with pytest.raises(TosaConvertError, match="option-conflict"):
        tc.dumps(tc.load(path), "vgf")


def test_a_graph_is_chosen_by_the_name_of_its_segment(tmp_path: Path) -> None:
    path = tmp_path / "m.vgf"
    path.write_bytes(FILES["integer"])
    assert len(tc.load(path, func="graph_segment_0").main.outputs) == 2
    with pytest.raises(TosaConvertError, match="unknown-function"):
        tc.load(path, func="other")


def test_several_graphs_are_listed_and_one_is_chosen(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(TosaConvertError, match="ambiguous-function"):
        tc.load(SEGMENTS)
    assert run(tosa_flatbuffer, ["show", str(SEGMENTS)]) == 0
    assert capfd.readouterr().out.splitlines()[2:] == [
        "              graph_segment_0  2 operators  input_0: FP32 [1, 8, 8, 2] -> "
        "value_2: FP32 [1, 8, 8, 2]",
        "              graph_segment_1  6 operators  value_3: FP32 [1, 8, 8, 2], "
        "value_2: FP32 [1, 8, 8, 2] -> output_0: FP32 [1, 4, 4, 4], output_1: FP32 [1, 8, 8, 2]",
        "  also        the shader compute_segment_0: value_2 -> value_3",
    ]
    assert run(tosa_flatbuffer, ["show", str(SEGMENTS), "--json"]) == 0
    rows = json.loads(capfd.readouterr().out)["files"]
    assert [row["function"] for row in rows] == ["graph_segment_0", "graph_segment_1"]


def test_a_module_of_several_graphs_is_read_at_its_entry_point() -> None:
    container = read_container(memoryview(FILES["integer"]), "m.vgf")
    words = np.frombuffer(container.modules[0], "<u4").tolist()
    module = read_module(container.modules[0], "m.vgf")
    (graph,) = module.bodies
    start = next(
        at for at in range(5, len(words)) if words[at] == 3 << 16 | GRAPH and words[at + 2] == graph
    )
    words += [3 << 16 | GRAPH, words[start + 1], 9999, 1 << 16 | GRAPH_END]
    both = np.array(words, "<u4").tobytes()
    container = replace(container, modules=[memoryview(both)])
    read = read_segment(container, container.segments[0], "m.vgf")
    assert operators(read) == operators(tc.load(FILES["integer"]))
    other = replace(container, entry_points=["other"])
    with pytest.raises(TosaConvertError, match="2 graphs"):
        read_segment(other, other.segments[0], "m.vgf")


@pytest.mark.parametrize(
    ("at", "value", "said"),
    [
        (16, struct.pack("<Q", 1 << 40), "module table"),
        (56, struct.pack("<Q", 1 << 62), "model resource table"),
        (24, struct.pack("<Q", 2), "tables are damaged"),
    ],
)
def test_a_section_that_leads_out_of_the_file_is_named(at: int, value: bytes, said: str) -> None:
    data = bytearray(FILES["floating"])
    data[at : at + len(value)] = value
    code, text = refusal(bytes(data))
    assert code == "malformed-vgf"
    assert said in text


def test_a_damaged_instruction_is_named_with_its_word() -> None:
    data = bytearray(FILES["floating"])
    start = data.index(struct.pack("<I", 0x07230203))
    data[start + 20 : start + 24] = struct.pack("<I", 0x10011)  # an instruction of one word
    data[start + 24 : start + 28] = bytes(4)  # and one without any
    code, text = refusal(bytes(data))
    assert code == "malformed-vgf"
    assert "word 6" in text


def test_a_list_of_billions_of_numbers_takes_no_memory() -> None:
    data = bytearray(FILES["floating"])
    constant = data.index(struct.pack("<I", 4 << 16 | 43))  # the first constant is a rank: 4
    assert struct.unpack_from("<I", data, constant + 12) == (4,)
    data[constant + 12 : constant + 16] = struct.pack("<I", 0x7FFFFFFF)
    code, text = refusal(bytes(data))
    assert code == "malformed-vgf"
    assert "2147483647 numbers" in text


def test_instructions_of_another_set_are_refused_by_name() -> None:
    code, text = refusal(FILES["integer"].replace(b"TOSA.001000.1", b"TOSA.009000.1"))
    assert code == "unsupported-operator"
    assert "TOSA.009000.1" in text


def test_sparse_constants_are_refused() -> None:
    data = bytearray(FILES["integer"])
    start = data.index(b"CONST00\0")
    data[start + 20 : start + 24] = struct.pack("<i", 1)
    code, text = refusal(bytes(data))
    assert code == "unsupported-attribute"
    assert "sparse" in text


@pytest.mark.parametrize(
    ("at", "value", "said"),
    [
        (0, b"CONST01\0", "its constants begin with b'CONST01"),
        (8, struct.pack("<Q", 1 << 40), "it lists 1099511627776 constants in"),
        (24, struct.pack("<Q", 1 << 40), "constant 0 leads out of the file"),
        (24, struct.pack("<Q", 1), "constant 0 has 1 bytes, its type needs another number"),
    ],
)
def test_damaged_constants_are_refused(at: int, value: bytes, said: str) -> None:
    data = bytearray(FILES["integer"])
    start = data.index(b"CONST00\0") + at
    data[start : start + len(value)] = value
    code, text = refusal(bytes(data))
    assert (code, said in text) == ("malformed-vgf", True)


@pytest.mark.parametrize(
    ("size", "said"), [(12, "its constants are cut off"), (0, "of its graph is damaged")]
)
def test_a_section_of_constants_that_is_too_short_is_refused(size: int, said: str) -> None:
    data = bytearray(FILES["integer"])
    data[72:80] = struct.pack("<Q", size)
    code, text = refusal(bytes(data))
    assert (code, said in text) == ("malformed-vgf", True), text


def test_a_segment_of_a_module_that_is_not_there_is_refused() -> None:
    container = read_container(memoryview(FILES["integer"]), "m.vgf")
    segment = replace(container.segments[0], module=1)
    with pytest.raises(TosaConvertError, match="names a module that it does not have"):
        read_segment(container, segment, "m.vgf")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_changed_files_are_programs_or_refused(seed: int) -> None:
    random = np.random.default_rng(seed)
    refused = 0
    for _ in range(500):
        data = np.frombuffer(FILES[["floating", "integer"][seed % 2]], np.uint8).copy()
        places = random.integers(0, len(data), random.integers(1, 9))
        data[places] = random.integers(0, 256, len(places))
        try:
            tc.validate(tc.load(data.tobytes()))
        except TosaConvertError as error:
            refused += bool(error.code)
    assert refused > 100


def test_a_module_alone_is_the_graph_of_its_vgf_file(tmp_path: Path) -> None:
    data = SEGMENTS.with_suffix(".spv").read_bytes()
    container = read_container(memoryview(SEGMENTS.read_bytes()), "m.vgf")
    expected = read_segment(container, container.segments[0], "m.vgf")
    found = tc.load(data)
    assert operators(found) == operators(expected) != []
    assert [op.location for op in found.main.operators] == [
        op.location for op in expected.main.operators
    ]
    path = tmp_path / "m.spv"
    path.write_bytes(data)
    assert run(tosa_flatbuffer, ["show", str(path)]) == 0
    (name,) = read_module(memoryview(data), "m.spv").entry_points
    assert tc.load(path, func=name).main.inputs == found.main.inputs
    with pytest.raises(TosaConvertError, match="unknown-function"):
        tc.load(path, func="other")


def test_constants_outside_of_a_module_are_named() -> None:
    code, text = refusal((FOLDER / "floating.spv").read_bytes())
    assert code == "missing-data"
    assert "constant 0 is outside of the module: FP32 [4, 3, 3, 2]" in text


def test_damaged_modules_are_refused() -> None:
    data = SEGMENTS.with_suffix(".spv").read_bytes()
    refused = 0
    for at in range(0, len(data), 4):
        for damaged in (data[:at], data[:at] + b"\xff\xff\xff\x7f" + data[at + 4 :]):
            try:
                tc.load(damaged)
            except TosaConvertError:
                refused += 1
    assert refused > len(data) // 4
