"""Runs a campaign: programs until time is over, then a folder for each distinct defect."""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from tosa_convert.errors import fail
from tosa_convert.golden.backends.process import digest, of_backend
from tosa_convert.graph.model import counted
from tosa_convert.qualify.campaign.findings import (
    Finding,
    installed,
    known_causes,
    known_key,
    reduced_finding,
    save_finding,
    save_own_error,
)
from tosa_convert.qualify.campaign.observe import (
    Consumer,
    Observation,
    Source,
    make_trial,
    run_trial,
)
from tosa_convert.qualify.suite.engine import CaseRunner, on_local_processes, run_all
from tosa_convert.qualify.suite.journal import Answer, Journal

#: Statuses of answers that count for one state of the consumer, and of this package, only.
_FAILURES: Final = ("wrong", "crashed", "error", "refused")
#: Programs that a worker tries between two looks at the clock.
_BATCH: Final = 8
#: Programs of one group of wrong results that are reduced: one group may hide several defects.
_REDUCED: Final = 2


#: Seconds that a reduction has at least.
LEAST_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class Campaign:
    """What a campaign is.

    folder: keeps the answers, and gets the findings. seconds: how long new programs are tried.
    reducing: how long reductions of what failed are started then; each has its share of what is left,
        and LEAST_SECONDS at least.
    count: the most programs; None for no limit. jobs: how many are tried at once.
    run_trials: tries them; None for local processes.
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
    """What a campaign found.

    tried: programs by status. folders: of the new findings, with their causes.
    known: findings that were known before. lost: groups that did not fail again.
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
    failed = [name for name, row in journal.answers.items() if _is_stale(row, key)]
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


def _is_stale(row: Answer, key: str) -> bool:
    return row.status in _FAILURES and row.key != key


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
