"""Shared by tests of all folders: how they run in parallel, seeds, bindings, reference model."""

from __future__ import annotations

import gc
import importlib.util
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tosa_convert.formats.bindings.packages import Bindings, default_bindings, installed

# Hundreds of tests start Python, and each would compile the whole package if no compiled file were kept.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

#: Every distribution of bindings we are tested with; a test that takes `bindings` runs on each.
BINDINGS = ("torch_mlir", "iree.compiler")


#: Files whose tests take longest, the longest first. They start first, so that no worker waits for them.
LONGEST = (
    "tests/contract/test_formats_table.py",
    "tests/oracle/test_official_suite.py",
    "tests/text/test_text.py",
    "tests/unit/api/test_garbage.py",
    "tests/unit/test_benchmarks_smoke.py",
    "tests/oracle/test_json_against_flatc.py",
    "tests/docs/test_readme.py",
    "tests/contract/test_versions.py",
    "tests/hostile/test_fuzz.py",
    "tests/golden/test_bisect.py",
    "tests/contract/test_nothing_lost.py",
)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Run whole folders on all cores with pytest-xdist, one file's tests in one worker.

    A file's tests share contexts and samples, which each worker would have to make again. Single files
    and tests run in this process: they finish before workers would have started. `-n 0` turns it off.
    """
    if not config.pluginmanager.hasplugin("xdist") or hasattr(config, "workerinput"):
        return
    option = config.option
    if option.numprocesses is None and not option.usepdb and option.capture != "no":
        folders = any(Path(argument.partition("::")[0]).is_dir() for argument in config.args)
        option.numprocesses = "auto" if folders else None
    if option.numprocesses and option.dist == "no":
        option.dist = "loadfile"
        option.loadscopereorder = False  # it would start the files with the most tests first


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from the tests themselves: thousands of objects that stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with the files that take longest."""
    ranks = {name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.nodeid.partition("::")[0], len(LONGEST)))


def pytest_report_header() -> str:
    return "the tests that are marked `slow` or `long` run with `-m 'slow or long'`"


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell ignores it for what runs in the background; tests of Ctrl-C need it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if importlib.util.find_spec("hypothesis") is None:
        return
    from hypothesis import settings

    # CI repeats the same examples every time; a local run generates new ones.
    settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
    settings.register_profile("home", deadline=None, print_blob=True)
    settings.load_profile("ci" if os.environ.get("CI") else "home")


@pytest.fixture(scope="session", params=BINDINGS)
def bindings(request: pytest.FixtureRequest) -> Bindings:
    """Return each distribution of MLIR's bindings that is installed."""
    if request.param not in installed():
        pytest.skip(f"the MLIR bindings {request.param} are not installed")
    return default_bindings(request.param)


@pytest.fixture(scope="session")
def torch_mlir() -> Bindings:
    """Return the bindings that the extra `mlir` brings."""
    if "torch_mlir" not in installed():
        pytest.skip("the MLIR bindings torch_mlir are not installed: pip install torch-mlir")
    return default_bindings("torch_mlir")


@pytest.fixture(scope="module")
def context(bindings: Bindings) -> Any:
    """Return a context of the bindings that a file's tests share.

    Making one takes longer than a test.
    """
    return bindings.new_context()


@pytest.fixture(scope="module")
def parse(bindings: Bindings, context: Any) -> Callable[[str], Any]:
    """Return a function that parses a text into a module."""

    def parse_text(text: str) -> Any:
        return bindings.ir.Module.parse(text, context)

    return parse_text


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the folder of the checkout."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def refmodel() -> None:
    """Skip the test if the reference model is not installed."""
    from tosa_convert.errors import TosaConvertError
    from tosa_convert.golden.running import reference_model_process

    try:
        reference_model_process.locate()
    except TosaConvertError as error:
        pytest.skip(f"no reference model: {error}")


@pytest.fixture(scope="session")
def official_cases(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[Any]:
    """Return the cases of a sample of the official suite."""
    from oracle import official_suite

    if problem := official_suite.missing():
        pytest.skip(f"the official suite cannot be made: {problem}")
    folder = official_suite.sample(request.config, tmp_path_factory.mktemp("official"))
    return list(official_suite.cases(folder))


@pytest.fixture
def cases_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `suite` run its cases in this process: starting a worker takes longer than ten cases."""

    def run_cases(function: Callable[[str], Any], names: list[str]) -> Iterator[Any]:
        yield from map(function, names)

    monkeypatch.setattr(
        "tosa_convert.qualify.verbs.run_suite.on_local_processes", lambda *_, **__: run_cases
    )
