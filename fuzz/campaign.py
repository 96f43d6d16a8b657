"""A campaign of mutated inputs: `python fuzz/campaign.py --seconds 60 --seed 1`.

Worker processes run inputs in a loop; this process watches them. A worker writes the number of each
input and its processor time to shared memory before it runs it, and the outcome after, so that a crash
or a hang costs one input, is counted, and the input is saved. Input number i of a seed is the same on
every machine.

    python fuzz/campaign.py --seconds 60                      short, for CI
    python fuzz/campaign.py --inputs 1000000 --seconds 9000 --state DIR
                                            long; the same command resumes it
    python fuzz/campaign.py --corpus MODELS --targets tflite,onnx,pt2 --inputs 26000 --turn 300
                                            models of frameworks, as make_models.py writes them
    python fuzz/campaign.py --targets verbs --inputs 1000000 --seconds 9000 --state DIR
                                            command lines of every verb, counted by verb and file
    python fuzz/campaign.py --show tosa --seed 1 --index 77   write that input to standard output

Exits with 1 if there was a crash, a hang, an exception that is not a TosaConvertError, or too much
memory.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import gc
import json
import math
import mmap
import os
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent))

import model_targets
import targets
import verb_targets
from memory import Memory

from tosa_convert import api
from tosa_convert.errors import TosaConvertError

#: Peak memory that an input may use: a constant, and an amount for each of its bytes.
MEMORY_FREE: Final = 64 << 20
MEMORY_PER_BYTE: Final = 8
#: Address space of a worker, so that a defect does not exhaust the machine's memory.
ADDRESS_SPACE: Final = 12 << 30
#: Seconds after which a worker that uses no processor time is waiting for something.
WAIT_AFTER: Final = 60.0
#: Inputs after which a worker is replaced by a new one.
SLICE: Final = 100_000
#: Outcomes of inputs that were not refused.
ACCEPTED: Final = {targets.ACCEPTED} | {
    outcome for outcome in verb_targets.Verb.outcomes if outcome.endswith((" 0", " 1"))
}
#: Saved inputs for each kind of failure and target.
KEPT: Final = 20

#: Outcomes, one byte an input: from _FIRST on, those of the target's class.
_NONE, _FOREIGN, _FIRST = 0, 1, 2
#: Shared memory: number of the running input, processor seconds when it began, peak KiB, then how many
#: files of each kind there were, then outcomes.
_HEAD: Final = struct.Struct("<qdq")
_KINDS: Final = struct.Struct("<64q")
_OUTCOMES: Final = _HEAD.size + _KINDS.size


@dataclass
class Tally:
    """The outcomes of the inputs of one target."""

    inputs: int = 0
    next: int = 0
    outcomes: collections.Counter[str] = field(default_factory=collections.Counter)
    files: collections.Counter[str] = field(default_factory=collections.Counter)
    crashes: collections.Counter[str] = field(default_factory=collections.Counter)
    hangs: int = 0
    foreign: int = 0
    memory: int = 0
    #: The input that seemed to hang. It counts if it hangs twice: the machine may have slept.
    suspect: int = -1
    #: The most MiB that a worker used in addition to its memory when it was ready.
    worst: float = 0.0
    seconds: float = 0.0

    @property
    def bad(self) -> int:
        return sum(self.crashes.values()) + self.hangs + self.foreign + self.memory


class Shared:
    """The shared memory of one worker."""

    def __init__(self, path: Path, *, create: bool) -> None:
        size = _OUTCOMES + SLICE
        if create:
            path.write_bytes(bytes(size))
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), size)

    def note(self, index: int, seconds: float, peak: int) -> None:
        _HEAD.pack_into(self.map, 0, index, seconds, peak)

    def count_kinds(self, counts: list[int]) -> None:
        _KINDS.pack_into(self.map, _HEAD.size, *counts, *[0] * (64 - len(counts)))

    def counted_kinds(self) -> tuple[int, ...]:
        return _KINDS.unpack_from(self.map, _HEAD.size)

    def noted(self) -> tuple[int, float, int]:
        index, seconds, peak = _HEAD.unpack_from(self.map, 0)
        return index, seconds, peak


def all_rows() -> dict[str, targets.Row]:
    """Return every target by its name."""
    return {**targets.TARGETS, **verb_targets.VERB_TARGETS, **model_targets.MODEL_TARGETS}


def make(name: str, folders: list[Path], scratch: Path) -> targets.Target:
    """Return the target called `name`."""
    scratch.mkdir(parents=True, exist_ok=True)
    return all_rows()[name].make(name, folders, scratch)


def available(options: argparse.Namespace) -> list[str]:
    """Return the targets whose packages are installed and that have seeds."""
    folders = [Path(folder) for folder in options.corpus]
    models = [name for name in model_targets.ROWS if model_targets.is_available(name, folders)]
    return [*targets.available(), *verb_targets.VERB_TARGETS, *models]


# -- the worker -------------------------------------------------------------------------------


def work(options: argparse.Namespace) -> None:
    """Run inputs until the time is over. Results go to shared memory and files."""
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    folders = [Path(folder) for folder in options.corpus]
    scratch = Path(options.scratch)
    shared = Shared(scratch / "shared", create=False)
    target = make(options.worker, folders, scratch / options.worker)
    failures = Path(options.failures)
    # Modules that are imported on first use must not count as memory of an input.
    target.run(target.sound())
    with contextlib.suppress(TosaConvertError):
        api.load(b"module {}")
    # Nothing that is there now is ever freed: do not look at it in every collection.
    gc.collect()
    gc.freeze()
    memory = Memory()
    base = before = memory.measure()[0]
    worst = 0
    kinds = dict.fromkeys(target.kinds, 0)
    started = time.monotonic()
    for offset in range(min(SLICE, options.count)):
        if time.monotonic() - started > options.slice:
            break
        index = options.first + offset
        data = target.input(options.seed, index)
        shared.note(index, time.process_time(), worst)
        memory.forget_peak()
        try:
            value = target.outcomes.index(target.run(data)) + _FIRST
        except Exception:  # any exception is a defect
            value = _FOREIGN
            keep(failures, options, "foreign", index, target, data, traceback.format_exc())
        # Without a peak for each input, use what the worker took since it was ready.
        now, most = memory.measure()
        peak = max(0, most - (before if memory.is_exact else base))
        worst, before = max(worst, peak), now
        limit = (MEMORY_FREE + MEMORY_PER_BYTE * target.size(data)) >> 10
        if peak > limit:
            text = f"{peak} KiB for {target.size(data)} bytes"
            keep(failures, options, "memory", index, target, data, text)
            base = now
        for kind in target.kinds_of(data):
            kinds[kind] += 1
        shared.count_kinds(list(kinds.values()))
        shared.map[_OUTCOMES + offset] = value
        shared.note(index + 1, time.process_time(), worst)


def keep(
    failures: Path,
    options: argparse.Namespace,
    kind: str,
    index: int,
    target: targets.Target,
    data: Any,
    text: str,
) -> None:
    """Save an input and its outcome."""
    stem = failures / f"{options.worker}-{options.seed}-{index}.{kind}"
    (stem.parent / f"{stem.name}.txt").write_text(f"{text}\n{targets.described(data)}\n")
    if len(list(failures.glob(f"{options.worker}-*.{kind}"))) < KEPT:
        target.save(data, stem)


# -- the watcher ------------------------------------------------------------------------------


def processor_seconds(process: int) -> float:
    """Processor time of another process; the clock where the system has no such figure."""
    try:
        rows = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return time.monotonic()
    return (int(rows[11]) + int(rows[12])) / os.sysconf("SC_CLK_TCK")


class Run:
    """One worker and its progress."""

    def __init__(
        self, name: str, tally: Tally, options: argparse.Namespace, seconds: float
    ) -> None:
        self.name, self.tally, self.options = name, tally, options
        self.first = tally.next
        self.started = time.monotonic()
        self.scratch = Path(tempfile.mkdtemp(prefix="fuzz-", dir=options.scratch))
        self.shared = Shared(self.scratch / "shared", create=True)
        self.shared.note(-1, 0.0, 0)
        left = options.quota[name] - tally.inputs
        command = [sys.executable, __file__, "--worker", name, "--seed", str(options.seed)]
        command += ["--first", str(self.first), "--count", str(max(1, min(SLICE, left)))]
        command += ["--slice", str(seconds), "--failures", str(options.failures)]
        command += ["--scratch", str(self.scratch)]
        command += [part for folder in options.corpus for part in ("--corpus", str(folder))]
        self.log = open(self.scratch / "log", "wb")  # noqa: SIM115 - closed with the run
        # Looking for translations of click's messages takes longer than some commands.
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            env={**os.environ, "LANGUAGE": "C"},
        )
        self.seen, self.seen_at = -1, time.monotonic()

    def hangs(self) -> bool:
        index, since, _ = self.shared.noted()
        now = time.monotonic()
        if index < 0 or index != self.seen:
            self.seen, self.seen_at = index, now
            return index < 0 and now - self.started > 4 * WAIT_AFTER
        if now - self.seen_at > WAIT_AFTER:
            return True
        used = processor_seconds(self.process.pid) - since
        limit = all_rows()[self.name].make.hang_after
        return used > limit and now - self.seen_at > limit

    def finish(self, *, hung: bool = False, stopped: bool = False) -> None:
        """Count the worker's outcomes, and how it ended. stopped: the campaign ends it."""
        if hung or stopped:
            self.process.kill()
        status = self.process.wait()
        index, _, peak = self.shared.noted()
        self.log.close()
        tally = self.tally
        if index < 0 and stopped:
            self.remove()
            return
        if index < 0:
            sys.stderr.write((self.scratch / "log").read_text(errors="replace")[-2000:])
            raise SystemExit(f"{self.name}: the worker did not start ({status})")
        done = index - self.first
        make = all_rows()[self.name].make
        for value in self.shared.map[_OUTCOMES : _OUTCOMES + done]:
            if value == _FOREIGN:
                tally.foreign += 1
            else:
                tally.outcomes[make.outcomes[value - _FIRST]] += 1
        for kind, count in zip(make.kinds, self.shared.counted_kinds(), strict=False):
            tally.files[kind] += count
        tally.inputs += done
        tally.next = index
        tally.worst = max(tally.worst, peak / 1024)
        tally.seconds += time.monotonic() - self.started
        tally.memory = len(list(self.options.failures.glob(f"{self.name}-*.memory.txt")))
        if hung and tally.suspect != index:
            tally.suspect = index
        elif (hung or status) and not stopped:
            # The input that was running, which has no outcome.
            tally.inputs += 1
            tally.next = index + 1
            kind = (
                "hang" if hung else signal.Signals(-status).name if status < 0 else f"exit {status}"
            )
            if hung:
                tally.hangs += 1
            else:
                tally.crashes[kind] += 1
            log = (self.scratch / "log").read_text(errors="replace")[-4000:]
            note = self.options.failures / f"{self.name}-{self.options.seed}-{index}.{kind}.txt"
            note.write_text(f"{kind}\n{log}")
        self.remove()

    def remove(self) -> None:
        """Remove the worker's files."""
        for path in sorted(self.scratch.rglob("*"), reverse=True):
            with contextlib.suppress(OSError):
                path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        with contextlib.suppress(OSError):
            self.scratch.rmdir()


def total(tallies: dict[str, Tally]) -> int:
    return sum(tally.inputs for tally in tallies.values())


def load_state(path: Path, names: list[str]) -> dict[str, Tally]:
    """Return the tallies of an earlier run, or empty ones."""
    tallies = {name: Tally() for name in names}
    if path.exists():
        for name, row in json.loads(path.read_text()).items():
            row["outcomes"] = collections.Counter(row["outcomes"])
            row["files"] = collections.Counter(row.get("files", {}))
            row["crashes"] = collections.Counter(row["crashes"])
            tallies[name] = Tally(**row)
    return tallies


def save_state(path: Path, tallies: dict[str, Tally]) -> None:
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps({name: vars(tally) for name, tally in tallies.items()}, indent=1))
    beside.replace(path)


def campaign(options: argparse.Namespace) -> int:
    """Run the campaign; the exit code."""
    names = options.targets.split(",") if options.targets else available(options)
    if options.targets == "verbs":
        names = list(verb_targets.VERB_TARGETS)
    state = Path(options.state or tempfile.mkdtemp(prefix="fuzz-state-"))
    options.failures = (state / "failures").absolute()
    options.failures.mkdir(parents=True, exist_ok=True)
    tallies = options.tallies = load_state(state / f"{options.seed}.json", names)
    rows = {name: all_rows()[name] for name in names}
    whole = sum(row.inputs for row in rows.values())
    options.quota = {
        name: math.ceil(options.inputs * row.inputs / whole) if options.inputs else sys.maxsize
        for name, row in rows.items()
    }
    turn = max(3.0, min(options.turn, options.seconds * options.workers / len(names) / 2))
    # A signal that ends the campaign must end its workers, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    deadline = time.monotonic() + options.seconds
    runs: list[Run] = []
    spent = {name: tallies[name].seconds for name in names}
    try:
        while True:
            left = deadline - time.monotonic()
            while left >= 1 and len(runs) < options.workers:
                busy = {run.name for run in runs}
                free = [
                    name
                    for name in names
                    if name not in busy and tallies[name].inputs < options.quota[name]
                ]
                if not free:
                    break
                name = min(free, key=lambda name: spent[name] / rows[name].seconds)
                seconds = min(turn, max(1.0, left - 1))
                spent[name] += seconds
                runs.append(Run(name, tallies[name], options, seconds))
            if not runs:
                break
            time.sleep(0.1)
            for run in list(runs):
                hung = run.process.poll() is None and run.hangs()
                if hung or run.process.poll() is not None:
                    runs.remove(run)
                    run.finish(hung=hung)
                    save_state(state / f"{options.seed}.json", tallies)
    finally:
        for run in runs:
            run.finish(stopped=True)
        save_state(state / f"{options.seed}.json", tallies)
    report(tallies, state)
    return 1 if any(tallies[name].bad for name in names) else 0


def report(tallies: dict[str, Tally], state: Path) -> None:
    """Print the tallies."""
    head = ("target", "inputs", "accepted", "refused", "crashes", "hangs", "foreign", "memory")
    print(" | ".join(head), "| worst MiB | inputs/s")
    for name, tally in tallies.items():
        accepted = sum(tally.outcomes[outcome] for outcome in ACCEPTED & tally.outcomes.keys())
        refused = sum(tally.outcomes.values()) - accepted
        crashes = sum(tally.crashes.values())
        cells = (name, tally.inputs, accepted, refused, crashes, tally.hangs, tally.foreign)
        rate = tally.inputs / tally.seconds if tally.seconds else 0.0
        print(" | ".join(map(str, cells)), f"| {tally.memory} | {tally.worst:.0f} | {rate:.0f}")
        if tally.crashes:
            print("   ", ", ".join(f"{kind}: {n}" for kind, n in tally.crashes.most_common()))
    print(f"total {total(tallies)} inputs")
    verbs = {name: row for name, row in tallies.items() if name in verb_targets.VERB_TARGETS}
    codes = collections.Counter[str]()
    for name in tallies.keys() - verbs.keys():
        codes += tallies[name].outcomes
    if verbs:
        verb_targets.print_counts({name: row.outcomes for name, row in verbs.items()})
        files = sum((row.files for row in verbs.values()), collections.Counter[str]())
        print("files:", ", ".join(f"{kind} {count}" for kind, count in files.most_common()))
    if codes:
        print("outcomes:", ", ".join(f"{code} {count}" for code, count in codes.most_common()))
    failures = sorted(path.name for path in (state / "failures").iterdir())
    if failures:
        print(f"{len(failures)} files in {state / 'failures'}, such as {', '.join(failures[:5])}")


def main() -> int:
    """Run the command, and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of the whole campaign (default 60)"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--inputs",
        type=int,
        default=0,
        help="of all targets and runs, until it stops",
    )
    parser.add_argument("--targets", default="", help=f"some of {', '.join(all_rows())}")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--turn", type=float, default=30.0, help="seconds a worker runs at most")
    parser.add_argument(
        "--state", default="", help="folder of counts and failures, to resume later"
    )
    parser.add_argument(
        "--corpus", action="append", default=[], help="folders of .tosa files and of models"
    )
    parser.add_argument("--scratch", default="/dev/shm" if os.path.isdir("/dev/shm") else None)
    parser.add_argument(
        "--show", default="", metavar="TARGET", help="write input --index of a target"
    )
    parser.add_argument("--index", type=int, default=0)
    for name in ("--worker", "--failures"):
        parser.add_argument(name, default="", help=argparse.SUPPRESS)
    for name in ("--first", "--count"):
        parser.add_argument(name, type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--slice", type=float, default=0.0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.corpus = options.corpus or [str(targets.CORPUS)]
    if options.worker:
        work(options)
        return 0
    if options.show:
        scratch = Path(tempfile.mkdtemp(prefix="fuzz-show-"))
        target = make(options.show, [Path(f) for f in options.corpus], scratch)
        data = target.input(options.seed, options.index)
        if isinstance(data, bytes):
            sys.stdout.buffer.write(data)
        else:
            target.save(data, scratch / "input")
            print(scratch / "input", targets.described(data))
        return 0
    return campaign(options)


if __name__ == "__main__":
    sys.exit(main())
