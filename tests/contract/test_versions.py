"""TOSA versions: which are written, which are read, and which are refused."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import pytest
from contract.conftest import CASES
from oracle.official_suite import Case
from refusing import refused

import tosa_convert as tc
from tosa_convert import api
from tosa_convert.cli.main import run, verb
from tosa_convert.formats.bindings.packages import Bindings
from tosa_convert.graph.model import SoftwareVersion, Version
from tosa_convert.graph.versions import BY_NAME, V1_0, V1_1_DRAFT, lowest_version

F32 = "tensor<2xf32>"
#: Only 1.1 has DIM, an INT64 tensor, and a CAST of bool to f32.
NEW = """
module {
  func.func @f(%x: tensor<2xi1>, %y: tensor<2xi64>) -> (tensor<2xf32>, tensor<2xi64>) {
    %0 = tosa.cast %x : (tensor<2xi1>) -> tensor<2xf32> loc("the cast")
    %1 = "tosa.dim"(%y) {axis = 0 : i32} : (tensor<2xi64>) -> !tosa.shape<1> loc("f.mlir":7:3)
    return %0, %y : tensor<2xf32>, tensor<2xi64>
  }
}
"""
OLD = (
    f"func.func @f(%x: {F32}) -> {F32} {{ %0 = tosa.abs %x : ({F32}) -> {F32} return %0 : {F32} }}"
)


def module(bindings: Bindings, text: str, **attributes: str) -> Any:
    """Return a module, with attributes of its own."""
    made = bindings.ir.Module.parse(text, bindings.new_context())
    for name, value in attributes.items():
        made.operation.attributes[name.replace("_", ".", 1)] = bindings.ir.Attribute.parse(
            value, made.context
        )
    return made


def version_of(data: bytes) -> Version:
    return tc.load(data).version


# -- writing ------------------------------------------------------------------------------------


def test_the_lowest_version_is_stamped_unless_another_is_asked_for(bindings: Bindings) -> None:
    old, new = module(bindings, OLD), module(bindings, NEW)
    assert version_of(tc.export_tosa_func_to_flatbuffer(old)) == V1_0
    assert version_of(tc.export_tosa_func_to_flatbuffer(new)) == V1_1_DRAFT
    name: Any
    for name, version in BY_NAME.items():
        assert version_of(tc.export_tosa_func_to_flatbuffer(old, tosa_version=name)) == version


def test_features_that_1_0_lacks_are_refused_with_their_location(
    bindings: Bindings, tmp_path: Path
) -> None:
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.export_tosa_func_to_flatbuffer(
            module(bindings, NEW), tmp_path / "m.tosa", tosa_version="1.0"
        )
    found = [(f.code, f.where, f.message) for f in caught.value.findings]
    block = 'region "f" block "main"'
    assert {code for code, _, _ in found} == {"version-too-low"}
    assert [(where, message.partition(";")[0]) for _, where, message in found] == [
        (f'loc("the cast"): {block} operator #0 CAST', "CAST of BOOL, FP32 needs TOSA 1.1"),
        (f"f.mlir:7:3: {block} operator #1 DIM", "DIM needs TOSA 1.1"),
        (f'{block} tensor "TosaInput_1"', "INT64 needs TOSA 1.1"),
    ]
    assert caught.value.exit_code == 4
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_version_is_refused(bindings: Bindings) -> None:
    with pytest.raises(tc.TosaConvertError, match=r"found '1\.2', expected one of 1\.0, 1\.1"):
        tc.export_tosa_func_to_flatbuffer(module(bindings, OLD), tosa_version="1.2")  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("target", "version"), [('"1.0"', V1_0), ('"1.1.draft"', V1_1_DRAFT)], ids=["1.0", "1.1"]
)
def test_the_modules_target_is_honoured(
    target: str, version: Version, torch_mlir: Bindings
) -> None:
    env = (
        f"#tosa.target_env<specification_version = {target}, level = none, "
        "profiles = [pro_int], extensions = [int16]>"
    )
    made = module(torch_mlir, OLD, tosa_target_env=env)
    assert "target_env" in str(made)
    assert version_of(tc.export_tosa_func_to_flatbuffer(made)) == version
    # A version that is asked for takes precedence.
    assert version_of(tc.export_tosa_func_to_flatbuffer(made, tosa_version="1.0")) == V1_0


def test_a_target_that_the_program_does_not_fit_is_refused(torch_mlir: Bindings) -> None:
    manager = pytest.importorskip("torch_mlir.passmanager").PassManager
    made = module(torch_mlir, NEW)
    with made.context:
        manager.parse(
            "builtin.module(tosa-attach-target{specification_version=1.0 profiles=pro_fp})"
        ).run(made.operation)
    with refused("version-too-low"):
        tc.export_tosa_func_to_flatbuffer(made)
    assert version_of(tc.export_tosa_func_to_flatbuffer(made, tosa_version="1.1")) == V1_1_DRAFT


@pytest.mark.parametrize("version", [V1_0, V1_1_DRAFT, Version(1, 0, 2, draft=True)], ids=str)
def test_the_version_survives_mlir(version: Version, bindings: Bindings, tmp_path: Path) -> None:
    graph = tc.load(tc.export_tosa_func_to_flatbuffer(module(bindings, OLD)))
    graph.version = version
    tc.save(graph, tmp_path / "m.tosa")
    back = tc.import_tosa_func_from_flatbuffer(tmp_path / "m.tosa", context=bindings.new_context())
    assert tc.export_tosa_func_to_flatbuffer(back) == (tmp_path / "m.tosa").read_bytes()


def test_the_command_line_option_selects_the_version(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], torch_mlir: Bindings
) -> None:
    source, target = tmp_path / "m.mlir", tmp_path / "m.tosa"
    source.write_text(NEW, encoding="utf-8")
    assert run(verb("convert"), [str(source), "-o", str(target), "--tosa-version", "1.0"]) == 4
    said = capsys.readouterr().err
    assert "DIM needs TOSA 1.1; 1.0.0 does not have it [version-too-low]" in said
    assert not target.exists()
    assert run(verb("convert"), [str(source), "-o", str(target)]) == 0
    again = tmp_path / "again.tosa"
    assert run(verb("convert"), [str(target), "-o", str(again), "--tosa-version", "1.0"]) == 4
    assert not again.exists()


def test_a_flatbuffer_keeps_its_version_even_if_it_needs_a_newer_one(
    tmp_path: Path, torch_mlir: Bindings
) -> None:
    """Other writers stamp 1.0 on programs that need more; such files are still converted."""
    graph = tc.load(tc.export_tosa_func_to_flatbuffer(module(torch_mlir, NEW)))
    graph.version = V1_0
    source, target = tmp_path / "m.tosa", tmp_path / "m.json"
    tc.save(graph, source)
    assert run(verb("convert"), [str(source), "-o", str(target)]) == 0
    assert tc.load(target).version == V1_0
    with pytest.raises(tc.TosaConvertError):
        api.stamp(tc.load(source), "1.0")


# -- reading ------------------------------------------------------------------------------------


@pytest.fixture
def stamped(example: Path, torch_mlir: Bindings) -> Any:
    """Return the example network as a file's bytes with the version given: (extension, version)."""

    def make(form: str, version: Version) -> bytes:
        graph = tc.load(example)
        graph.version = version
        buffer = io.BytesIO()
        buffer.writelines(api.render(graph, form))  # type: ignore[arg-type]
        return buffer.getvalue()

    return make


@pytest.mark.parametrize("form", ["tosa", "json"])
@pytest.mark.parametrize(
    "version",
    [V1_0, Version(1, 0, 7), Version(1, 0, 2, True), V1_1_DRAFT, Version(1, 1, 3, True)],
    ids=str,
)
def test_older_1_x_files_are_read_and_keep_their_version(
    form: str, version: Version, stamped: Any, example: Path
) -> None:
    graph = tc.load(stamped(form, version))
    assert graph.version == version
    assert tc.compare(tc.load(example), graph, locations=True) is None


@pytest.mark.parametrize("form", ["tosa", "json"])
@pytest.mark.parametrize(
    "version",
    [
        Version(0, 60, 0), Version(0, 90, 0), Version(0, 100, 0), Version(1, 1, 0),
        Version(1, 2, 0, True), Version(1, 2, 0), Version(2, 0, 0), Version(2, 0, 0, True),
        Version(-1, -1, -1, True),
    ],
    ids=str,
)  # fmt: skip
def test_other_versions_are_refused_with_their_number(
    form: str, version: Version, stamped: Any
) -> None:
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.load(stamped(form, version))
    (finding,) = caught.value.findings
    assert finding.code == "unsupported-version"
    said = "states no version of TOSA" if version.major < 0 else f"is TOSA {version}"
    assert finding.message == (
        f"the file {said}; readable versions are 1.0.0, 1.0.0 draft, 1.1.0 draft"
    )
    assert finding.hint
    assert caught.value.exit_code == 4


@pytest.mark.parametrize("form", ["tosa", "json"])
@pytest.mark.parametrize(
    ("reader", "features", "said"),
    [
        ((2027, 1, 0), 0, "a reader of schema 2027.1.0 or later, this one supports 2026.8.0"),
        ((2026, 8, 1), 0, "a reader of schema 2026.8.1 or later, this one supports 2026.8.0"),
        ((2026, 8, 0), 1 << 9, "features 0x200"),
        ((2026, 8, 0), 0b11, ""),
        ((2025, 1, 0), 0, ""),
    ],
)
def test_a_schema_newer_than_ours_is_refused_with_its_revision(
    form: str,
    reader: tuple[int, int, int],
    features: int,
    said: str,
    stamped: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for writer in ("flatbuffer", "json"):
        place = f"tosa_convert.formats.{writer}.write"
        monkeypatch.setattr(f"{place}.MIN_READER", SoftwareVersion(*reader))
        monkeypatch.setattr(f"{place}.features", lambda _: features)
    data = stamped(form, V1_1_DRAFT)
    if not said:
        assert tc.load(data).version == V1_1_DRAFT
        return
    with refused("unsupported-version") as caught:
        tc.load(data)
    assert said in caught.value.findings[0].message


@pytest.mark.oracle
def test_a_file_of_the_0_80_series_is_recognised_by_its_version(
    oracle: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its operators, attributes and types have other codes: only the version identifies it."""
    for name in ("tosa_0_80.fbs", "tosa_0_80.json"):
        shutil.copy(CASES / name, tmp_path)
    oracle.call(
        "flatc", "--binary", "-o", tmp_path, tmp_path / "tosa_0_80.fbs", tmp_path / "tosa_0_80.json"
    )
    old = tmp_path / "tosa_0_80.tosa"
    assert old.read_bytes()[4:8] == b"TOSA"
    # The operators of the file are expressed as today's; its JSON is refused.
    assert tc.load(old).main.operators[0].spec.name == "SCATTER"
    source = tmp_path / "tosa_0_80.json"
    text = source.read_text(encoding="utf-8")
    for key in ("version", "_major", "_minor", "_patch", "_draft", "regions"):
        text = text.replace(f"{key}:", f'"{key}":', 1)
    source.write_text(text, encoding="utf-8")
    assert run(verb("convert"), [str(source), "-o", str(tmp_path / "m.mlir")]) == 4
    said = capsys.readouterr().err
    assert "the file is TOSA 0.80.1; readable versions are 1.0.0" in said
    assert "only the flatbuffer is read" in said
    assert not (tmp_path / "m.mlir").exists()


# -- MLIR's own opinion -------------------------------------------------------------------------

_EXTENSIONS = (
    "int16,int4,bf16,fp8e4m3,fp8e5m2,fft,variable,controlflow,doubleround,inexactround,dynamic"
)
#: Operators of which 1.1 has more combinations of types.
_MIXED = {
    "conv2d", "conv3d", "depthwise_conv2d", "transpose_conv2d", "matmul", "cast", "gather", "scatter",
    "resize",
}  # fmt: skip
#: Features that MLIR's availability tables omit and the schema of 1.0 lacks.
_NOT_IN_THE_SCHEMA_OF_1_0 = {"RESHAPE_BLOCK_SCALED", "INT64"}


def needs_1_1(made: Any) -> bool | None:
    """Return whether MLIR's validator wants a target of 1.1; None if no target would do.

    The target has all profiles and all extensions of 1.0, so whatever else is required is of 1.1.
    """
    manager = pytest.importorskip("torch_mlir.passmanager").PassManager
    with made.context:
        passes = manager.parse(
            "builtin.module(tosa-attach-target{specification_version=1.0 level=none "
            f"profiles=pro_int,pro_fp extensions={_EXTENSIONS}}},"
            "tosa-validate{strict-op-spec-alignment})"
        )
        try:
            passes.run(made.operation.clone().operation)
        except Exception as error:
            if type(error).__name__ != "MLIRError":
                raise
            said = [str(d.message) for d in error.error_diagnostics]  # type: ignore[attr-defined]
            return True if any("op illegal: requires" in text for text in said) else None
    return False


@pytest.mark.slow
@pytest.mark.oracle
def test_the_version_we_stamp_is_the_one_that_mlirs_validator_requires(
    official_cases: list[Case], smallest: list[Case], torch_mlir: Bindings
) -> None:
    cases = {*smallest, *(case for case in official_cases if case.operator in _MIXED)}
    wrong, counts = [], {V1_0: 0, V1_1_DRAFT: 0}
    for case in sorted(cases):
        graph = tc.load(case.tosa)
        try:
            made = tc.import_tosa_func_from_flatbuffer(
                case.tosa, context=torch_mlir.new_context(), constants="dense"
            )
        except tc.TosaConvertError:
            continue  # MLIR refuses to build it, whatever the version
        ours, theirs = lowest_version(graph), needs_1_1(made)
        if theirs is None or theirs == (ours == V1_1_DRAFT):
            counts[ours] += theirs is not None
            continue
        newer = {op.spec.name for op in graph.main.operators if op.spec.since == (1, 1)}
        newer |= {t.dtype.name for t in graph.main.tensors.values() if t.dtype.since == (1, 1)}
        if ours == V1_0 or not newer & _NOT_IN_THE_SCHEMA_OF_1_0:
            wrong.append((str(ours), case.folder.name))
    assert wrong == []
    assert min(counts.values()) > 50, counts
