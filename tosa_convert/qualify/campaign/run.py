"""Run a campaign: programs until time is over, then a folder for each distinct defect."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from tosa_convert import api
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.golden.arrays import OutputFolder, load_npz, npz_pieces, scratch_folder
from tosa_convert.golden.backends.process import PACKAGES, digest, of_backend
from tosa_convert.golden.backends.runners import ADAPTERS, ORIGINALS
from tosa_convert.golden.running.programs import input_arrays
from tosa_convert.golden.running.reference_model_process import command_words
from tosa_convert.golden.running.run import run
from tosa_convert.golden.running.run_options import TIMEOUT
from tosa_convert.graph.model import Graph, counted
from tosa_convert.graph.opset import CONST, CONST_SHAPE
from tosa_convert.io.files import read_json
from tosa_convert.qualify.campaign.observe import (
    Consumer,
    Observation,
    Source,
    Trial,
    computed,
    described,
    make_trial,
    observe,
    run_trial,
    says_nothing,
    telling_part,
)
from tosa_convert.qualify.reduction.reduce import Failure, reduce
from tosa_convert.qualify.suite.answers import Journal
from tosa_convert.qualify.suite.engine import CaseRunner, on_local_processes, run_all
from tosa_convert.reference.evaluate import definition
from tosa_convert.version import __version__

# -- the folder of a finding: a reduced program on which a consumer fails, and a report of it ------

#: How often the consumer runs to reduce a program.
RUNS: Final = 200
FILE: Final = "finding.json"
_PACKAGES: Final = (
    "iree-base-compiler",
    "torch-mlir",
    "tosa-tools",
    "ethos-u-vela",
    "ai-ml-sdk-model-converter",
    "tosa-converter-for-tflite",
    "numpy",
)
_EXPECTED: Final = "a finding that fuzz wrote"


@dataclass(frozen=True, slots=True)
class Finding:
    """Hold a reduced program on which a consumer fails.

    cause: what it has in common with other programs of the same defect: the status, and its operators.
    title, rule: what is wrong, and what TOSA says of it, in a report that a person has read.
    """

    cause: str
    trial: Trial
    observation: Observation
    text: str
    title: str = ""
    rule: str = ""

    @property
    def operators(self) -> int:
        """Count the operators of the program, without constants."""
        return sum(op.spec not in (CONST, CONST_SHAPE) for op in self.trial.graph.main.operators)


def reduced_finding(
    trial: Trial,
    observation: Observation,
    consumer: Consumer,
    *,
    seconds: float = math.inf,
    progress: Callable[[str], None] = lambda text: None,
) -> Finding | None:
    """Return the smallest program, found in so many seconds, that fails in the same way.

    None if it does not fail again: a failure that comes and goes cannot be reduced.
    """
    status, _, group = observe(trial, consumer)
    if (status, group) != (observation.status, observation.group):
        return None
    command = shlex.join([sys.executable, "-m", "tosa_convert", *check_words(consumer)])
    expected = Failure(1) if status == "wrong" else Failure(text=telling_part(group))
    smallest = trial
    with scratch_folder() as folder:
        try:
            found = reduce(
                trial.graph,
                command,
                folder,
                trial.inputs,
                timeout=10 * consumer.timeout,
                engine=consumer.engine,
                runs=RUNS,
                seconds=seconds,
                expect=expected,
                progress=progress,
            )
            inputs, path = trial.inputs, folder / "inputs.npz"
            if path.exists():
                # It has arrays of BF16 and FP8 as bytes without a type.
                inputs = input_arrays(found.graph, load_npz(path))
            smallest = Trial(found.graph, inputs, trial.made)
        except TosaConvertError as error:
            progress(f"it stays as it is: {error}")
    again, text, other = observe(smallest, consumer)
    if again != status or (status != "wrong" and group != other):
        smallest, text = trial, observation.message
    cause, block = group, smallest.graph.main
    if status == "wrong" or says_nothing(group):
        cause = f"{'wrong' if status == 'wrong' else group}: {described(block, block.operators)}"
    return Finding(cause, smallest, observation, text)


def check_words(consumer: Consumer, folder: str = "") -> list[str]:
    """Return the words of the command that repeats a finding; `folder` is where its files are."""
    model, inputs = (
        (f"{folder}model.tosa", f"{folder}inputs.npz") if folder else ("{model}", "{inputs}")
    )
    words = ["check", model, "-i", inputs, "--against", consumer.against]
    if consumer.timeout != TIMEOUT:
        words += ["--timeout", f"{consumer.timeout:g}"]
    return words if consumer.engine == "auto" else [*words, "--engine", consumer.engine]


def known_causes(folders: list[Path]) -> set[tuple[str, str]]:
    """Return the packages and causes of findings in folders of earlier campaigns.

    `also` in a finding.json, which a person may add, lists further causes of the same defect. A cause of
    another consumer begins with its name and a colon.
    """
    found: set[tuple[str, str]] = set()
    for folder in folders:
        for path in sorted(folder.glob(f"*/{FILE}")):
            row = read_json(path, _EXPECTED)
            if isinstance(row, dict):
                against, others = str(row.get("against")), row.get("also")
                found.add(known_key(against, str(row.get("cause"))))
                for text in others if isinstance(others, list) else ():
                    consumer, _, cause = str(text).partition(": ")
                    is_of_other = consumer in ADAPTERS or consumer in PACKAGES
                    found.add(known_key(*((consumer, cause) if is_of_other else (against, text))))
    return found


def known_key(against: str, cause: str) -> tuple[str, str]:
    """Return what findings of one defect have in common: the consumers of a package share its code.

    Example:
        >>> known_key("torch-mlir:all", "wrong: NEGATE INT8")
        ('torch-mlir', 'wrong: NEGATE INT8')
    """
    row = ADAPTERS.get(against)
    return against if row is None else row.package, cause


def save_finding(finding: Finding, folder: Path, consumer: Consumer) -> None:
    """Write a folder that shows the defect without the rest of the campaign."""
    graph, inputs = finding.trial.graph, finding.trial.inputs
    expected = run(graph, inputs, engine=consumer.engine).outputs
    description: dict[str, Any] = {
        "title": finding.title or finding.cause,
        "against": consumer.against,
        "engine": consumer.engine,
        "timeout": consumer.timeout,
        "cause": finding.cause,
        "status": finding.observation.status,
        "operators": finding.operators,
        "made": finding.observation.made,
        "said": finding.text,
        "software": installed(),
    }
    with scratch_folder() as folder_of_run, OutputFolder(folder) as target:
        target.write("model.tosa", api.encode(api.stamp(graph)))
        target.write("model.mlir", _plain(graph))
        target.write("inputs.npz", npz_pieces(inputs))
        target.write("expected.npz", npz_pieces(dict(expected)))
        if finding.observation.status == "wrong":
            target.write("found.npz", npz_pieces(computed(finding.trial, consumer, folder_of_run)))
        target.write(FILE, [json.dumps(description, indent=1).encode() + b"\n"])
        target.write("report.md", [report(finding, consumer, folder).encode()])


def save_own_error(row: Observation, source: Source, folder: Path, consumer: Consumer) -> None:
    """Write a folder for an exception of this package: what it said, and the command that repeats it."""
    description = {
        "title": row.group,
        "against": consumer.against,
        "cause": row.group,
        "status": row.status,
        "made": row.made,
        "said": row.message,
        "software": installed(),
    }
    text = f"""# {row.group}

This is a defect of tosa-convert {__version__}, not of `{consumer.against}`.

To see it again:

```sh
{shlex.join(["tosa-flatbuffer", *_fuzz_words(row, source, consumer)])}
```

The last of these programs ends with:

```
{row.message.rstrip()}
```
"""
    with OutputFolder(folder) as target:
        target.write(FILE, [json.dumps(description, indent=1).encode() + b"\n"])
        target.write("report.md", [text.encode()])


def _fuzz_words(row: Observation, source: Source, consumer: Consumer) -> list[str]:
    """Return the words of the command that tries the programs up to this one again."""
    options: dict[str, list[str]] = {
        "--against": [consumer.against],
        "--engine": [consumer.engine],
        "--timeout": [f"{consumer.timeout:g}"],
        "--seed": [str(source.seed)],
        "--size": [str(source.size)],
        "--only": [",".join(source.kinds or ())],
        "--profile": [source.profile or ""],
        "--types": [",".join(source.types or ())],
        "--level": [source.level],
        "--like": list(source.like),
        "--max-cases": [str(int(row.case) + 1)],
        "--work": ["again"],
    }
    flags = ["--scaled"] * source.scaled
    given = ((name, value) for name, values in options.items() for value in values if value)
    return ["fuzz", *flags, *(word for pair in given for word in pair)]


def report(finding: Finding, consumer: Consumer, folder: Path | None = None) -> str:
    """Return a finding as a text for a tracker, in Markdown. folder: the one that it is for."""
    program = b"".join(map(bytes, _plain(finding.trial.graph))).decode()
    versions = "\n".join(f"- {name} {version}" for name, version in installed().items())
    there = consumer
    if folder is not None:
        there = replace(consumer, against=_seen_from(folder, consumer.against))
    command = shlex.join(["tosa-flatbuffer", *check_words(there, "./")])
    return f"""# {finding.title or finding.cause}

`{consumer.against}` {_VERBS[finding.observation.status]} this program, which TOSA allows:

```mlir
{program.rstrip()}
```

To see it again, in this folder:

```sh
{command}
```

It prints:

```
{finding.text.rstrip()}
```

{_rule(finding)}## Versions

{versions}
"""


def _seen_from(folder: Path, against: str) -> str:
    """Return a backend as another folder has to name it: its files by their paths from there."""

    def path_of(text: str) -> str:
        if os.path.isabs(text) or not os.path.exists(text):
            return text
        try:
            return Path(os.path.relpath(text, folder)).as_posix()
        except ValueError:  # another drive
            return os.path.abspath(text)

    if os.path.exists(against) or not command_words(against):
        software, colon, path = against.partition(":")
        is_original = colon and software in ORIGINALS
        return f"{software}:{path_of(path)}" if is_original else path_of(against)
    words = command_words(against)
    # A program on PATH has no separator in its name.
    found = [path_of(word) if os.sep in word or place else word for place, word in enumerate(words)]
    return against if found == words else shlex.join(found)


def _plain(graph: Graph) -> Iterable[Any]:
    """Return a program as MLIR text without names and locations, which a report does not need."""
    return api.render(graph, "mlir", names="generate", locations=False)


_VERBS: Final = {"wrong": "gives a wrong result for", "crashed": "fails on", "refused": "refuses"}


def installed() -> dict[str, str]:
    """Return the releases of this package, and of installed packages that a report may be about."""
    found = {"tosa-convert": __version__}
    for name in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def _rule(finding: Finding) -> str:
    """Return what TOSA says of the operators of a small program."""
    if finding.rule:
        return f"## What TOSA says\n\n{finding.rule}\n\n"
    graph = finding.trial.graph
    kinds = dict.fromkeys(
        op.spec.name for op in graph.main.operators if op.spec not in (CONST, CONST_SHAPE)
    )
    texts = [f"- {kind}: {' '.join(text.split())}" for kind in kinds if (text := definition(kind))]
    return "## What the operators compute\n\n" + "\n".join(texts) + "\n\n" if texts else ""


# -- programs until time is over, and what is done with those that fail ----------------------------

#: Statuses of answers that count for one state of the consumer, and of this package, only.
_FAILURES: Final = ("wrong", "crashed", "error", "refused")
#: Programs that a worker tries between two looks at the clock.
_BATCH: Final = 8
#: Programs of one group of wrong results that are reduced: one group may hide several defects.
_REDUCED: Final = 2

LEAST_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class Campaign:
    """Say what a campaign is.

    folder: keeps the answers, and gets the findings. seconds: how long new programs are tried.
    reducing: how long reductions of what failed are started then; each has its share of what is left,
        and LEAST_SECONDS at least.
    count: the most programs; None for no limit. jobs: how many are tried at once. run_trials: tries
        them; None for local processes.
    known: folders of findings that are not reported again. refused: whether a refusal is a defect.
    """

    source: Source
    consumer: Consumer
    folder: Path
    seconds: float
    count: int | None = None
    jobs: int = 1
    run_trials: CaseRunner | None = None
    known: tuple[Path, ...] = ()
    refused: bool = False
    reducing: float = math.inf


@dataclass(slots=True)
class Outcome:
    """Hold what a campaign found.

    tried: programs by status. folders: of the new findings, with their causes. known: findings that were
        known before. lost: groups that did not fail again.
    waiting: groups for which no time was left; the same call again reduces them.
    own: defects of this package itself: folders, with their causes.
    """

    tried: Counter[str] = field(default_factory=Counter)
    folders: dict[str, Finding] = field(default_factory=dict)
    known: int = 0
    lost: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    own: dict[str, str] = field(default_factory=dict)


def run_campaign(
    campaign: Campaign,
    *,
    progress: Callable[[str], None] = lambda text: None,
    note: Callable[[str], None] = lambda text: None,
) -> Outcome:
    """Try programs, then reduce one of each group of failures and write its folder.

    progress: gets what is done at the moment. note: gets how long the reductions may take.
    The same call again goes on where the last one ended. Raises TosaConvertError: "file-error";
    "option-conflict" if the folder belongs to another campaign; "backend-refused" or "backend-failed" if
    the backend computed none of the programs, so that nothing was compared.
    """
    header = {"against": campaign.consumer.against, "source": asdict(campaign.source)}
    campaign.folder.mkdir(parents=True, exist_ok=True)
    journal = Journal(campaign.folder / "trials.jsonl", header, Observation)
    with contextlib.closing(journal):
        _try_programs(campaign, journal, progress)
        found = [row for row in journal.answers.values() if isinstance(row, Observation)]
    outcome = Outcome(Counter(row.status for row in found))
    _require_a_comparison(campaign, found)
    _report_findings(campaign, found, outcome, progress, note)
    return outcome


def _require_a_comparison(campaign: Campaign, found: list[Observation]) -> None:
    """Raise TosaConvertError if programs were tried, and the verdict on none of them says anything."""
    telling = {"pass", "wrong", "crashed", "error", *(["refused"] if campaign.refused else [])}
    if found and not any(row.status in telling for row in found):
        is_refused = any(row.status == "refused" for row in found)
        code = "backend-refused" if is_refused else "backend-failed"
        message = (
            f"none of {counted(len(found), 'program')} was compared; the first: {found[0].message}"
        )
        hint = "name operators and element types that it has (--only, --types), or see --against"
        raise fail(code, f"--against {campaign.consumer.against}", message, hint)


def _try_programs(campaign: Campaign, journal: Journal, progress: Callable[[str], None]) -> None:
    key = digest([of_backend(campaign.consumer.against), installed()])
    function = functools.partial(
        run_trial, source=campaign.source, consumer=campaign.consumer, key=key
    )
    run_cases = campaign.run_trials or on_local_processes(campaign.jobs)
    # The consumer was changed since: what failed runs again.
    failed = [
        name for name, row in journal.answers.items() if row.status in _FAILURES and row.key != key
    ]
    for name in failed:
        del journal.answers[name]
    run_all(failed, run_cases, journal, function)
    end = time.monotonic() + campaign.seconds
    number = len(journal.answers)
    most = number + (1 << 62 if campaign.count is None else campaign.count)
    while time.monotonic() < end and number < most:
        size = min(_BATCH * campaign.jobs, most - number)
        run_all([str(one) for one in range(number, number + size)], run_cases, journal, function)
        number += size
        counts = Counter(row.status for row in journal.answers.values())
        progress(", ".join(f"{count} {status}" for status, count in counts.most_common()))


def _report_findings(
    campaign: Campaign,
    found: list[Observation],
    outcome: Outcome,
    progress: Callable[[str], None],
    note: Callable[[str], None],
) -> None:
    known = known_causes([campaign.folder, *campaign.known])
    new: set[tuple[str, str]] = set()
    failing = _FAILURES if campaign.refused else _FAILURES[:-1]
    groups: dict[str, list[Observation]] = {}
    for group, rows in _groups(found, failing):
        if known_key(campaign.consumer.against, group) in known:
            outcome.known += 1
        else:
            groups[group] = rows
    end = time.monotonic() + campaign.reducing
    if groups and campaign.reducing < math.inf:
        kinds = counted(len(groups), "kind")
        note(f"{kinds} of failures are reduced now, for about {campaign.reducing:g} s")
    for place, (group, rows) in enumerate(groups.items()):
        if rows[0].status == "error":
            folder = campaign.folder / _folder_name(group, campaign.folder)
            save_own_error(rows[0], campaign.source, folder, campaign.consumer)
            outcome.own[str(folder)] = group
            continue
        if time.monotonic() > end:
            outcome.waiting.append(group)
            continue
        finding = None
        for row in rows[:_REDUCED]:
            left = end - time.monotonic()
            if finding is not None and left < 0:
                break
            progress(f"reduce {group}")
            trial = make_trial(campaign.source, int(row.case))
            seconds = max(left / (len(groups) - place), LEAST_SECONDS)
            finding = reduced_finding(
                trial, row, campaign.consumer, seconds=seconds, progress=progress
            )
            if finding is None:
                continue
            key = known_key(campaign.consumer.against, finding.cause)
            if key in known:
                outcome.known += key not in new
                continue
            known.add(key)
            new.add(key)
            folder = campaign.folder / _folder_name(finding.cause, campaign.folder)
            save_finding(finding, folder, campaign.consumer)
            outcome.folders[str(folder)] = finding
        if finding is None:
            outcome.lost.append(group)


def _groups(
    found: list[Observation], failing: tuple[str, ...]
) -> Iterator[tuple[str, list[Observation]]]:
    """Iterate over the groups of failures; of each the quickest trials come first."""
    groups: dict[str, list[Observation]] = {}
    for row in found:
        if row.status in failing:
            groups.setdefault(row.group, []).append(row)
    for group, rows in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        yield group, sorted(rows, key=lambda row: row.seconds)


def _folder_name(cause: str, folder: Path) -> str:
    """Return a name that is not taken, from the first words of a cause."""
    words = "".join(c if c.isalnum() else " " for c in cause.lower()).split()
    stem = "-".join(words)[:60].rstrip("-")
    names = (stem, *(f"{stem}-{number}" for number in range(2, 1000)))
    return next(name for name in names if not (folder / name).exists())
