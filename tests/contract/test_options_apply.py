"""Every option with every format: it has an effect, or it is refused by name. Nothing is ignored."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest
from unit.building import graph, op, tensor

import tosa_convert as tc
from tosa_convert.cli.main import run, verb
from tosa_convert.graph import Graph

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


@pytest.mark.parametrize("elide", [-1, True, "3"])
def test_elide_is_a_number_of_elements(elide: Any) -> None:
    with pytest.raises(tc.TosaConvertError, match="expected a number of elements") as caught:
        tc.dumps(program(), "mlir", elide=elide)
    assert caught.value.code == "option-conflict"


def test_text_without_its_constants_cannot_be_verified(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(tc.TosaConvertError, match="cannot be read back") as caught:
        tc.dumps(program(), "mlir", elide=0, verify=True)
    assert caught.value.code == "option-conflict"
    arguments = [str(folder / "m.tosa"), "-o", str(tmp_path / "n.mlir"), "--elide", "0", "--verify"]
    assert run(verb("convert"), arguments) == 2
    assert "cannot be read back" in capsys.readouterr().err


def test_progress_without_a_path_is_refused(folder: Path) -> None:
    module = tc.to_module(program())
    with pytest.raises(tc.TosaConvertError, match="the option progress does not apply") as caught:
        tc.export_tosa_func_to_flatbuffer(module, None, progress=print)
    assert caught.value.code == "option-conflict"


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
    with pytest.raises(tc.TosaConvertError, match="expected one of") as caught:
        call(tc, tc.to_module(program()), tmp_path / "x.tosa")
    assert caught.value.code == "option-conflict"
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
    with pytest.raises(tc.TosaConvertError, match=f"the option {option} does not apply") as caught:
        tc.save(program(), "/dev/null", to="tosa", **options)
    assert caught.value.code == "option-conflict"
    tc.save(program(), "/dev/null", to="tosa")
