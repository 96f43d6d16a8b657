"""Every option with every format: it has an effect, or it is refused by name. Nothing is ignored."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest
from refusing import refused
from unit.building import graph, op, tensor

import tosa_convert as tc
from tosa_convert.cli.main import run, verb
from tosa_convert.graph import Graph
from tosa_convert.io.option_table import applicable
from tosa_convert.io.options import ReadOptions, WriteOptions, given_options

FORMATS: Final = ("mlir", "mlirbc", "tosa", "json")
MLIR: Final = {"mlir", "mlirbc"}
TEXT: Final = {"mlir"}
FLATBUFFERS: Final = {"tosa", "json"}
ALL: Final = {*FORMATS}

#: Option of `load` -> a value that is not the default, and the formats that it applies to.
LOAD: Final[dict[str, tuple[Any, set[str]]]] = {
    "func": ("main", MLIR),
    "names": ("generate", MLIR),
    "dialect": ("2023-02", MLIR),
    "full_paths": (True, MLIR),
    "narrow": (["i64"], MLIR),
    "pass_captured": (True, MLIR),
    "input_shapes": ({"arg0": (2,)}, ALL),
    "accept_changed_weights": (True, FLATBUFFERS),
    "copy": (True, ALL),
    "limits": ({"json-depth": 65}, ALL),
}
#: Option of `save` and `dumps` -> the same.
SAVE: Final[dict[str, tuple[Any, set[str]]]] = {
    "names": ("generate", MLIR),
    "bytecode_version": (6, {"mlirbc"}),
    "dialect": ("2023-02", MLIR),
    "function_op": ("ml_program.func", MLIR),
    "generic": (True, TEXT),
    "locations": (False, TEXT),
    "elide": (4, TEXT),
    "verify": (True, ALL),
    "validate": (False, ALL - {"json"}),
    "weights": ("embedded", ALL),
    "limits": ({"json-depth": 65}, ALL),
}
OPERATORS: Final = Path(__file__).parents[2] / "examples/extension/tosa_example/custom.py"
#: Flag of `convert` -> its value, the inputs that it applies to, and the outputs.
CONVERT: Final[dict[str, tuple[str | None, set[str], set[str]]]] = {
    "--func": ("main", MLIR, set()),
    "--split-input-file": (None, TEXT, set()),
    "--names": ("generate", MLIR, MLIR),
    "--bytecode-version": ("6", set(), {"mlirbc"}),
    "--function-op": ("ml_program.func", set(), MLIR),
    "--generic": (None, set(), TEXT),
    "--no-locations": (None, set(), TEXT),
    "--elide": ("4", set(), TEXT),
    "--full-paths": (None, MLIR, set()),
    "--narrow": ("i64", MLIR, set()),
    "--pass-captured": (None, MLIR, set()),
    "--input-shape": ("arg0=2", ALL, set()),
    "--custom": (str(OPERATORS), ALL, set()),
    "--accept-changed-weights": (None, FLATBUFFERS, set()),
    "--limit": ("json-depth=65", ALL, ALL),
    "--verify": (None, ALL, ALL),
    "--no-validate": (None, set(), ALL - {"json"}),
    "--weights": ("embedded", ALL, ALL),
    "--tosa-version": ("1.1", ALL, ALL),
    "--input-names": ("image", ALL, ALL),
    "--output-names": ("score", ALL, ALL),
    "--for": ("tosa-opt", set(), {"tosa", *MLIR}),
    # Of models of frameworks: tests/frontends.
    "--via": ("executorch", set(), set()),
    "--exact": (None, set(), set()),
    "--python": ("python", set(), set()),
    "--timeout": ("5", set(), set()),
    "--check": (None, set(), set()),
    "--partial": (None, set(), set()),
    "--input": ("x.npz", set(), set()),
    "--random": ("0", set(), set()),
    "--engine": ("numpy", set(), set()),
    "--random-weights": (None, set(), set()),
}


def program() -> Graph:
    return graph(
        "x", "y", [tensor("x", "FP32", (2,)), tensor("y", "FP32", (2,))], [op("EXP", "x", "y")]
    )


@pytest.fixture(scope="module")
def folder(torch_mlir: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the program as m.mlir, m.mlirbc, m.tosa and m.json."""
    path = tmp_path_factory.mktemp("formats")
    for name in FORMATS:
        tc.save(program(), path / f"m.{name}")
    return path


def refusal(call: Callable[[], object]) -> tc.TosaConvertError | None:
    try:
        call()
    except tc.TosaConvertError as error:
        return error
    return None


def assert_refused(error: tc.TosaConvertError | None, name: str, refused: bool) -> None:
    assert (error is not None) == refused, error
    if error is not None:
        assert error.code == "option-conflict"
        assert error.exit_code == 2
        assert len(error.findings) == 1
        assert f"the option {name}" in error.findings[0].message


@pytest.mark.parametrize(("option", "name"), list(product(LOAD, FORMATS)))
def test_an_option_of_load_applies_or_is_refused(folder: Path, option: str, name: str) -> None:
    value, applies = LOAD[option]
    options: dict[str, Any] = {option: value}
    path = folder / f"m.{name}"
    assert_refused(refusal(lambda: tc.load(path, **options)), option, name not in applies)
    data = path.read_bytes()
    assert_refused(refusal(lambda: tc.load(data, **options)), option, name not in applies)


@pytest.mark.parametrize(("option", "name"), list(product(SAVE, FORMATS)))
def test_an_option_of_save_applies_or_is_refused(
    folder: Path, tmp_path: Path, option: str, name: str
) -> None:
    value, applies = SAVE[option]
    options: dict[str, Any] = {option: value}
    saved = refusal(lambda: tc.save(program(), tmp_path / f"n.{name}", **options))
    assert_refused(saved, option, name not in applies)
    dumps: Any = tc.dumps
    dumped = refusal(lambda: dumps(program(), name, **options))
    assert_refused(dumped, option, name not in applies)
    assert (tmp_path / f"n.{name}").exists() == (name in applies)


@pytest.mark.parametrize(("flag", "source", "target"), list(product(CONVERT, FORMATS, FORMATS)))
def test_an_option_of_convert_applies_or_is_refused(
    folder: Path,
    tmp_path: Path,
    flag: str,
    source: str,
    target: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    value, inputs, outputs = CONVERT[flag]
    applies = source in inputs or target in outputs
    arguments = [flag] if value is None else [flag, value]
    output = tmp_path / f"n.{target}"
    code = run(verb("convert"), [str(folder / f"m.{source}"), "-o", str(output), *arguments])
    message = capsys.readouterr().err
    assert code == (0 if applies else 2), message
    assert output.exists() == applies
    if not applies:
        assert f"({flag}) does not apply to" in message
        assert message.count("option-conflict") == 1


@pytest.mark.parametrize("name", FORMATS)
def test_defaults_are_never_refused(folder: Path, tmp_path: Path, name: str) -> None:
    tc.load(
        folder / f"m.{name}",
        func=None,
        names="retain",
        full_paths=False,
        narrow=(),
        pass_captured=False,
        input_shapes={},
        accept_changed_weights=False,
        copy=False,
        limits=None,
    )
    tc.save(
        program(),
        tmp_path / f"n.{name}",
        to=None,
        weights="auto",
        names="retain",
        bytecode_version=1,
        generic=False,
        locations=True,
        elide=None,
        verify=False,
        validate=True,
        progress=None,
        limits=None,
    )
    defaults = [
        "--names",
        "retain",
        "--weights",
        "auto",
        "--narrow",
        "",
        "--bytecode-version",
        "1",
        "-j",
        "0",
    ]
    for target in FORMATS:
        arguments = [str(folder / f"m.{name}"), "-o", str(tmp_path / f"o.{target}"), *defaults]
        assert run(verb("convert"), arguments) == 0


def test_all_options_that_do_not_apply_are_listed_at_once(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.load(folder / "m.tosa", func="f", narrow="i64", names="generate", full_paths=True)
    assert len(caught.value.findings) == 4
    flags = ["--func", "f", "--narrow", "i64", "--names", "generate", "--full-paths"]
    flags += ["--for", "vela"]
    source, target = str(folder / "m.tosa"), str(tmp_path / "n.json")
    assert run(verb("convert"), [source, "-o", target, *flags]) == 2
    message = capsys.readouterr().err
    for flag in flags:
        assert not flag.startswith("--") or flag in message
    assert message.count("[option-conflict]") == 5


@pytest.mark.parametrize("elide", [-1, True, "3"])
def test_elide_is_a_number_of_elements(elide: Any) -> None:
    with refused("option-conflict", match="expected a number of elements"):
        tc.dumps(program(), "mlir", elide=elide)


def test_text_without_its_constants_cannot_be_verified(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with refused("option-conflict", match="cannot be read back"):
        tc.dumps(program(), "mlir", elide=0, verify=True)
    arguments = [str(folder / "m.tosa"), "-o", str(tmp_path / "n.mlir"), "--elide", "0", "--verify"]
    assert run(verb("convert"), arguments) == 2
    assert "cannot be read back" in capsys.readouterr().err


def test_options_of_import_apply_or_are_refused(folder: Path) -> None:
    load: Any = tc.import_tosa_func_from_flatbuffer
    for name in FORMATS:
        path = folder / f"m.{name}"
        assert load(path, names="generate", constants="dense", copy=True) is not None
        error = refusal(partial(load, path, accept_changed_weights=True))
        assert_refused(error, "accept_changed_weights", name in MLIR)


def test_progress_without_a_path_is_refused(folder: Path) -> None:
    module = tc.to_module(program())
    with refused("option-conflict", match="the option progress does not apply"):
        tc.export_tosa_func_to_flatbuffer(module, None, progress=print)


@pytest.mark.parametrize(
    "call",
    [
        lambda f, m, p: f.save(program(), p, to="TOSA"),
        lambda f, m, p: f.dumps(program(), "TOSA"),
        lambda f, m, p: f.export_tosa_func_to_flatbuffer(m, p, to="mlir"),
        lambda f, m, p: f.export_tosa_func_to_flatbuffer(m, to="mlir"),
        lambda f, m, p: f.export_tosa_func_to_flatbuffer(m, to="TOSA"),
    ],
)
def test_an_unknown_format_is_refused(tmp_path: Path, call: Any, torch_mlir: Any) -> None:
    with refused("option-conflict", match="expected one of"):
        call(tc, tc.to_module(program()), tmp_path / "x.tosa")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("narrow", "accepted"),
    [("i64", True), ("i64,f64", True), (["i64"], True), ({"f64"}, True), ("", True), ("i8", False),
     (["i64", "banana"], False), ("f64;i64", False)],
)  # fmt: skip
def test_types_to_narrow_are_accepted_or_refused(narrow: Any, accepted: bool) -> None:
    module = tc.to_module(program())
    error = refusal(lambda: tc.export_tosa_func_to_flatbuffer(module, narrow=narrow))
    assert (error is None) == accepted
    if error is not None:
        assert error.code == "option-conflict"
        assert "expected one of i64, f64" in str(error)


@pytest.mark.skipif(not Path("/dev/null").is_char_device(), reason="a device of POSIX")
@pytest.mark.parametrize("options", [{"verify": True}, {"weights": "npy"}])
def test_a_device_cannot_be_verified_or_have_weights_beside_it(options: dict[str, Any]) -> None:
    option = next(iter(options))
    with refused("option-conflict", match=f"the option {option} does not apply"):
        tc.save(program(), "/dev/null", to="tosa", **options)
    tc.save(program(), "/dev/null", to="tosa")


def test_the_table_of_the_program_has_a_row_for_every_option() -> None:
    fields = {*ReadOptions.__dataclass_fields__, *WriteOptions.__dataclass_fields__}
    assert fields <= applicable().keys()
    flags = {row.flag for row in applicable().values() if row.flags}
    assert flags == CONVERT.keys()
    # These say where and how to convert, and always have an effect.
    others = {"--output", "--to", "--jobs", "--version", "--help", "--quiet", "--verbose"}
    others |= {"--export-to-flatbuffer", "--import-from-flatbuffer"}
    offered = {max(option.opts, key=len) for option in verb("convert").params} - {"paths"}
    assert offered - others == flags


def test_an_option_counts_as_given_if_it_is_not_the_default() -> None:
    assert given_options(ReadOptions()) == set()
    assert given_options(ReadOptions(func="f", names="retain")) == {"func"}
