"""Run the cases of a plan side by side, and keep their answers: the engine of `suite`.

Cases run in local worker processes, or through any executor of `concurrent.futures` such as that of a
Dask cluster.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tosa_convert.golden.backends.process import (
    digest,
    of_backend,
    of_environment,
    of_file_at_hand,
    of_files,
    of_software,
)
from tosa_convert.golden.running.run_options import Engine, chosen_engine
from tosa_convert.process.child import describe_exit
from tosa_convert.process.workers import run_jobs
from tosa_convert.qualify.suite.answers import SKIPPED, Answer, Journal, Verdict
from tosa_convert.qualify.suite.html_table import Page, backend_page
from tosa_convert.qualify.suite.run_cases import (
    Qualification,
    Via,
    files_of_case,
    files_qualified,
    find_cases,
    may_run,
    qualify_case,
    run_case,
)

#: Runs a function on each of many cases; yields the answers as they come, in any order.
CaseRunner = Callable[[Callable[[str], Answer], list[str]], Generator[Answer, None, None]]

ATTEMPTS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Hold a suite to run.

    names: the cases. header: what identifies the run: answers of other settings are not continued.
    decides: what else decides every answer: options, files of a backend, releases. files: of a case,
        those that decide its answer.
    run_case: runs one case; worker processes get it pickled, and `files`. counts: the last line of the
        report, with places for the entries of `summary`.
    skipped: statuses that do not fail the run. kind: the class of the answers. page: what the report in
        HTML says besides the answers; None if there is none.
    may_run: whether a case is one that runs; the others need not be counted by `sampled`.
    """

    names: list[str]
    header: Mapping[str, Any]
    decides: Mapping[str, Any]
    files: Callable[[str], list[str]]
    run_case: Callable[[str], Answer]
    counts: str
    skipped: frozenset[str] = SKIPPED
    kind: type[Answer] = Answer
    page: Callable[[Verdict], Page] | None = None
    may_run: Callable[[str], bool] = lambda name: True

    def sampled(self, most: int | None) -> Plan:
        """Return the plan with at most so many of the cases that run, spread over all."""
        if not most or most >= len(self.names):
            return self
        chosen = itertools.islice(filter(self.may_run, _spread(self.names)), most)
        return replace(self, names=sorted(chosen))


def _spread(names: Sequence[str]) -> Iterator[str]:
    """Iterate over all names in an order whose every beginning is spread evenly.

    Example:
        >>> "".join(_spread("abcdefgh"))
        'aecgbfdh'
    """
    bits = (len(names) - 1).bit_length()
    for number in range(1 << bits):
        # The bits in reverse: the next numbers lie in the middle between the earlier ones.
        index = int(f"{number:0{bits or 1}b}"[::-1], 2)
        if index < len(names):
            yield names[index]


def run_plan(
    plan: Plan,
    folder: Path,
    run_cases: CaseRunner,
    *,
    resume: bool = False,
    progress: Callable[[int], None] = lambda answered: None,
) -> tuple[list[Answer], int]:
    """Get the answer of each case, and how many are those of an earlier run."""
    key = functools.partial(_key, decided=digest(plan.decides), files=plan.files)

    def kept(earlier: dict[str, Answer]) -> list[Answer]:
        """Choose the answers that count: no errors, and none for which something has changed."""
        wanted = set(plan.names)
        again = wanted <= earlier.keys() and not resume
        return [
            answer
            for name, answer in earlier.items()
            if name not in wanted
            or (
                not again
                and answer.status != "error"
                and answer.key == key(name)
                and all(of_file_at_hand(path) == before for path, before in answer.read.items())
            )
        ]

    journal = Journal(folder / "answers.jsonl", plan.header, plan.kind, kept)
    with contextlib.closing(journal):
        already = len(journal.answers.keys() & set(plan.names))
        run_case = functools.partial(answered, run=plan.run_case, key=key, kind=plan.kind)

        done = itertools.count(already + 1)
        run_all(plan.names, run_cases, journal, run_case, progress=lambda _: progress(next(done)))
        return [journal.answers[name] for name in plan.names], already


def _key(name: str, *, decided: str, files: Callable[[str], list[str]]) -> str:
    return digest([decided, name, of_files(files(name))])


def answered(
    name: str, *, run: Callable[[str], Answer], key: Callable[[str], str], kind: type[Answer]
) -> Answer:
    """Run a case; a defect of ours in it must not cost the answers of all others."""
    start = time.monotonic()
    before = key(name)
    try:
        return replace(run(name), key=before)
    except Exception as error:
        said = f"a defect of tosa-convert: {type(error).__name__}: {error}"
        text = f"{said}\n{traceback.format_exc()}"
        return kind(name, "error", text, round(time.monotonic() - start, 4), key=before)


def run_all(
    names: Iterable[str],
    run_cases: CaseRunner,
    journal: Journal,
    function: Callable[[str], Answer],
    *,
    progress: Callable[[Answer], None] = lambda answer: None,
) -> None:
    waiting = [name for name in names if name not in journal.answers]
    with contextlib.closing(run_cases(function, waiting)) as answers:
        for answer in answers:
            if journal.add(answer):
                progress(answer)


@dataclass(frozen=True, slots=True)
class _Died:
    """Answer for a case that killed its worker; `code` is minus the signal, or the exit code."""

    case: str
    code: int


def on_local_processes(processes: int, *, fork: bool = False) -> CaseRunner:
    """Run cases in worker processes; `fork` as for `run_jobs`."""

    def run_cases(
        function: Callable[[str], Answer], names: list[str]
    ) -> Generator[Answer, None, None]:
        for attempt in range(1, ATTEMPTS + 1):
            died: list[str] = []
            # Memory may have run out: then the case passes if it runs alone.
            results: Generator[tuple[int, Answer | _Died], None, None] = run_jobs(
                function,
                names,
                processes=processes if attempt == 1 else 1,
                on_death=_Died,
                fork=fork,
            )
            with contextlib.closing(results):
                for _, answer in results:
                    if not isinstance(answer, _Died):
                        yield answer
                    elif attempt < ATTEMPTS:
                        died.append(answer.case)
                    else:
                        message = f"its worker process ended with {describe_exit(answer.code)}"
                        yield Answer(answer.case, "error", message)
            names = died

    return run_cases


def on_executor(executor: Executor, window: int) -> CaseRunner:
    """Run cases on an executor, `window` of them at a time."""

    def run_cases(
        function: Callable[[str], Answer], names: list[str]
    ) -> Generator[Answer, None, None]:
        waiting = list(reversed(names))
        running: dict[Future[Answer], str] = {}
        try:
            while waiting or running:
                while waiting and len(running) < window:
                    name = waiting.pop()
                    running[executor.submit(function, name)] = name
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    name, error = running.pop(future), future.exception()
                    message = f"no worker has run it: {type(error).__name__}: {error}"
                    yield Answer(name, "error", message) if error else future.result()
        finally:
            # Not `cancel_futures` of `shutdown`: Dask's executor does not have this argument.
            for future in running:
                future.cancel()
            executor.shutdown(wait=True)

    return run_cases


# -- the suites of programs: files that are converted, and cases that a backend runs ---------------

_CONVERTED: Final = "{passed} of {cases} cases pass ({failed} fail, {errors} errors)"
_COMPUTED: Final = (
    "{passed} of {cases} cases pass ({wrong} wrong, {refused} refused, {crashed} crashed, "
    "{not_run} not run, {errors} errors)"
)


def conversion_plan(
    folders: Sequence[Path], via: Via = "tosa", timeout: float = 60.0, engine: Engine = "auto"
) -> Plan:
    """Return the plan that converts each file below folders into a format and back."""
    root, names = _cases(folders)
    return Plan(
        names=names,
        header={"folder": str(root), "via": via},
        decides={"timeout": timeout, "engine": chosen_engine(engine), "software": of_software()},
        files=functools.partial(files_of_case, str(root)),
        run_case=functools.partial(run_case, str(root), via=via, timeout=timeout, engine=engine),
        counts=_CONVERTED,
    )


def backend_plan(folders: Sequence[Path], settings: Qualification) -> Plan:
    """Return the plan that runs each case below folders on a backend."""
    root, names = _cases(folders)
    if root not in folders and [os.path.basename(settings.against)] == names:
        # The results of the only case.
        settings = replace(settings, against=os.path.dirname(settings.against))
    settings.require_backend()
    page = backend_page(root, settings)
    return Plan(
        names=names,
        header={
            "folder": str(root),
            "against": settings.against,
            "claims": None if settings.claims is None else sorted(settings.claims),
            "level": settings.level,
        },
        decides={
            "options": [
                settings.timeout,
                chosen_engine(settings.engine),
                of_files(one for one in settings.custom if os.path.exists(one)),
                settings.custom,
                settings.keep is not None,
                settings.reduce,
                [settings.seeds, settings.kinds],
                settings.python,
                settings.strict,
            ],
            "backend": of_backend(settings.against),
            "environment": of_environment(settings.against),
            "software": of_software(settings.python),
        },
        files=functools.partial(files_qualified, str(root), settings=settings),
        run_case=functools.partial(qualify_case, str(root), settings=settings),
        counts=_COMPUTED,
        page=lambda run: page,
        may_run=functools.partial(may_run, str(root), settings=settings),
    )


def _cases(folders: Sequence[Path]) -> tuple[Path, list[str]]:
    """Return the folder that has all cases, and their names in it; a folder may itself be a case."""
    root = Path(os.path.commonpath(folders))
    paths = {os.path.normpath(folder / name) for folder in folders for name in find_cases(folder)}
    if paths == {str(root)}:
        return root.parent, [root.name]
    return root, sorted(os.path.relpath(path, root) for path in paths)
