"""The pytest plugin: programs and cases as tests, and fixtures that run programs and compare results.

pytest loads this module in every environment that has the package, so it imports nothing of the package
before a test needs it, and collects nothing that the user has not named.
"""

from __future__ import annotations

import fnmatch
import itertools
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from tosa_convert.golden.accuracy.criteria import Tolerances

#: The file that makes a folder an official case, and the one that makes it a saved case.
_OFFICIAL: Final = "desc.json"
_SAVED: Final = "inputs.npz"
_NO_REASON: Final = "a pattern of --tosa-xfail"
#: Files in which pytest looks for its settings.
_SETTINGS: Final = ("pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
#: The values of --tosa-xfail that match a test; there if a program or a case was collected.
_MATCHED: Final = pytest.StashKey[set[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and the setting."""
    group = parser.getgroup("tosa", "TOSA programs (tosa-convert)")
    group.addoption(
        "--tosa-against",
        metavar="BACKEND",
        help="run collected programs and cases on this backend, as `tosa-flatbuffer suite --against`",
    )
    group.addoption(
        "--tosa-xfail",
        metavar="PATTERN[=REASON]",
        action="append",
        default=[],
        help="programs and cases that the backend is expected to fail, by their path, or one test, as "
        "PATH::validate; one that passes is a failure. May be repeated.",
    )
    group.addoption(
        "--tosa-seeds",
        type=int,
        metavar="N",
        help="run programs on random and edge inputs of N seeds, 1 by default, and cases on these "
        "besides their own inputs, as `check --seeds` and `suite --seeds`",
    )
    group.addoption(
        "--tosa-no-edges",
        action="store_true",
        help="random inputs alone, without the edge inputs of the same seeds",
    )
    parser.addini(
        "tosa_files",
        "patterns of programs and folders of cases that are collected as tests, from the root folder",
        type="args",
        default=[],
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a backend that can run nothing, and options that do not apply, before the first test."""
    against = config.getoption("--tosa-against")
    seeds = config.getoption("--tosa-seeds")
    if seeds is not None and seeds < 1:
        raise pytest.UsageError(f"--tosa-seeds {seeds}: expected a number from 1")
    for flag in ("--tosa-seeds", "--tosa-no-edges"):
        if config.getoption(flag) and not against:
            raise pytest.UsageError(f"{flag} needs --tosa-against BACKEND")
    if not against or hasattr(config, "workerinput"):
        return
    _refuse_blank(config)
    from tosa_convert.errors import TosaConvertError
    from tosa_convert.qualify.suite.run_cases import Qualification

    try:
        Qualification(against=against, seeds=seeds or 0).require_backend()
    except TosaConvertError as error:
        raise pytest.UsageError(str(error)) from None


def _refuse_blank(config: pytest.Config) -> None:
    """Refuse a blank before a backend's path, which pytest takes for that of tests."""
    start = config.invocation_params.dir
    words = [str(word) for word in config.invocation_params.args]
    for flag, path in itertools.pairwise(words):
        if flag != "--tosa-against" or not (start / path).exists():
            continue
        if (start / path).resolve().is_relative_to(start.resolve()):
            continue
        for folder in (start, *start.parents):
            if config.inipath is not None and folder == config.inipath.parent:
                return
            if any((folder / name).is_file() for name in _SETTINGS):
                raise pytest.UsageError(
                    f"with a blank before {path}, pytest looks for its settings there, and not in "
                    f"{folder}: write --tosa-against={path}"
                )


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say what the options did not do: patterns that no test matches, no tests, no edge inputs."""
    if config.getoption("--tosa-against") and not config.option.collectonly:
        rows = itertools.chain.from_iterable(terminalreporter.stats.values())
        names = [str(getattr(row, "nodeid", "")) for row in rows]
        if not any(name.endswith(("::validate", "::check", "::case")) for name in names):
            terminalreporter.write_line(
                "--tosa-against: no program or case was collected: name files or folders, or set "
                "tosa_files"
            )
        # Official cases have inputs that were made for them; those of other cases may be random.
        has_seeds = config.getoption("--tosa-seeds") or config.getoption("--tosa-no-edges")
        if not has_seeds and any(name.endswith(f"{_SAVED}::case") for name in names):
            terminalreporter.write_line(
                "cases ran without edge inputs, which show many rounding bugs: --tosa-seeds 1 adds them"
            )
    matched = config.stash.get(_MATCHED, None)
    if matched is not None:
        for text in config.getoption("--tosa-xfail"):
            if text not in matched:
                terminalreporter.write_line(f"no test matches --tosa-xfail {text}")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a program or a case that is named on the command line or by `tosa_files`.

    For a backend, a folder on the command line names what is below it, unless `tosa_files` is set.
    """
    if file_path.suffix != ".tosa" and file_path.name not in (_OFFICIAL, _SAVED):
        return None
    folder = file_path.parent
    named = parent.session.isinitpath(file_path)
    if not named and not _is_named_case(parent, folder):
        patterns = parent.config.getini("tosa_files")
        if not patterns and not _is_below_named(parent, file_path):
            return None
        if patterns and not _matches(parent.config, file_path, folder, patterns):
            return None
    if file_path.suffix == ".tosa":
        # A program of a case is run by its case, unless it is asked for by itself.
        is_program = named or not _is_case(folder)
        return ProgramFile.from_parent(parent, path=file_path) if is_program else None
    if file_path.name == _SAVED and not (_is_case(folder) and not (folder / _OFFICIAL).exists()):
        return None
    return CaseFile.from_parent(parent, path=file_path)


def _is_below_named(parent: pytest.Collector, path: Path) -> bool:
    """Return whether a file is for a backend, and below a folder that the command line names."""
    config = parent.config
    if not config.getoption("--tosa-against") or config.args_source != config.ArgsSource.ARGS:
        return False
    return any(map(parent.session.isinitpath, path.parents))


def _is_named_case(parent: pytest.Collector, folder: Path) -> bool:
    """Return whether a folder is a case that the command line names."""
    config = parent.config
    # pytest takes these two where nothing is named.
    if folder in (config.rootpath, config.invocation_params.dir):
        return False
    return parent.session.isinitpath(folder) and _is_case(folder)


def _is_case(folder: Path) -> bool:
    from tosa_convert.qualify.suite.run_cases import MODELS

    if (folder / _OFFICIAL).exists():
        return True
    return (folder / _SAVED).exists() and any((folder / name).exists() for name in MODELS)


def _relative(config: pytest.Config, path: Path) -> str:
    """Return a path from the root folder, with slashes; the whole path elsewhere."""
    is_below = path.is_relative_to(config.rootpath)
    return (path.relative_to(config.rootpath) if is_below else path).as_posix()


def _matches(config: pytest.Config, path: Path, folder: Path, patterns: list[str]) -> bool:
    names = _relative(config, path), _relative(config, folder)
    return any(fnmatch.fnmatchcase(name, pattern) for name in names for pattern in patterns)


class ProgramFile(pytest.File):
    """A program: a test that TOSA allows it, and with --tosa-against one that a backend computes it."""

    def collect(self) -> Iterator[pytest.Item]:
        """Return the tests."""
        name = _relative(self.config, self.path)
        yield ValidateItem.from_parent(self, name="validate", tosa_name=name)
        if self.config.getoption("--tosa-against"):
            yield CheckItem.from_parent(self, name="check", tosa_name=name)


class CaseFile(pytest.File):
    """The file that makes its folder a case: one test."""

    def collect(self) -> Iterator[pytest.Item]:
        """Return the test."""
        name = _relative(self.config, self.path.parent)
        yield CaseItem.from_parent(self, name="case", tosa_name=name)


class TosaFailure(AssertionError):
    """A program or a case that fails; its text is the report."""


class _Item(pytest.Item):
    """A test that is not Python. tosa_name: what patterns of --tosa-xfail match."""

    def __init__(self, *, tosa_name: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.tosa_name = tosa_name
        matched = self.config.stash.setdefault(_MATCHED, set())
        for text in self.config.getoption("--tosa-xfail"):
            pattern, _, reason = text.partition("=")
            if self._is_named_by(pattern):
                matched.add(text)
                self.add_marker(pytest.mark.xfail(reason=reason or _NO_REASON, strict=True))
                break

    def _is_named_by(self, pattern: str) -> bool:
        """Return whether a pattern means this test.

        A path means the test that needs a backend: one that is wrong about a program does not make it
        invalid.
        """
        if "::" not in pattern and (
            self.name == "validate" or not self.config.getoption("--tosa-against")
        ):
            return False
        name = f"{self.tosa_name}::{self.name}" if "::" in pattern else self.tosa_name
        # As `suite` names cases, from the folder of the suite.
        return any(fnmatch.fnmatchcase(name, text) for text in (pattern, f"*/{pattern}"))

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """Return the report of what is wrong, without a traceback."""
        from tosa_convert.errors import TosaConvertError

        if isinstance(excinfo.value, (TosaFailure, TosaConvertError)):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return where the test is, and its title."""
        return self.path, None, f"{self.tosa_name}: {self.name}"


class ValidateItem(_Item):
    """A program that TOSA has to allow."""

    def runtest(self) -> None:
        """Read the program, and judge it."""
        from tosa_convert.api import load
        from tosa_convert.consumers.validate import validate
        from tosa_convert.errors import TosaConvertError

        if findings := validate(load(self.path)):
            raise TosaFailure(str(TosaConvertError(findings)))


class CheckItem(_Item):
    """A program that the backend has to compute, on what `check --random 0` runs it."""

    def runtest(self) -> None:
        """Run the program on both sides, and compare."""
        from tosa_convert.errors import TosaConvertError, printable
        from tosa_convert.golden.checking.check import bisect_command, check_seeds

        against = self.config.getoption("--tosa-against")
        seeds = self.config.getoption("--tosa-seeds")
        edges = not self.config.getoption("--tosa-no-edges")
        try:
            results = check_seeds(self.path, against, seeds or 1, self._note, edges=edges)
        except TosaConvertError as error:
            if error.code == "backend-refused":
                pytest.skip(error.findings[0].message)
            raise
        wrong = [
            f"{name}: {found.what_is_wrong}" for name, found in results.items() if not found.ok
        ]
        if wrong:
            words = ["tosa-flatbuffer", "check", self.tosa_name, "--random", "0"]
            words += ["--seeds", str(seeds)] if seeds else []
            words += [] if edges else ["--no-edges"]
            command = printable(shlex.join([*words, "--against", against]))
            first = next(name for name, found in results.items() if not found.ok)
            named = f"the operator that is wrong: {bisect_command(self.tosa_name, first, against)}"
            raise TosaFailure("\n".join([*wrong, "", command, named]))

    def _note(self, text: str) -> None:
        self.add_report_section("call", "tosa", text)


class CaseItem(_Item):
    """A case: on the backend; without one, that it computes the same after a conversion and back."""

    def runtest(self) -> None:
        """Run the case, and judge the answer as `suite` does."""
        from tosa_convert.qualify.suite.run_cases import Qualification, qualify_case, run_case

        folder = self.path.parent
        against = self.config.getoption("--tosa-against")
        if against:
            kinds = ("seed",) if self.config.getoption("--tosa-no-edges") else ("seed", "edges")
            seeds = self.config.getoption("--tosa-seeds") or 0
            settings = Qualification(against=against, seeds=seeds, kinds=kinds)
            answer = qualify_case(str(folder.parent), folder.name, settings=settings)
            command = settings.command_for(folder)
        else:
            answer = run_case(str(folder.parent), folder.name)
            command = f"tosa-flatbuffer suite {self.tosa_name}"
        if answer.status in ("refused", "not-run"):
            # The lines after the first are hints about options of the command line.
            pytest.skip(f"{answer.status}: {answer.message.splitlines()[0]}")
        if answer.status != "pass":
            raise TosaFailure(f"{answer.status}: {answer.message}\n\n{command}")


@pytest.fixture(scope="session")
def tosa_run() -> Callable[..., Any]:
    """Run a TOSA program: `tosa_run(program, inputs, random=SEED)`; see tosa_convert.golden.run."""
    from tosa_convert.golden.running.run import run

    return run


@pytest.fixture(scope="session")
def assert_tosa_equal() -> Callable[..., None]:
    """Assert that results agree: `assert_tosa_equal(expected, actual)`; see tosa_convert.golden.compare.

    Either side is a result of `tosa_run`, arrays by name, or one array. Integers have to be equal;
    floating point is within `tolerances`, by default those of its element type.
    """
    return _assert_equal


def _assert_equal(expected: Any, actual: Any, *, tolerances: Tolerances | None = None) -> None:
    __tracebackhide__ = True
    from tosa_convert.golden.accuracy.comparison import compare
    from tosa_convert.golden.accuracy.criteria import NO_TOLERANCES

    given = NO_TOLERANCES if tolerances is None else tolerances
    result = compare(_by_name(expected), _by_name(actual), tolerances=given)
    if not result.ok or result.extra:
        raise TosaFailure(f"the results differ:\n{result}")


def _by_name(value: Any) -> Mapping[str, Any]:
    """Return arrays by name. Raises TypeError for what is neither a result nor arrays."""
    import numpy as np

    from tosa_convert.golden.running.run_graph import Result

    if isinstance(value, Result):
        return value.outputs
    if isinstance(value, Mapping):
        return {name: np.asarray(array) for name, array in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        return {"array": np.asarray(value)}
    message = (
        f"found {type(value).__name__}, expected a result of tosa_run, arrays by name or an array"
    )
    raise TypeError(message)
