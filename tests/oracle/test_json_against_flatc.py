"""Our JSON against flatc's: we write the same bytes and read the same program.

flatc comes with the wheel `tosa-tools`. The tests of the official suite are taken from the folder
that TOSA_SUITE_DIR names (see official_suite.py), or a sample is made, once, in pytest's cache.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import official_suite
from unit.building import PRODUCER, branching, counting, example, graph, op, shape, tensor

from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.flatbuffer.read import read as read_flatbuffer
from tosa_convert.formats.flatbuffer.write import plan
from tosa_convert.formats.json.read import read
from tosa_convert.formats.json.write import write
from tosa_convert.graph import DTYPES, Constant, DType, Graph, dtype, operator
from tosa_convert.graph.dtypes import BlockShape
from tosa_convert.graph.model import BlockScale, Operator, SoftwareVersion
from tosa_convert.graph.opset import OPERATORS, AttributeSpec, OperatorSpec
from tosa_convert.graph.versions import V1_1_DRAFT

pytestmark = pytest.mark.oracle

#: Files of the suite that one call of flatc is given.
BATCH = 200

PRINT = ("--json", "--strict-json", "--raw-binary")


class Flatc:
    """flatc in a scratch folder."""

    def __init__(self, program: Path, schema: Path, scratch: Path) -> None:
        self.program = program
        self.schema = schema
        self.scratch = scratch

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
        command = list(map(str, (self.program, "-o", self.scratch, *arguments)))
        return subprocess.run(command, capture_output=True, check=False, timeout=120)

    def printed(self, files: Iterable[bytes], *options: str) -> list[bytes]:
        """Return the JSON that flatc prints for each flatbuffer."""
        names = []
        for index, data in enumerate(files):
            names.append(self.scratch / f"{index}.tosa")
            names[-1].write_bytes(data)
        done = self.run(*(options or PRINT), self.schema, "--", *names)
        assert done.returncode == 0, done.stderr or done.stdout
        return [name.with_suffix(".json").read_bytes() for name in names]

    def built(self, text: bytes) -> bytes | None:
        """Return the flatbuffer that flatc makes of JSON, or None if it refuses it."""
        for old in self.scratch.iterdir():
            old.unlink()
        source = self.scratch / "source.json"
        source.write_bytes(text)
        done = self.run("-b", self.schema, source)
        found = [path for path in self.scratch.iterdir() if path != source]
        return found[0].read_bytes() if done.returncode == 0 else None


@pytest.fixture
def flatc(tmp_path: Path) -> Flatc:
    try:
        program, schema = official_suite.native("flatc"), official_suite.schema()
    except official_suite.SuiteError as error:
        pytest.skip(f"flatc is not installed: {error}")
    return Flatc(program, schema, tmp_path)


def flat(made: Graph, producer: SoftwareVersion = PRODUCER) -> bytes:
    return b"".join(plan(made, producer, out_of_line=False).pieces())


def text(made: Graph, producer: SoftwareVersion = PRODUCER) -> bytes:
    return b"".join(write(made, producer))


# -- what we write ------------------------------------------------------------------------------


def samples(row: AttributeSpec) -> list[Any]:
    """Return values of an attribute: the schema's default, if it is allowed, and others."""
    choices: dict[str, list[Any]] = {
        "i32": [0, -1, 2**31 - 1],
        "i32s": [(0, -(2**31), 7, 1, 2, 3)[: row.length if row.length >= 0 else 6], ()],
        "bool": [False, True],
        "dtype": list(row.choices),
        "element": [b"\0\1\xff\x80", b""],
        "bytes": [b"", bytes(range(256))],
        "string": ["", 'q"\\\n'],
        "region": ["main", "é"],
    }
    return choices[row.kind] if row.enum is None else list(row.enum)


def operators_of(spec: OperatorSpec) -> list[Operator]:
    """Return operators that together have every sample of each of their attributes."""
    values = {row.name: samples(row) for row in spec.attributes}
    count = max(map(len, values.values()), default=1)
    names = [f"v{i}" for i in range(3)]
    return [
        op(
            spec.name,
            " ".join(names[: i % 3]),
            " ".join(names[: (i + 1) % 3]),
            'loc("f.mlir":2:8)' if i else "",
            **{name: found[i % len(found)] for name, found in values.items()},
        )
        for i in range(count)
    ]


def constants(row: DType) -> Graph:
    """Return constants of one type: with padding, empty, of rank 0, as a splat."""
    values = []
    for index, (dims, padding) in enumerate([((3,), 5), ((), 0), ((2, 0), 0), ((9,), 0)]):
        count = int(np.prod(dims))
        value = tensor(f"t{index}", row.name, dims)
        data = bytes(range(1, 1 + row.wire_bytes(count)))
        value.data = Constant(row, count, data, padding=padding)
        values.append(value)
    values[-1].data = Constant(row, 9, b"\1" * row.element_bytes, splat=True)
    return graph("", "", list(values), [op("CONST", "", value.name) for value in values])


def scaled() -> Graph:
    value = tensor("w", "FP4E2M1", (2, 32), bytes(range(32)))
    value.scale = BlockScale(
        dtype("FP8UE8M0"), BlockShape.BLOCK_SHAPE_32, Constant(dtype("FP8UE8M0"), 2, b"\x7f\x80")
    )
    other = tensor("x", "FP8E4M3", (32,))
    other.scale = BlockScale(dtype("FP8UE8M0"), BlockShape.BLOCK_SHAPE_32)
    made = graph("x", "w", [value, other], [op("CONST", "", "w")])
    made.version = V1_1_DRAFT
    return made


def odd_values() -> Graph:
    values: list[Any] = [
        tensor("unranked", shape=None),
        tensor("dynamic", shape=(-1, 0, 2**31 - 1)),
        tensor("", shape=()),
        shape("sizes", 1, -1, 2**40),
        shape("none"),
        shape("unknown"),
    ]
    values[-1].data, values[-1].rank = None, 4
    state = tensor("state", "INT8", (2,))
    state.variable, state.variable_name = True, 'name "of" it'
    return graph("unranked dynamic", "state", [*values, state], [])


def odd_names() -> Graph:
    names = ["".join(map(chr, range(i, i + 16))) for i in range(0, 256, 16)]
    names += ["/", "é", "\u07ff\u0800\uffff", "\ud7ff\ue000", "\U00010000\U0010ffff", "😀"]
    made = graph("", "", [tensor(name) for name in names], [])
    made.main.inputs = names
    made.main.operators = [op("EXP", location=name) for name in names]
    return made


def draft_1_0() -> Graph:
    made = example()
    made.version = type(made.version)(1, 0, 0, draft=True)
    return made


HAND_MADE: dict[str, Callable[[], Graph]] = {
    "plain": example,
    "control flow": branching,
    "variables": counting,
    "block scales": scaled,
    "odd values": odd_values,
    "odd names": odd_names,
    "a draft": draft_1_0,
    "nothing": lambda: graph("", "", [], []),
    "no regions": lambda: Graph(V1_1_DRAFT),
    "every operator": lambda: graph(
        "", "", [], [row for spec in OPERATORS if spec.is_in_tools for row in operators_of(spec)]
    ),
}


@pytest.mark.parametrize("name", HAND_MADE)
def test_our_json_equals_what_flatc_prints_of_our_file(name: str, flatc: Flatc) -> None:
    made = HAND_MADE[name]()
    assert flatc.printed([flat(made)]) == [text(made)]


@pytest.mark.parametrize("row", DTYPES, ids=str)
def test_constants_of_every_type_are_printed_as_flatc_prints_them(row: DType, flatc: Flatc) -> None:
    made = constants(row)
    assert flatc.printed([flat(made)]) == [text(made)]


@pytest.mark.parametrize(
    "producer", [SoftwareVersion(0, 0, 0), SoftwareVersion(-1, 2**31 - 1, 5, 'a"é')], ids=str
)
def test_any_producer_is_printed_as_flatc_prints_it(
    producer: SoftwareVersion, flatc: Flatc
) -> None:
    made = example()
    assert flatc.printed([flat(made, producer)]) == [text(made, producer)]


def test_lists_longer_than_a_block_are_printed_as_flatc_prints_them(flatc: Flatc) -> None:
    count = 200_001
    data = np.random.default_rng(2).integers(0, 256, count).astype(np.uint8).tobytes()
    made = graph("", "t", [tensor("t", "INT8", (count,), data)], [op("CONST", "", "t")])
    assert flatc.printed([flat(made)]) == [text(made)]


@pytest.mark.slow
def test_the_official_suite_is_printed_as_flatc_prints_it_and_read_back(
    official_cases: list[official_suite.Case], flatc: Flatc
) -> None:
    assert official_cases
    for start in range(0, len(official_cases), BATCH):
        files = [case.tosa for case in official_cases[start : start + BATCH]]
        graphs = [read_flatbuffer(file.read_bytes()) for file in files]
        texts = list(map(text, graphs))
        for file, ours, theirs in zip(files, texts, flatc.printed(map(flat, graphs)), strict=True):
            assert ours == theirs, file
            assert text(read(ours)) == ours, file


# -- what we read -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in HAND_MADE if name != "every operator"])
def test_flatc_reads_the_same_program_from_our_json(name: str, flatc: Flatc) -> None:
    made = HAND_MADE[name]()
    built = flatc.built(text(made))
    assert built is not None
    assert text(read_flatbuffer(built)) == text(made)


def test_every_operator_that_flatc_prints_is_read(flatc: Flatc) -> None:
    made = HAND_MADE["every operator"]()
    (printed,) = flatc.printed([flat(made)])
    assert text(read(printed)) == text(made)


def test_text_with_explicit_defaults_is_read(flatc: Flatc) -> None:
    for made in (example(), branching(), counting(), scaled()):
        (printed,) = flatc.printed([flat(made)], *PRINT, "--defaults-json")
        assert b'"offset": 0' in printed
        assert text(read(printed)) == text(made)


def test_text_that_is_not_strict_is_read(flatc: Flatc) -> None:
    for made in (example(), branching(), counting()):
        (printed,) = flatc.printed([flat(made)], "--json", "--raw-binary")
        assert b"  version: {" in printed
        assert text(read(printed)) == text(made)


def test_text_with_natural_utf_8_is_read(flatc: Flatc) -> None:
    made = graph("é😀", "é😀", [tensor("é😀")], [])
    (printed,) = flatc.printed([flat(made)], *PRINT, "--natural-utf8")
    assert "é😀".encode() in printed
    assert text(read(printed)) == text(made)


BASE = """{
  "version": {"_major": 1, "_minor": 1, "_patch": 0},
  "regions": [{"name": "main", "blocks": [{"name": "main",
    "operators": [{"op": "REVERSE", "attribute_type": "ReverseAttribute", "attribute": {"axis": 1},
                   "inputs": ["a"], "outputs": ["b"]}],
    "tensors": [{"name": "a", "shape": [1], "type": "INT8", "data": [1, 2], "variable": false}],
    "outputs": ["b"]}]}]
}"""

#: Text and its replacement: flatc and we read the result as the same program.
BOTH_READ = [
    ('"axis": 1', '"axis": -1'),
    ('"axis": 1', '"axis": -0'),
    ('"axis": 1', '"axis": 1,'),
    ('"axis": 1', "axis: 1"),
    ('"axis": 1', '"\\u0061xis": 1'),
    ('"INT8"', "3"),
    ('"ReverseAttribute"', "58"),
    ("false", "1"),
    ("false", "true"),
    ("[1, 2]", "[1, 2,]"),
    ("[1, 2]", "[]"),
    ("[1, 2]", "null"),
    ("[1, 2]", "[1, // one\n 2 /* two */]"),
    ('"name": "a"', '"name": null'),
    ('"name": "a"', '"name": "\\u0000\\uD83D\\uDE00\\/é\x7f"'),
    ('"outputs": ["b"]}]}]', '"outputs": ["b",],},],},]'),
    ("{\n", "\ufeff{\n"),
    ("{\n", "{ // comment\r /* and */\n"),
    ("]\n}", '], "compatibility": {"features": 2}}'),
    ("]\n}", '], "software_version": null, }// end'),
]

#: Neither flatc nor we read these.
BOTH_REFUSE = [
    ('"axis": 1', '"axis": 1.0'),
    ('"axis": 1', '"axis": 1e0'),
    ('"axis": 1', '"axis": true'),
    ('"axis": 1', '"axis": 2147483648'),
    ('"axis": 1', '"axis": -2147483649'),
    ('"axis": 1', '"axis": 1 2'),
    ('"axis": 1', '"axis": NaN'),
    ('"axis": 1', '"axis": 1, "axis": 1'),
    ('"axis": 1', '"nan_mode": 1'),
    ('"INT8"', '"DType.INT8"'),
    ('"INT8"', '"int8"'),
    ('"INT8"', "-1"),
    ('"INT8"', "4294967296"),
    ('"INT8"', "99"),
    ('"ReverseAttribute"', '"Attribute.ReverseAttribute"'),
    ('"attribute_type": "ReverseAttribute",', ""),
    ('"op": "REVERSE"', '"op": "ABS"'),
    ("[1, 2]", "[1 2]"),
    ("[1, 2]", "[,]"),
    ("[1, 2]", "[256]"),
    ("[1, 2]", "[-1]"),
    ("[1, 2]", "[1.0]"),
    ("[1, 2]", "[null]"),
    ("[1, 2]", '"AQI="'),
    ('"name": "a"', '"name": 5'),
    ('"name": "a"', '"name": "\\uD83D"'),
    ('"name": "a"', '"name": "\\uDE00"'),
    ('"name": "a"', '"name": "a\tb"'),
    ('"name": "a"', '"name": "\\v"'),
    ('["b"]', "[null]"),
    ('"version": {"_major": 1, "_minor": 1, "_patch": 0}', '"version": null'),
    ('"version": {"_major": 1, "_minor": 1, "_patch": 0}', '"version": [1, 1, 0]'),
    ("]\n}", "]\n} x"),
    ("]\n}", "]\n} {}"),
    ("]\n}", '], "x": 1}'),
    ("]\n}", "]\n} /*"),
    ("{\n", "{\f\n"),
    ("{\n", "{ # comment\n"),
]


@pytest.mark.parametrize(("old", "new"), BOTH_READ)
def test_we_read_the_same_program_as_flatc(old: str, new: str, flatc: Flatc) -> None:
    assert old in BASE
    source = BASE.replace(old, new, 1).encode()
    built = flatc.built(source)
    assert built is not None
    assert text(read(source)) == text(read_flatbuffer(built))


@pytest.mark.parametrize(("old", "new"), BOTH_REFUSE)
def test_json_is_refused_if_flatc_or_its_flatbuffer_is_refused(
    old: str, new: str, flatc: Flatc
) -> None:
    assert old in BASE
    source = BASE.replace(old, new, 1).encode()
    with pytest.raises(TosaConvertError):
        read(source)
    built = flatc.built(source)
    if built is not None:
        with pytest.raises(TosaConvertError):
            read_flatbuffer(built)


def test_numbers_in_place_of_names_are_the_same_program(flatc: Flatc) -> None:
    made = scaled()
    names = {row.name: row.code for row in DTYPES} | {
        name: operator("CONST").code for name in ("CONST", "ConstAttribute")
    }
    names |= {row.name: int(row) for row in BlockShape}

    def numbered(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: numbered(member) for key, member in value.items()}
        if isinstance(value, list):
            return [numbered(member) for member in value]
        return names.get(value, value) if isinstance(value, str) else value

    source = json.dumps(numbered(json.loads(text(made)))).encode()
    assert b"CONST" not in source
    built = flatc.built(source)
    assert built is not None
    assert text(read(source)) == text(read_flatbuffer(built)) == text(made)
