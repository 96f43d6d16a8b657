"""Holds how a backend is qualified, and selects the cases that it needs to run."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Final

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.golden.accuracy.criteria import NO_TOLERANCES, Tolerances
from tosa_convert.golden.backends.isolated import NUMPY, REFERENCE_MODEL, OtherModel
from tosa_convert.golden.backends.process import PACKAGES, run_backend
from tosa_convert.golden.backends.runners import ORIGINALS, Record, open_backend, refuse_no_results
from tosa_convert.golden.running.programs import load_program
from tosa_convert.golden.running.run_options import Engine, RunOptions
from tosa_convert.graph.model import Block, Graph, Region
from tosa_convert.graph.versions import V1_0
from tosa_convert.io.options import refuse_time_limit
from tosa_convert.qualify.suite.failures import nearby
from tosa_convert.qualify.suite.official_case import OfficialCase, read_case
from tosa_convert.qualify.suite.run_cases import files_of_case, model_of
from tosa_convert.records import dataclass, replace
from tosa_convert.rules.profiles import complete
from tosa_convert.rules.public import find_violations

#: Kinds of further inputs -> the option that asks for them.
_KINDS: Final = {("seed", "edges"): (), ("seed",): ("--no-edges",), ("edges",): ("--edges",)}
_EMPTY: Final = Graph(V1_0, [Region("main", [Block("main")])])


@dataclass(frozen=True, slots=True, kw_only=True)
class Qualification:
    """How a backend is qualified.

    against, python: as for `open_backend`; a folder of results has a folder for each case.
    claims: the profiles and extensions that the backend has; None for all.
    level: "8k" or "none"; what exceeds it is not run.
    timeout: seconds for one run of either side.
    engine: what computes the reference; see `RunOptions`.
    keep: a folder that gets a folder for each case that does not pass.
    reduce: reduce the inputs of a wrong case, for what is kept.
    seeds: of further inputs on which a case must be right, too.
    kinds: of those, "seed" for random and "edges" for edge inputs.
    strict: let a case fail whose outputs are of low precision, unless it has an official rule.
    """

    against: str
    python: str = ""
    claims: frozenset[str] | None = None
    level: str = "8k"
    timeout: float = 60.0
    engine: Engine = "auto"
    keep: Path | None = None
    reduce: bool = False
    seeds: int = 0
    kinds: tuple[str, ...] = ("seed", "edges")
    strict: bool = False

    def __post_init__(self) -> None:
        refuse_time_limit(self.timeout)

    @property
    def run_options(self) -> RunOptions:
        """Return how a case is run for its golden answer."""
        return RunOptions(timeout=self.timeout, engine=self.engine)

    @property
    def tolerances(self) -> Tolerances:
        """Return what cases without an official rule are judged by."""
        return replace(NO_TOLERANCES, strict=self.strict)

    def command_for(self, case_folder: Path) -> str:
        """Return the command that runs one case again, in the working folder."""
        against = self.against
        words = ["tosa-flatbuffer", "suite", nearby(str(case_folder))]
        words += ["--against", nearby(against) if os.path.exists(against) else against]
        if self.python:
            words += ["--python", self.python]
        if self.level != "8k":
            words += ["--level", self.level]
        if self.engine != "auto":
            words += ["--engine", self.engine]
        if self.seeds:
            words += ["--seeds", str(self.seeds), *_KINDS[self.kinds]]
        if self.strict:
            words.append("--strict")
        return shlex.join(words)

    def require_backend(self) -> None:
        """Raise TosaConvertError if no case can run on the backend, before the first one is run."""
        refuse_no_results(self.against, "**/*")
        software = self.against.partition(":")[0]
        if self.seeds and os.path.isdir(self.against):
            message = "recorded results are those of the cases' own inputs"
            raise fail("option-conflict", "--seeds", message, "name a backend that runs")
        if software in ORIGINALS:
            raise fail(
                "option-conflict",
                f"--against {self.against}",
                f"{software} runs models of its own, and no TOSA programs",
                f"tosa-flatbuffer check MODEL --against {ORIGINALS[software]}",
            )
        if self.against == "iree":
            command = [self.python or sys.executable, "-c", "import iree.compiler, iree.runtime"]
            ended = run_backend(command, self.timeout, "iree")
            if ended.code:
                said = ended.stderr.strip()[-200:]
                raise fail("missing-backend", "iree", said, PACKAGES["iree"])
        elif not os.path.isdir(self.against):
            backend = open_backend(self.against, _EMPTY, {}, python=self.python)
            runs_any = (NUMPY, REFERENCE_MODEL)
            runs_one_model = isinstance(backend, OtherModel) and backend.text not in runs_any
            if runs_one_model or isinstance(backend, Record):
                message = "a case needs a backend that runs any program, or a folder of results"
                raise fail("option-conflict", f"--against {self.against}", message)


def may_run(root: str, name: str, *, settings: Qualification) -> bool:
    """Return whether a case runs with these settings, as far as its files say; a damaged one counts."""
    if settings.claims is None and settings.level == "none" and not os.path.isdir(settings.against):
        return True
    folder = Path(os.path.normpath(Path(root, name).absolute()))
    if os.path.isdir(settings.against) and not Path(settings.against, name).is_dir():
        return False
    try:
        if (folder / "desc.json").exists():
            return not why_not_selected(read_case(folder), settings)
        return not why_not_allowed(load_program(model_of(folder)).graph, settings)
    except TosaConvertError:
        return True


def why_not_selected(case: OfficialCase, settings: Qualification) -> str:
    """Return why a backend with these claims need not run a case, or "".

    Profiles and extensions are those that the descriptor states; without them, those that the rules
    of TOSA ask for.
    """
    needs = case.description.get("test_requirements")
    if needs is None or settings.claims is None:
        return "" if case.is_expected_to_fail else why_not_allowed(case.graph, settings)
    has = complete(settings.claims)
    profiles = [_capability(text) for text in needs.get("profiles_supported", ())]
    if profiles and not has & set(profiles):
        return f"it needs {' or '.join(profiles)}"
    missing = {_capability(text) for text in needs.get("extensions_required", ())} - has
    if missing:
        return f"it needs {' and '.join(sorted(missing))}"
    if case.is_expected_to_fail:
        return ""
    return why_not_allowed(case.graph, replace(settings, claims=None))


def why_not_allowed(graph: Graph, settings: Qualification) -> str:
    """Return why a backend with these claims need not run a program by TOSA's rules, or ""."""
    if settings.claims is not None:
        for finding in find_violations(graph, profile=settings.claims):
            if finding.code == "outside-profile":
                return finding.message
    if settings.level == "8k":
        for finding in find_violations(graph, level="8k"):
            if finding.code == "outside-level":
                return f"outside level 8K: {finding.message}"
    return ""


def _capability(text: str) -> str:
    """Return the name of a profile or extension, from that of the official tests.

    Example:
        >>> _capability("tosa-ext-mx-common")
        'EXT-MX-COMMON'
    """
    return text.upper().removeprefix("TOSA-")


def files_qualified(root: str, name: str, *, settings: Qualification) -> list[str]:
    """List the files that decide a case besides the backend: those of the case, and its results."""
    found = files_of_case(root, name)
    if os.path.isdir(settings.against):
        found += files_of_case(settings.against, name)
    return found
