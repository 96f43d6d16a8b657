"""Judges of mutants: do the tests pass with a changed module?

There are two. `Server` is a process that has imported the tests and the package once. It forks, and
the child gives the functions that a mutant changes their new code. That takes milliseconds, but shows
nothing of what the import of a module computes. `judge_anew` imports everything after the change: it
decides where the quick one cannot.
"""

from __future__ import annotations

import gc
import importlib.abc
import importlib.util
import mmap
import os
import resource
import select
import signal
import struct
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from multiprocessing import Pipe
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, Literal

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
OPTIONS: Final = ("-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--no-header", "--tb=no")
#: "unsure": the quick judge saw no test fail, but the change may show only in a new import.
Verdict = Literal["killed", "survived", "unsure"]
_CO_OPTIMIZED: Final = 1
#: pytest's exit codes: tests passed; a test failed; the changed code could not be imported, by tests or
#: by conftest.py.
_VERDICTS: Final[dict[int, Verdict]] = {
    0: "survived",
    1: "killed",
    2: "killed",
    3: "killed",
    4: "killed",
}


@dataclass(frozen=True)
class Change:
    """Hold a file of the package, and its source with a mutation."""

    path: str
    source: str

    @property
    def module(self) -> str:
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def compiled(self) -> CodeType:
        return compile(self.source, str(ROOT / self.path), "exec")

    def original(self) -> CodeType:
        text = (ROOT / self.path).read_text(encoding="utf-8")
        return compile(text, str(ROOT / self.path), "exec")


class _Tests:
    """Run the given tests in their order, each for a limited time: a plugin of pytest."""

    def __init__(self, tests: Sequence[str], seconds: Mapping[str, float]) -> None:
        self.ranks = {test: rank for rank, test in enumerate(tests)}
        self.seconds = seconds

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        """Let hypothesis stop at its first failure: nobody looks at the example."""
        from hypothesis import Phase, settings

        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", parent=settings.default, phases=phases)
        settings.load_profile("mutants")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self.ranks]
        items.sort(key=lambda item: self.ranks[item.nodeid])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """End the process if a test takes many times as long as it should: a loop has no end."""
        limit = 5 + 4 * self.seconds.get(item.nodeid, 0.0)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, limit)


class OwnConverter:
    """Lower models of TFLite in the process of the tests, whose code a mutant changes."""

    @pytest.fixture(autouse=True)
    def _own_converter(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from tosa_convert.frontends.process import child, run
        from tosa_convert.frontends.process.request import REQUEST_FILE, Request
        from tosa_convert.process.child import Ended

        in_a_child = run._run

        def in_this_process(folder: Path, *rest: Any, **options: Any) -> Ended:
            path = folder / REQUEST_FILE
            if not path.exists() or Request.from_json(path.read_text()).frontend != "tflite":
                return in_a_child(folder, *rest, **options)
            try:
                return Ended(child.main(folder))
            except SystemExit as error:
                return Ended(1, str(error))

        monkeypatch.setattr(run, "_run", in_this_process)


class ChangedModule(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from a changed source."""

    def __init__(self, change: Change) -> None:
        self.change = change
        self.is_imported = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self) -> None:
        """Go before pytest's own finder."""
        sys.meta_path.insert(0, self)

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        if fullname != self.change.module:
            return None
        place = ROOT / self.change.path
        folders = [str(place.parent)] if place.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(
            fullname, place, loader=self, submodule_search_locations=folders
        )

    def exec_module(self, module: ModuleType) -> None:
        self.is_imported = True
        exec(self.change.compiled(), module.__dict__)


# -- everything is imported anew ------------------------------------------------------------------


def judge_anew(change: Change, tests: Sequence[str], seconds: Mapping[str, float]) -> Verdict:
    """Run the tests in a fork that imports the package and the tests after the change."""

    def run() -> int:
        module = ChangedModule(change)
        sys.meta_path.insert(0, module)
        files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
        plugins = [module, _Tests(tests, seconds), OwnConverter()]
        code = int(pytest.main([*files, *OPTIONS], plugins=plugins))
        assert code or module.is_imported, change.path
        return code

    assert change.module not in sys.modules
    limit = 60 + 5 * sum(seconds[test] for test in tests)
    code = _fork(run, limit)
    return "killed" if code is None else _VERDICTS[code]


def _fork(run: Callable[[], int], limit: float) -> int | None:
    """Run a function in a child, and return its number; None if a signal or the limit ended it."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        code = 70
        try:
            os.setpgid(0, 0)
            resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nothing, stream)
            code = run()
        finally:
            os._exit(code)
    end = os.pidfd_open(child)
    try:
        if not select.select([end], [], [], 10 * limit)[0]:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    finally:
        os.close(end)
        with suppress(ProcessLookupError):  # what the tests started
            os.killpg(child, signal.SIGKILL)
    return None if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


# -- functions get new code -----------------------------------------------------------------------


class Server:
    """Collect the tests once, and judge changes of functions in forks of the process."""

    def __init__(self, tests: Sequence[str], seconds: Mapping[str, float]) -> None:
        self._here, there = Pipe()
        sys.stdout.flush()
        self._child = os.fork()
        if not self._child:
            code = 70
            try:
                self._here.close()
                nothing = os.open(os.devnull, os.O_RDWR)
                for stream in (0, 1):
                    os.dup2(nothing, stream)
                files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
                loop = _Loop(there.recv, there.send, tests, seconds)
                code = int(pytest.main([*files, *OPTIONS], plugins=[loop, OwnConverter()]))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        there.close()
        missing = self._here.recv()
        assert not missing, f"tests that were recorded are gone: {missing}"

    def judge(self, change: Change, tests: Sequence[str]) -> Verdict:
        self._here.send((change, list(tests)))
        verdict: Verdict = self._here.recv()
        return verdict

    def close(self) -> None:
        self._here.close()
        os.waitpid(self._child, 0)


class _Loop(_Tests):
    """Serve requests in place of running the tests that were collected."""

    def __init__(
        self,
        receive: Callable[[], tuple[Change, list[str]]],
        send: Callable[[object], None],
        tests: Sequence[str],
        seconds: Mapping[str, float],
    ) -> None:
        super().__init__(tests, seconds)
        self.receive, self.send = receive, send
        self.items: dict[str, pytest.Item] = {}
        self.functions: dict[CodeType, list[FunctionType]] = {}
        #: Tests that pass alone without a change, and those that do not.
        self.sound: dict[str, bool] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.items = {item.nodeid: item for item in session.items}
        gc.unfreeze()
        package = f"{ROOT}/tosa_convert/"
        for thing in gc.get_objects():
            if type(thing) is FunctionType and thing.__code__.co_filename.startswith(package):
                self.functions.setdefault(thing.__code__, []).append(thing)
        gc.collect()
        gc.freeze()
        self.send([test for test in self.ranks if test not in self.items])
        while True:
            try:
                change, tests = self.receive()
            except EOFError:
                return True
            self.send(self.verdict(change, tests))

    def verdict(self, change: Change, tests: list[str]) -> Verdict:
        """Judge a change. A test that fails without it as well, when it runs alone, does not count."""
        plan, is_all = self.plan(change)
        while True:
            tests = [test for test in tests if self.sound.get(test, True)]
            failed = self.first_failure(plan, tests)
            if failed is None:
                return "survived" if is_all else "unsure"
            if failed not in self.sound:
                self.sound[failed] = self.first_failure(lambda: None, [failed]) is None
            if self.sound[failed]:
                return "killed"

    def plan(self, change: Change) -> tuple[Callable[[], None], bool]:
        """Return what puts a change in place, and whether that is all of it."""
        if change.module not in sys.modules:  # a test imports it
            return lambda: sys.meta_path.insert(0, ChangedModule(change)), True
        pairs = []
        is_all = True
        for old, new, is_made_by_import in changed_codes(change.original(), change.compiled()):
            functions = self.functions.get(old, [])
            fits = old is not new and old.co_freevars == new.co_freevars
            pairs += [(function, new) for function in functions if fits]
            is_all = is_all and fits and (bool(functions) or not is_made_by_import)

        def put() -> None:
            for function, code in pairs:
                function.__code__ = code

        return put, is_all

    def first_failure(self, prepare: Callable[[], None], tests: Sequence[str]) -> str | None:
        """Run tests in a fork until one fails, and return it."""
        place = mmap.mmap(-1, 8)

        def run() -> int:
            prepare()
            session = None
            for number, test in enumerate(tests):
                struct.pack_into("q", place, 0, number)
                item = self.items[test]
                session = item.session
                after = self.items[tests[number + 1]] if number + 1 < len(tests) else None
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
                if session.testsfailed:
                    return 1
            return 0

        code = _fork(run, 60 + 5 * sum(self.seconds[test] for test in tests))
        assert code in {None, 0, 1}, f"the judge failed with {code}"
        return None if code == 0 else tests[struct.unpack_from("q", place)[0]]


def changed_codes(
    old: CodeType, new: CodeType, is_outside: bool = True
) -> Iterator[tuple[CodeType, CodeType, bool]]:
    """Yield the functions that differ, and whether an import makes them.

    What differs outside of functions is a pair of the same code.
    """
    inner, changed = _inner(old), _inner(new)
    is_body = not old.co_flags & _CO_OPTIMIZED
    if not is_body:
        yield old, new, is_outside
    elif _outer(old) != _outer(new) or len(inner) != len(changed):
        yield old, old, True
    if len(inner) == len(changed):
        for one, other in zip(inner, changed, strict=True):
            if one != other:
                yield from changed_codes(one, other, is_outside and is_body)


def _inner(code: CodeType) -> list[CodeType]:
    return [value for value in code.co_consts if isinstance(value, CodeType)]


def _outer(code: CodeType) -> object:
    """Return what a body of a module or class does, without the functions in it."""
    consts = [repr(value) for value in code.co_consts if not isinstance(value, CodeType)]
    return code.co_code, consts, code.co_names, code.co_varnames, code.co_exceptiontable
