"""One command: make the inputs, run our subjects and the peers, print and save the measurements.

    python benchmarks/run.py [--quick|--full] [--only PATTERN] [--skip PATTERN] [--repeat N]
                             [--json FILE | --merge FILE] [--svg FILE]

Every number is of a whole process, measured from outside: wall time, processor time, the kernel's
peak of resident memory (which counts mapped pages of files) and the sampled peak of anonymous memory
(which does not). A warm-up run, then runs in turn; medians. Both sides read from and write to one
folder in memory. docs/performance.md says how to read the table.
"""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import places
from budgets import Verdict, judge, start_up
from curves import svg
from measure import Failed, alternate
from report import HEADER, as_json, lines, merged, show, write_json
from rows import FULL, LARGE, NORMAL, QUICK, Row, Rows


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(
        description="Measure tosa-convert against tosa-opt and tosa_serializer."
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="tiny inputs, to see that it works")
    size.add_argument(
        "--full", action="store_true", help="also 1,000,000 operators and 4096 MiB of weights"
    )
    parser.add_argument(
        "--only", default="*", metavar="PATTERN", help="rows whose id matches; --list shows them"
    )
    parser.add_argument(
        "--skip", action="append", default=[], metavar="PATTERN", help="but not these; repeatable"
    )
    parser.add_argument("--list", action="store_true", help="print the rows' ids")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured")
    parser.add_argument(
        "--merge", type=Path, metavar="FILE", help="replace in the JSON what is measured now"
    )
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw the growth curves")
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="runs of each (5)")
    return parser.parse_args(words)


def say(text: str) -> None:
    """Print progress to standard error."""
    print(f"  {text}", file=sys.stderr, flush=True)


def wanted(name: str, pattern: str) -> bool:
    """Return whether a row is selected: by a pattern with wildcards, or by part of its id."""
    return fnmatch.fnmatch(name, pattern) or ("*" not in pattern and pattern in name)


def measure(row: Row, repeat: int) -> None:
    """Run a row's subjects in turn, then what measures inside the process."""
    row.results = alternate(row.subjects, repeat, say)
    if row.extra is not None:
        try:
            row.found.update(row.extra())
        except Failed as failure:
            row.found["extra_failed"] = str(failure)
            say(str(failure))


Makers = list[tuple[str, Callable[[], Row]]]


def main(words: list[str] | None = None) -> int:
    """Run the benchmark; 0 unless one of our own subjects failed."""
    options = arguments(words)
    # On SIGTERM, too, report the results so far and delete the inputs.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sizes = QUICK if options.quick else FULL if options.full else NORMAL
    folder, where = places.scratch()
    # As when installed, Python stores compiled modules, here in a folder of this run.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder / "pycache")
    try:
        plan = Rows(folder, sizes, say)
        if options.list:
            print("\n".join(name for name, _ in plan.all()), "start", sep="\n")
            return 0
        makers = [
            (name, make)
            for name, make in plan.all()
            if wanted(name, options.only) and not any(wanted(name, skip) for skip in options.skip)
        ]
        if not makers and not wanted("start", options.only):
            say(f"no row is called {options.only}: --list shows what they are called")
            return 2
        about = {
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "scratch": where,
            "mode": "quick" if options.quick else "full" if options.full else "normal",
            "machine": places.machine(),
            "versions": places.versions(),
            "sources": places.sources(),
        }
        print(f"inputs and outputs in {where}; {about['machine']}; {about['versions']}")
        if os.getloadavg()[0] > 0.7 * len(os.sched_getaffinity(0)):
            print("the machine is busy with other work: ratios hold better than times")
        rows, interrupted = measure_rows(plan, makers, options.repeat)
        start: list[tuple[str, float]] = []
        limits: list[Verdict] = []
        if not interrupted and wanted("start", options.only):
            start, limits = start_up(options.repeat)
        report(plan, rows, start, [*judge(rows), *limits], about, options)
        ours = [r for row in rows.values() for n, r in row.results.items() if n.startswith("ours")]
        return 0 if all(result.runs for result in ours) and len(rows) == len(makers) else 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure_rows(plan: Rows, makers: Makers, repeat: int) -> tuple[dict[str, Row], bool]:
    """Make and measure each row. The rows that ran, and whether Ctrl-C ended it."""
    rows: dict[str, Row] = {}
    for name, make in makers:
        say(name)
        try:
            row = make()
            measure(row, repeat)
        except Failed as failure:
            say(f"{name} cannot be prepared: {failure}")
            continue
        except KeyboardInterrupt:
            say("interrupted: the report has what was measured until now")
            return rows, True
        rows[name] = row
        plan.drop("ours.", "peer.", "out-many")
        tidy(plan, name, [name for name, _ in makers])
    return rows, False


def report(
    plan: Rows,
    rows: dict[str, Row],
    start: list[tuple[str, float]],
    verdicts: list[Verdict],
    about: dict[str, Any],
    options: argparse.Namespace,
) -> None:
    """Print the tables, and write the requested files."""
    body = [line for row in rows.values() for line in lines(row)]
    if body:
        show("Whole processes; memory in MiB", HEADER, body)
    inside(rows)
    if start:
        times = [(name, f"{value:.1f}") for name, value in start]
        show("Starting up", ("what", "ms"), times)
    if verdicts:
        results = [(v.work, v.limit, v.measured, "met" if v.met else "NOT MET") for v in verdicts]
        header = ("budget", "limit", "measured", "verdict")
        show("Budgets", header, results)
    for sort, flags in plan.flags.items():
        print(f"tosa-opt, {sort}: fastest with {flags}")
    found = as_json(rows, verdicts, start, {**about, "tosa_opt_flags": plan.flags})
    if options.json:
        write_json(options.json, found)
    if options.merge:
        found = merged(options.merge, found)
        write_json(options.merge, found)
    if options.svg:
        options.svg.write_text(svg(found), encoding="utf-8")


def tidy(plan: Rows, done: str, names: list[str]) -> None:
    """Delete a large input once no later row needs it."""
    later = names[names.index(done) + 1 :]
    for name, path in list(plan.made.items()):
        if path.is_file() and path.stat().st_size >= LARGE:
            stem = name.partition(".")[0].replace("-", "/")
            # weights/512/f32/dense serves the export row of its form, and the import row of its type.
            kind = stem.rpartition("/")[0]
            needed = (f"export/{stem}", f"import/{kind}", f"import/{stem}")
            if not any(row in later for row in needed):
                plan.drop(name)


def inside(rows: dict[str, Row]) -> None:
    """Print what the processes measured themselves: phases per operator, memory by kind of page."""
    body = []
    for row in rows.values():
        phases, memory = row.found.get("phases"), row.found.get("memory")
        title = row.title
        if isinstance(phases, dict) and row.unit == "operators":
            for name, value in phases.items():
                body.append((title, name, f"{value / row.size * 1e6:.2f} µs/op"))
                title = ""
        if isinstance(memory, dict):
            figures = ", ".join(f"{name} {value / (1 << 20):.0f}" for name, value in memory.items())
            body.append((title, "memory, MiB", figures))
            title = ""
        bar = row.found.get("progress")
        if isinstance(bar, dict):
            body += [(title, key, f"{value:.3f} s") for key, value in bar.items()]
        for key in ("same", "note", "extra_failed"):
            if key in row.found:
                body.append((title, key, str(row.found[key])[:100]))
                title = ""
    if body:
        show("Inside", ("work", "what", "measured"), body)


if __name__ == "__main__":
    sys.exit(main())
