"""`tosa-flatbuffer doctor`: its verdicts, and that each command it prints is what helps."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.compare_doctor import written
from oracle.small_programs import convolution, programs, total, variable
from unit.building import example

import tosa_convert as tc
from tosa_convert.builder import Builder, DTypeName
from tosa_convert.cli.doctor import stored_program
from tosa_convert.cli.main import run, tosa_flatbuffer, verb
from tosa_convert.consumers import doctor as module
from tosa_convert.consumers.doctor import StoredProgram, diagnose
from tosa_convert.consumers.readers import (
    CONSUMERS,
    OTHER_CONSUMERS,
    READERS,
    VARIANTS,
    reader_named,
)
from tosa_convert.formats.read import open_input, read_with_storage
from tosa_convert.graph import OPERATORS
from tosa_convert.graph.dtypes import BY_CODE
from tosa_convert.io.formats import FORMATS

IN_THE_FILE = StoredProgram("m.tosa", "tosa", frozenset({"embedded"}))


@pytest.fixture
def doctor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Any:
    """Run `doctor` in a folder of the test: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(verb("doctor"), list(arguments))
        return (code, *capfd.readouterr())

    return call


def reads(graph: tc.Graph, stored: StoredProgram = IN_THE_FILE) -> set[str]:
    return {row.reader.name for row in diagnose(graph, stored, list(READERS)) if row.reads}


# -- verdicts --------------------------------------------------------------------------------------


def test_readers_of_flatbuffers_read_a_quantised_convolution() -> None:
    assert reads(convolution()) == {*CONSUMERS, "netron"}


def test_readers_of_mlir_read_bytecode() -> None:
    stored = StoredProgram("m.mlirbc", "mlirbc", bytecode=1)
    readers = {"tosa-opt", "model-converter", "torch-mlir", "iree", "netron", "torq"}
    assert reads(convolution(), stored) == readers


@pytest.mark.parametrize(
    ("form", "refused"),
    [
        ("offset", {"vela", "model-explorer", "flatc"}),
        ("npy", set(CONSUMERS)),
    ],
)
def test_weights_outside_of_the_flatbuffer_are_for_some(form: Any, refused: set[str]) -> None:
    stored = StoredProgram("m.tosa", "tosa", frozenset({form}))
    assert reads(convolution(), stored) == {*CONSUMERS, "netron"} - refused


def test_each_reader_refuses_what_it_does_not_read() -> None:
    found = {name: reads(graph) for name, graph in programs()}
    everyone = {*CONSUMERS, "netron"}
    assert everyone - found["type-fp32"] == {"vela"}
    assert everyone - found["type-int64"] == {"vela"}
    assert everyone - found["unknown-size"] == {"reference-model", "vela"}
    assert everyone - found["unknown-reshape"] == {"reference-model", "vela", "model-converter"}
    assert everyone - found["unknown-transpose"] == {"reference-model", "vela", "model-converter"}
    assert everyone - found["unknown-unchanged"] == {"reference-model", "vela"}
    assert everyone - found["unranked"] == {"reference-model", "model-converter", "vela"}
    assert everyone - found["rank-7"] == {"reference-model", "model-converter", "vela"}
    assert found["no-input"] == {*everyone, "virtio-accel"}
    assert everyone - found["branch"] == {"model-converter", "vela"}
    assert everyone - found["new-operator"] == {"model-converter", "vela", "netron"}
    assert everyone - found["no-operator"] == {"vela"}
    assert everyone - found["operand-zero-point"] == {"tosa-opt", "model-converter", "vela"}
    for operand in ("padding", "table", "weight-3d", "shift", "weight"):
        assert everyone - found[f"operand-{operand}"] == {"vela"}


def test_the_form_of_text_and_the_version_of_bytecode_matter_to_iree() -> None:
    text = StoredProgram("m.mlir", "mlir")
    assert "iree" not in reads(convolution(), text)
    assert "iree" in reads(convolution(), StoredProgram("m.mlir", "mlir", generic=True))
    assert "iree" in reads(total((1, 8)), text)
    new, old = (StoredProgram("m.mlirbc", "mlirbc", bytecode=number) for number in (6, 4))
    assert "iree" not in reads(variable(), new)
    assert "iree" in reads(variable(), old)
    assert "iree" in reads(convolution(), new)


def test_operands_must_be_constants_in_flatbuffers_only() -> None:
    found = dict(programs())["operand-zero-point"]
    assert "tosa-opt" not in reads(found)
    assert {"tosa-opt", "model-converter"} <= reads(found, StoredProgram("m.mlir", "mlir"))


def test_readers_of_few_operators_read_those_alone() -> None:
    def reads_cast(first: DTypeName, result: DTypeName) -> bool:
        b = Builder("m")
        b.output(b.cast(b.input("x", first, (2,)), dtype=result))
        return "virtio-accel" in reads(b.graph())

    def reads_sum(dtype: DTypeName) -> bool:
        b = Builder("m")
        b.output(b.add(b.input("x", dtype, (2,)), b.input("y", dtype, (2,))))
        return "virtio-accel" in reads(b.graph())

    assert [reads_sum(one) for one in ("fp32", "fp16", "bf16", "int32")] == [
        True,
        True,
        False,
        False,
    ]
    assert reads_cast("fp8e4m3", "bf16")
    assert not reads_cast("fp32", "fp16")
    found = dict(programs())
    assert "virtio-accel" not in reads(found["unknown-size"])
    (row,) = diagnose(convolution(), IN_THE_FILE, ["virtio-accel"])
    assert "virtio-accel does not read CONV2D of INT8" in [one.message for one in row.findings]


def test_a_program_that_tosa_forbids_is_only_for_those_that_do_not_check() -> None:
    made = example()
    made.main.tensors["y"].shape = (4,)
    assert reads(made) == {"model-explorer", "flatc", "netron"}
    (row,) = diagnose(made, IN_THE_FILE, ["tosa-opt"])
    assert row.findings[0].hint == "tosa-flatbuffer validate m.tosa"


def test_weights_that_do_not_fit_a_flatbuffer_have_no_command() -> None:
    stored = StoredProgram("m.tosa", "tosa", frozenset({"offset"}), 2**31)
    (row,) = diagnose(convolution(), stored, ["vela"])
    assert not row.reads
    assert row.command == ""
    assert "larger than 2 GiB" in row.findings[-1].message


def test_facts_name_formats_types_and_operators_that_exist() -> None:
    assert not CONSUMERS.keys() & OTHER_CONSUMERS.keys()
    operators = {spec.name for spec in OPERATORS}
    types = {kind.name for kind in BY_CODE.values()}
    named = {f"{spec.name} {row.name}" for spec in OPERATORS for row in spec.operands}
    for reader in (*READERS.values(), *(row for rows in VARIANTS.values() for row in rows)):
        assert set(reader.formats) <= FORMATS.keys()
        assert reader.types <= types
        assert reader.release
        assert reader.static_operators | reader.by_option.keys() <= operators
        for text in reader.operators:
            name, _, kinds = text.partition(" ")
            assert name in operators
            assert set(filter(None, re.split(r"->|\*| acc ", kinds))) <= types, text
        for constant in reader.further_constants:
            operand, _, kind = constant.rpartition(" ")
            assert constant in named or (operand in named and kind in types)


def test_an_accelerator_is_part_of_the_name_and_a_refusal_names_another_that_reads() -> None:
    graph = dict(programs())["type-bool"]
    default, smaller, larger = (
        diagnose(graph, IN_THE_FILE, [name])[0]
        for name in ("vela", "vela:ethos-u65", "vela:ethos-u85==5.2.0")
    )
    assert (default.reads, smaller.reads, larger.reads) == (False, False, True)
    assert default.reader is READERS["vela"]
    assert default.reader.spelling == "vela:ethos-u55"
    hint = "vela reads the program with --accelerator-config ethos-u85-256: --for vela:ethos-u85"
    assert {finding.hint for finding in default.findings} == {hint}
    for size in (128, 256, 512, 1024, 2048):
        assert reader_named(f"vela:ethos-u85-{size}") is larger.reader
    assert reader_named("vela:ethos-u55-32") is reader_named("vela")
    for name in ("vela:ethos-u75", "vela:ethos-u55-512", "vela:", "flatc:x", "vela:ethos-u85==1.0"):
        with pytest.raises(tc.TosaConvertError, match=name.partition(":")[0]):
            reader_named(name)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("ethos-u55", "vela:ethos-u55"),
        ("u65", "vela:ethos-u65"),
        ("ethos-u85-512", "vela:ethos-u85-512"),
        ("flatc:x", "flatc"),
    ],
)
def test_an_unknown_name_is_refused_with_the_one_that_is_meant(name: str, meant: str) -> None:
    with pytest.raises(tc.TosaConvertError) as error:
        reader_named(name)
    (finding,) = error.value.findings
    assert finding.hint == f"did you mean {meant}?"


def test_the_names_of_an_accelerator_are_all_listed() -> None:
    with pytest.raises(tc.TosaConvertError, match=r"ethos-u55, ethos-u55-32, .* ethos-u85-2048"):
        reader_named("vela:ethos-u75")


@pytest.mark.parametrize(
    ("name", "reader", "message"),
    [
        ("custom", "model-converter", "only with its option --custom-op-domain-to-opcode"),
        ("convolution", "model-converter:require-static-shape", "tf.entry_function"),
        ("no-initial-value", "tosa-opt", "a variable without an initial value"),
    ],
)
def test_an_option_that_the_reader_needs_is_named(name: str, reader: str, message: str) -> None:
    b = Builder("main")
    x = b.input("x", "int32", (1, 8))
    if name == "custom":
        (y,) = b.custom([x], [("int32", (1, 8))], operator_name="f", domain_name="v")
        b.output(y, name="y")
    elif name == "no-initial-value":
        b.output(b.add(x, b.read(b.variable("state", "int32", (1, 8)))), name="y")
    graph = convolution() if name == "convolution" else b.graph()
    (row,) = diagnose(graph, IN_THE_FILE, [reader])
    assert not row.reads
    assert message in row.findings[0].message


@pytest.mark.parametrize("shape", [None, (), (-1, 4, 4, 1), (1, 4, 4, 1)])
def test_operators_that_tosa_forbids_have_no_limits_of_an_accelerator(shape: Any) -> None:
    b = Builder("main")
    x, weight = b.input("x", "int8", (1, 4, 4, 1)), b.input("w", "int8", (1, 1, 1, 1))
    scale, offset, border = ([2, 1, 2, 1], [0, 0], [0, 0])
    b.resize(x, scale=scale, offset=offset, border=border, mode="NEAREST")
    b.transpose_conv2d(x, weight, b.input("bias", "int32", (1,)), stride=(2, 2))
    b.argmax(x, axis=3, dtype="int32")
    b.output(b.reverse(x, axis=3), name="y")
    graph = b.graph()
    for operator in graph.main.operators:
        if operator.spec.name not in ("CONST", "CONST_SHAPE"):
            operator.inputs = ("x",) * len(operator.inputs)
    graph.main.tensors["x"].shape = shape
    assert not diagnose(graph, IN_THE_FILE, ["vela:ethos-u55"])[0].reads


# -- commands --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["convolution", "type-fp32", "variable", "no-input"])
def test_every_printed_command_writes_a_file_that_the_reader_reads(
    doctor: Any, tmp_path: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch_mlir")
    (tmp_path / "a folder").mkdir()
    commands = 0
    for path in written(dict(programs())[name], name, tmp_path / "a folder"):
        before = path.read_bytes()
        code, out, _ = doctor("--json", str(path))
        rows = json.loads(out)["readers"]
        assert code == 0
        for row in rows:
            assert doctor("--for", row["name"], str(path))[0] == (0 if row["reads"] else 1)
            assert bool(row["findings"]) != row["reads"]
            if row["command"] is None:
                continue
            program, *words = shlex.split(row["command"])
            assert program == "tosa-flatbuffer"
            assert run(tosa_flatbuffer, words) == 0, row["command"]
            capfd.readouterr()
            target = words[words.index("-o") + 1]
            code, out, _ = doctor("--for", row["name"], target)
            assert code == 0, out
            commands += 1
        assert path.read_bytes() == before
    assert commands


# -- the report ------------------------------------------------------------------------------------


def test_the_report_names_readers_reasons_and_commands(
    doctor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = {"tosa-tools": "2026.8.0", "ethos-u-vela": "5.1.0"}
    monkeypatch.setattr(module, "installed_release", lambda package: here.get(package, ""))
    tc.save(convolution(), "m.tosa", weights="offset")
    code, out, err = doctor("m.tosa", "--for", "vela", "--for", "tosa-opt", "--for", "iree")
    assert (code, err) == (1, "")
    assert out.splitlines() == [
        "m.tosa: TOSA flatbuffer, TOSA 1.0.0, weights after the flatbuffer",
        "program         reads it  found with                 in this Python",
        "tosa-opt        yes       tosa-tools 2026.8.0        installed",
        "vela:ethos-u55  no        ethos-u-vela 5.2.0         5.1.0 installed",
        "    the weights are after the flatbuffer: vela refuses the file: constants are missing",
        "    $ tosa-flatbuffer repack m.tosa -o m_for_vela.tosa --for vela:ethos-u55",
        "iree            no        iree-base-compiler 3.13.0  not installed",
        "    iree reads MLIR bytecode and MLIR text, not TOSA flatbuffer",
        "    $ tosa-flatbuffer convert m.tosa -o m_for_iree.mlirbc",
    ]


def test_the_report_says_what_was_not_tried(doctor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "installed_release", lambda package: "")
    tc.save(dict(programs())["no-input"], "m.tosa")
    code, out, _ = doctor("m.tosa", "--for", "virtio-accel", "--for", "flatc")
    assert code == 0
    assert out.splitlines()[2:] == [
        "flatc         yes       tosa-tools 2026.8.0      not installed",
        "virtio-accel  yes       virtio-accel 2026-09-17  not installed",
        "    documented, not tried: README.md and crates/*/README.md of "
        "https://github.com/MicroPerceptron/virtio-accel",
    ]
    rows = json.loads(doctor("m.tosa", "--json", "--for", "virtio-accel", "--for", "flatc")[1])
    assert [bool(row["source"]) for row in rows["readers"]] == [False, True]
    # Python's packages have no such program.
    assert "virtio-accel" not in doctor()[1]


def test_equal_reasons_are_printed_once(doctor: Any) -> None:
    tc.save(example(), "m.tosa")
    out = doctor("m.tosa", "--for", "vela")[1]
    assert out.count("vela:ethos-u55 does not read FP32 tensors") == 1
    assert out.count("quantise the model before it is converted") == 1
    assert 'tensor "x" and 4 more' in out


def test_a_release_that_is_installed_is_found() -> None:
    assert module.installed_release("numpy") == np.__version__
    assert module.installed_release("no-such-package") == ""


@pytest.mark.parametrize(
    ("installed", "expected"),
    [
        (
            {"torch": ("2.15.0", []), "torchvision": ("0.28.1", ["torch==2.14.0", "numpy"])},
            "torchvision 0.28.1 needs torch==2.14.0, and 2.15.0 is installed\n"
            "    $ pip install torch==2.14.0\n",
        ),
        (
            {"mlia-ethos-u": ("0.1.0", ["mlia==0.12.2", 'x; extra == "dev"'])},
            "mlia-ethos-u 0.1.0 needs mlia==0.12.2, and it is not installed\n"
            "    $ pip install mlia==0.12.2\n",
        ),
        (
            {"onnx": ("1.23.0", []), "executorch": ("1.5.1", ['onnx<1.22; python_version > "3"'])},
            "executorch 1.5.1 needs onnx<1.22, and 1.23.0 is installed\n"
            "    $ pip install 'onnx<1.22'\n",
        ),
    ],
)
def test_without_a_file_packages_that_do_not_fit_are_named(
    doctor: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    installed: dict[str, tuple[str, list[str]]],
    expected: str,
) -> None:
    for name, (release, needs) in installed.items():
        folder = tmp_path / f"{name.replace('-', '_')}-{release}.dist-info"
        folder.mkdir()
        lines = [f"Requires-Dist: {text}" for text in needs]
        text = "\n".join(["Metadata-Version: 2.1", f"Name: {name}", f"Version: {release}", *lines])
        (folder / "METADATA").write_text(f"{text}\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    code, out, err = doctor()
    assert (code, err) == (1, "")
    assert expected in out
    for name, (release, _) in installed.items():
        assert re.search(rf"^{name} +{re.escape(release)} ", out, re.MULTILINE)
    found = json.loads(doctor("--json")[1])["misfits"]
    assert f"    $ {found[0]['command']}\n" in out


def test_packages_that_fit_are_no_failure(doctor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "misfits", lambda packages: iter(()))
    code, out, _ = doctor()
    assert (code, "what is installed fits\n" in out) == (0, True)


def test_without_a_file_options_of_files_are_refused(doctor: Any) -> None:
    code, _, err = doctor("--for", "vela")
    assert (code, "they need FILE" in err) == (2, True)


def test_only_a_program_of_for_that_does_not_read_the_file_is_a_failure(doctor: Any) -> None:
    tc.save(example(), "m.tosa")
    assert doctor("m.tosa")[0] == 0
    assert doctor("m.tosa", "--for", "tosa-opt")[0] == 0
    assert doctor("m.tosa", "--for", "tosa-opt", "--for", "vela")[0] == 1


def test_files_that_cannot_be_read_have_the_exit_code_of_their_error(
    doctor: Any, tmp_path: Path
) -> None:
    (tmp_path / "broken.tosa").write_bytes(b"\x10\0\0\0TOSA")
    assert doctor("broken.tosa")[0] == 3
    assert doctor("missing.tosa")[0] == 2
    assert doctor("missing.tosa", "--for", "nobody")[0] == 2


@pytest.mark.parametrize(("generic", "expected"), [(False, False), (True, True)])
def test_the_form_of_text_is_recognised(tmp_path: Path, generic: bool, expected: bool) -> None:
    pytest.importorskip("torch_mlir")
    path = tmp_path / "m.mlir"
    tc.save(convolution(), path, generic=generic)
    opened = open_input(str(path))
    graph, storage = read_with_storage(opened)
    stored = stored_program(str(path), opened, storage, graph)
    assert stored.generic == expected
