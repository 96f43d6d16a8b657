"""Extensions: the example package, installed into a folder, and packages that are broken."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from golden.conftest import Builder
from oracle.small_programs import convolution
from refusing import refused

import tosa_convert as tc
from tosa_convert import builder, golden
from tosa_convert.cli import main
from tosa_convert.errors import TosaConvertError
from tosa_convert.extensions import DEFINES, find_extension
from tosa_convert.golden.arrays import save_npz
from tosa_convert.graph.model import Graph

NAME = "extension:example"


def run(verb: str, words: list[str]) -> int:
    return main.run(main.verb(verb), words)


@pytest.fixture(scope="module")
def installed_example(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which pip installed the example."""
    pytest.importorskip(
        "setuptools", reason="setuptools, which builds the example, is not installed"
    )
    folder = tmp_path_factory.mktemp("example")
    copy = folder / "source"
    shutil.copytree(root / "examples/extension", copy)
    words = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--target")
    command = [sys.executable, "-m", "pip", "install", *words, str(folder / "site"), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


@pytest.fixture
def on_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """Make a folder one of Python's, here and in child processes."""

    def add(folder: Path) -> None:
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.setenv("PYTHONPATH", str(folder))
        importlib.invalidate_caches()

    yield add
    for name in [name for name in sys.modules if name.partition(".")[0] == "tosa_example"]:
        del sys.modules[name]


@pytest.fixture
def example(installed_example: Path, on_path: Callable[[Path], None]) -> None:
    on_path(installed_example)


@pytest.fixture
def package(tmp_path: Path, on_path: Callable[[Path], None]) -> Callable[..., None]:
    """Installs a package with one module as an extension of every kind."""

    def install(source: str, *, distribution: str = "tiny", name: str = "example") -> None:
        folder = tmp_path / "site"
        info = folder / f"{distribution}-1.0.dist-info"
        info.mkdir(parents=True)
        (folder / f"{distribution}.py").write_text(source)
        rows = (f"[tosa_convert.{kind}]\n{name} = {distribution}\n" for kind in DEFINES)
        (info / "entry_points.txt").write_text("\n".join(rows))
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1\n")
        on_path(folder)
        sys.modules.pop(distribution, None)

    return install


def operators(*kinds: str) -> Graph:
    b = Builder()
    b.input("x", "FP32", (4,))
    for number, kind in enumerate(kinds):
        name = "y" if number == len(kinds) - 1 else f"t{number}"
        b.op(kind, ["x" if not number else f"t{number - 1}"], name, "FP32", (4,))
    return b.graph("y")


X = {"x": np.array([-1.0, 2.0, -3.0, 0.0], np.float32)}


@pytest.mark.slow
@pytest.mark.usefixtures("example")
def test_a_backend_of_another_package_is_checked_and_refuses(tmp_path: Path) -> None:
    assert golden.check(operators("ABS", "ABS"), NAME, X, engine="numpy").ok
    with refused("backend-refused", match="no operator CEIL"):
        golden.check(operators("CEIL"), NAME, X, engine="numpy")
    assert "tosa_example" not in sys.modules, "it ran in another process"
    for kind in ("ABS", "CEIL"):
        (tmp_path / kind).mkdir()
        tc.save(operators(kind), tmp_path / kind / "model.tosa")
        save_npz(tmp_path / kind / "inputs.npz", X)
    assert run("suite", [str(tmp_path), "--against", NAME]) == 0


@pytest.mark.slow
@pytest.mark.usefixtures("example")
def test_a_frontend_of_another_package_converts_any_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "m.layers"
    model.write_text("abs\nexp\n")
    graph = tc.frontends.from_file(model, via=NAME)
    assert [op.spec.name for op in graph.main.operators] == ["ABS", "EXP"]
    assert (graph.main.inputs, graph.main.outputs) == (["x"], ["y"])
    assert "tosa_example" not in sys.modules
    out = tmp_path / "m.tosa"
    assert run("convert", [str(model), "--via", NAME, "-o", str(out)]) == 0
    assert tc.compare(tc.load(out), graph) is None
    assert run("convert", [str(model), "--via", NAME, "-o", str(out), "--check"]) == 2
    model.write_text("sort\n")
    capsys.readouterr()
    assert run("convert", [str(model), "--via", NAME, "-o", str(tmp_path / "n.tosa")]) == 2
    said = capsys.readouterr().err
    assert f"{NAME}: error: " in said
    assert "no layer 'sort', expected one of abs, exp" in said
    assert not (tmp_path / "n.tosa").exists()
    with refused("file-error", match="No such file"):
        tc.frontends.from_file(tmp_path / "none", via=NAME)


@pytest.mark.slow
@pytest.mark.usefixtures("example")
def test_a_custom_operator_of_another_package_is_computed() -> None:
    b = builder.Builder()
    x = b.input("x", "FP32", (4,))
    made = b.custom([x], [("FP32", (4,))], operator_name="SQUARE", domain_name="example")
    b.output(*made, name="y")
    assert golden.run(b.graph(), X, custom=NAME).outputs["y"].tolist() == [1, 4, 9, 0]


@pytest.mark.slow
@pytest.mark.usefixtures("example")
def test_a_rewrite_of_another_package_runs_if_it_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = operators("ABS", "ABS", "ABS")
    assert len(tc.rewrites.apply(graph).graph.main.operators) == 3
    done, report = tc.rewrites.apply(graph, NAME, "clean-up")
    assert [op.spec.name for op in done.main.operators] == ["ABS"]
    assert [(row.rewrite, row.count) for row in report.changes if row.rewrite == NAME] == [
        (NAME, 2)
    ]
    tc.save(graph, tmp_path / "m.tosa")
    words = [str(tmp_path / "m.tosa"), "-o", str(tmp_path / "out.tosa"), "--only", NAME]
    assert run("rewrite", [*words]) == 0
    assert "ABS of ABS became one" in capsys.readouterr().err
    assert run("rewrite", ["--list", "--only", NAME]) == 0
    assert capsys.readouterr().out.startswith(f"{NAME}  added ")


GOOD = "TOSA_PROTOCOL = 1\nOPERATORS = ['ABS']\ndef run(m, i): ...\ndef convert(p): ...\n"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def run(): ...", "expected TOSA_PROTOCOL = 1 in "),
        ("def run(): ...", "which does not state one"),
        (GOOD.replace("= 1", "= 2"), "which is for version 2"),
        ("TOSA_PROTOCOL = 1", "does not define run"),
        ("def", "cannot be read: "),
    ],
)
def test_a_broken_extension_is_refused_by_its_name(
    package: Callable[..., None], source: str, said: str
) -> None:
    package(source)
    with refused("option-conflict", match=said) as caught:
        find_extension("backends", NAME)
    assert caught.value.findings[0].where == NAME


def test_names_that_are_close_or_taken_twice_are_named(package: Callable[..., None]) -> None:
    package(GOOD)
    with pytest.raises(TosaConvertError, match="did you mean example"):
        find_extension("backends", "extension:exmaple")
    package(GOOD, distribution="other")
    with pytest.raises(TosaConvertError, match="several packages have it: other, tiny"):
        find_extension("backends", NAME)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "def rewrite(op, edit): return 1 / 0",
            r"it failed on .*: ZeroDivisionError: .* \(.*tiny\.py:[0-9]+\)",
        ),
        (
            "def rewrite(op, edit): raise SystemExit",
            r"it failed on .*: it ends the process: sys.exit\(None\) \(.*tiny\.py:[0-9]+\)",
        ),
        ("raise SystemExit(0)\ndef rewrite(op, edit): ...", r"not loaded: .* sys.exit\(0\) \("),
        ("raise ImportError('no such library')\ndef rewrite(op, edit): ...", "no such library"),
        ("OPERATORS = ['NONE']\ndef rewrite(op, edit): ...", "was not loaded: KeyError"),
        (
            # It ends by itself, so that the test fails, and does not hang, where nothing stops it.
            "calls = iter(range(300))\ndef rewrite(op, edit):\n"
            "    if next(calls, None) is None: return None\n"
            "    edit.emit('ABS', op.inputs, results=op.outputs)\n    return 'again'",
            "it replaced .* 100 times, and still does",
        ),
    ],
)
def test_a_rewrite_that_fails_is_named(package: Callable[..., None], body: str, said: str) -> None:
    package(f"{GOOD}{body}\n")
    with pytest.raises(TosaConvertError, match=said) as caught:
        tc.rewrites.apply(operators("ABS"), NAME)
    assert caught.value.findings[0].where == NAME


def test_nothing_of_an_extension_is_imported_unless_it_is_named(
    package: Callable[..., None],
) -> None:
    package("raise SystemExit('imported')")
    tc.rewrites.apply(operators("ABS"))
    with pytest.raises(TosaConvertError, match="expected TOSA_PROTOCOL = 1"):
        golden.check(operators("ABS"), NAME, X, engine="numpy")


def test_extensions_are_listed_with_what_is_wrong_with_them(
    package: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("extensions", []) == 0
    assert "no package in this Python" in capsys.readouterr().out
    package("TOSA_PROTOCOL = 1\ndef run(model, inputs): pass\ndef convert(path): pass\n")
    assert run("extensions", []) == 1
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [words for words in lines if words[0] != "cannot"] == [
        ["name", "kind", "module", "package"],
        ["extension:example", "backend", "tiny", "tiny", "1"],
        ["extension:example", "custom", "tiny", "tiny", "1"],
        ["extension:example", "frontend", "tiny", "tiny", "1"],
        ["extension:example", "rewrite", "tiny", "tiny", "1"],
    ]
    assert "tiny" not in sys.modules, "it is read, not imported"
    assert run("extensions", ["--json"]) == 1
    rows = {row["kind"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["backends"]["problem"] == ""
    assert "does not define OPERATORS and rewrite" in rows["rewrites"]["problem"]


def test_a_backend_without_the_prefix_is_suggested_and_its_folder_has_no_results(
    package: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nearly every repository has a folder with the name of its package."""
    package("TOSA_PROTOCOL = 1\ndef run(model, inputs):\n    return {}\n", name="qnpu")
    monkeypatch.chdir(tmp_path)
    tc.save(operators("ABS"), "m.tosa")
    save_npz(Path("x.npz"), {"x": np.zeros(4, np.float32)})
    words = ["m.tosa", "-i", "x.npz", "--against"]
    assert run("check", [*words, "qnpu"]) != 0
    said = capsys.readouterr().err
    assert "extension:NAME" in said
    assert "did you mean extension:qnpu?" in said
    Path("qnpu").mkdir()
    Path("qnpu/__init__.py").write_text("")
    assert run("check", [*words, "qnpu"]) == 2
    said = capsys.readouterr().err
    assert "--against qnpu: error: the folder has no results: neither .npy files nor" in said
    assert "did you mean extension:qnpu?" in said
    Path("cases/one").mkdir(parents=True)
    shutil.copy("m.tosa", "cases/one/model.tosa")
    shutil.copy("x.npz", "cases/one/inputs.npz")
    assert run("suite", ["cases", "--against", "qnpu"]) == 2
    assert "did you mean extension:qnpu?" in capsys.readouterr().err
    Path("qnpu/case").mkdir()
    Path("qnpu/case/manifest.json").write_text("{}")
    run("suite", ["cases", "--against", "qnpu"])
    assert "has no results" not in capsys.readouterr().err


def test_the_transformer_of_mlia_converts_and_says_why_it_does_not(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(root / "examples/mlia_plugin"))
    errors = ModuleType("mlia.core.errors")
    monkeypatch.setattr(errors, "ConfigurationError", RuntimeError, raising=False)
    for name, module in (("mlia", errors), ("mlia.core", errors), ("mlia.core.errors", errors)):
        monkeypatch.setitem(sys.modules, name, module)
    found: dict[str, Any] = {}
    importlib.import_module("tosa_mlia").register(SimpleNamespace(register=found.__setitem__))
    transformer = found["model_to_tosa"]
    tc.save(convolution(), tmp_path / "m.mlirbc")
    assert transformer.supports(tmp_path / "m.mlirbc", "tosa")
    assert not transformer.supports(tmp_path / "m.tflite", "tosa")
    assert not transformer.supports(tmp_path / "m.mlirbc", "pte")
    program = tc.load(transformer(tmp_path / "m.mlirbc", tmp_path))
    assert not tc.compare(program, convolution())
    with pytest.raises(RuntimeError, match="FP32 tensors"):
        transformer(root / "examples/digits_cnn.mlirbc", tmp_path)
