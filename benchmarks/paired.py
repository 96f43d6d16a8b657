"""Time two checkouts against each other: the same inputs, whole processes, in turns.

    python benchmarks/paired.py OLD_CHECKOUT NEW_CHECKOUT [--only TEXT] [--pairs N] [--quick]

This script's own checkout makes the inputs, once, in a folder in memory. Each job is
`python -m tosa_convert convert ...` with PYTHONPATH set to one of the checkouts and this interpreter.
After one warm-up run of each, the two run in pairs; the order within a pair alternates, so that a
machine that slows down slows both. A job's result is the median of its pairs' ratios, new over old.
Both must write the same bytes.

Exit code 1 if a median ratio is above the limit (3 % slower), or if outputs differ.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import places
from measure import Failed, Run, run

#: Sizes of the inputs: operators, MiB of weights, small files.
SIZES = {"normal": (100_000, 512, 2_400), "quick": (220, 1, 12)}
#: Runs shorter than this many seconds are repeated in this many times as many pairs.
SHORT_SECONDS, SHORT_FACTOR = 1.0, 3


@dataclass(frozen=True)
class Job:
    """One conversion: the group of its inputs, its formats, and its inputs."""

    group: str
    formats: str
    sources: tuple[Path, ...]

    @property
    def name(self) -> str:
        """Return the name in the report, by which --only chooses it."""
        return f"{self.group}: {self.formats}"

    @property
    def to(self) -> str:
        """Return the format of the output."""
        return self.formats.rpartition(".")[2]


@dataclass
class Timing:
    """The runs of a job, a pair at a time: (old, new)."""

    name: str
    pairs: list[tuple[Run, Run]] = field(default_factory=list)
    same_bytes: bool = False

    def ratios(self, what: str) -> list[float]:
        """New over old of each pair; `what` is "wall" or "cpu"."""
        return [getattr(new, what) / getattr(old, what) for old, new in self.pairs]

    def median(self, which: int, what: str) -> float:
        """Return the median of the old (0) or the new (1) runs, in seconds."""
        return float(statistics.median(getattr(pair[which], what) for pair in self.pairs))

    @property
    def ratio(self) -> float:
        """Return the median of the pairs' ratios of wall time."""
        return statistics.median(self.ratios("wall"))

    @property
    def interval(self) -> tuple[float, float]:
        """Return the range that holds the middle half of the ratios of wall time."""
        ratios = self.ratios("wall")
        if len(ratios) < 2:
            return ratios[0], ratios[0]
        low, _, high = statistics.quantiles(ratios, n=4, method="inclusive")
        return low, high

    def as_json(self) -> dict[str, object]:
        """Return every run, in seconds and bytes, and the ratios."""
        return {
            "name": self.name,
            "ratio": self.ratio,
            "middle_half": self.interval,
            "cpu_ratio": statistics.median(self.ratios("cpu")),
            "peak_ratio": statistics.median(self.ratios("peak")),
            "same_bytes": self.same_bytes,
            "pairs": [[asdict(old), asdict(new)] for old, new in self.pairs],
        }


def make_inputs(folder: Path, sizes: tuple[int, int, int], groups: set[str]) -> None:
    """Make the inputs of some groups of jobs."""
    operators, mib, files = sizes
    script = Path(__file__).with_name("inputs.py")

    def make(*words: str | Path) -> None:
        run([sys.executable, script, *words], environment=environment(folder, places.ROOT))

    for graph in sorted(groups & {"chain", "branch"}):
        make(graph, str(operators), folder / f"{graph}.mlirbc")
        make("tosa", folder / f"{graph}.mlirbc", folder / f"{graph}.tosa")
    if "weights" in groups:
        for form in ("dense", "resource"):
            make("weights", str(mib), "f32", form, folder / f"{form}.mlirbc")
        make("tosa", folder / "dense.mlirbc", folder / "dense.tosa")
    if "one" in groups:
        shutil.copy(places.EXAMPLE, folder / "one.mlirbc")
        make("tosa", folder / "one.mlirbc", folder / "one.tosa")
    if "many" in groups:
        make("small", str(files), folder / "many")
        # Many of the small files are equal: one conversion each.
        made: dict[bytes, bytes] = {}
        for path in sorted((folder / "many").iterdir()):
            data, target = path.read_bytes(), path.with_suffix(".tosa")
            if data not in made:
                make("tosa", path, target)
                made[data] = target.read_bytes()
            target.write_bytes(made[data])


def jobs(folder: Path, files: int) -> Iterator[Job]:
    """Yield all jobs, of the inputs in a folder."""
    for name in ("one", "chain", "branch"):
        yield Job(name, ".mlirbc to .tosa", (folder / f"{name}.mlirbc",))
        yield Job(name, ".tosa to .mlirbc", (folder / f"{name}.tosa",))
        yield Job(name, ".tosa to .json", (folder / f"{name}.tosa",))
    yield Job("weights", "dense .mlirbc to .tosa", (folder / "dense.mlirbc",))
    yield Job("weights", "resource .mlirbc to .tosa", (folder / "resource.mlirbc",))
    yield Job("weights", ".tosa to .mlirbc", (folder / "dense.tosa",))
    for source, target in ((".mlirbc", ".tosa"), (".tosa", ".mlirbc")):
        sources = tuple(folder / "many" / f"m{index:05}{source}" for index in range(files))
        yield Job("many", f"{source} to {target}", sources)


def environment(folder: Path, checkout: Path) -> dict[str, str]:
    """Return the environment in which `import tosa_convert` finds a checkout.

    It stores compiled modules.
    """
    own = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return {**own, "PYTHONPATH": str(checkout), "PYTHONPYCACHEPREFIX": str(folder / "pycache")}


def imported_from(folder: Path, checkout: Path) -> Path:
    """Return the checkout that a process of `environment` really imports."""
    code = "import tosa_convert; print(tosa_convert.__file__)"
    command = [sys.executable, "-P" if sys.version_info >= (3, 11) else "-B", "-c", code]
    return Path(run(command, environment=environment(folder, checkout)).output.strip()).parents[1]


def convert(job: Job, folder: Path, checkout: Path) -> tuple[Run, str]:
    """Run a job with a checkout; return its time and a digest of its output, which is then deleted."""
    target = folder / "written"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    output = target if len(job.sources) > 1 else target / f"out.{job.to}"
    command: list[str | Path] = [sys.executable, "-m", "tosa_convert", "convert", *job.sources]
    command += ["-o", output, "--to", job.to]
    measured = run(command, environment=environment(folder, checkout))
    digest = hashlib.sha256()
    for path in sorted(path for path in target.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(target)}\0{path.stat().st_size}\0".encode())
        with open(path, "rb") as file:
            while block := file.read(1 << 22):
                digest.update(block)
    shutil.rmtree(target)
    return measured, digest.hexdigest()


def time_job(
    job: Job, folder: Path, checkouts: Sequence[Path], pairs: int, short_factor: int
) -> Timing:
    """Warm up, then run both checkouts in pairs; `short_factor` times as many if the job is short."""
    timing = Timing(job.name)
    warm = [convert(job, folder, checkout) for checkout in checkouts]
    timing.same_bytes = warm[0][1] == warm[1][1]
    if warm[0][0].wall < SHORT_SECONDS:
        pairs *= short_factor
    for number in range(pairs):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        runs = {index: convert(job, folder, checkouts[index])[0] for index in order}
        timing.pairs.append((runs[0], runs[1]))
    return timing


def line(timing: Timing, limit: float) -> str:
    """Return one row of the report."""
    low, high = timing.interval
    verdict = "" if timing.ratio <= 1 + limit else "  SLOWER"
    verdict += "" if timing.same_bytes else "  OTHER BYTES"
    return (
        f"{timing.name:36} {timing.median(0, 'wall'):8.3f} {timing.median(1, 'wall'):8.3f}"
        f" {timing.ratio:7.3f}  {low:.3f} to {high:.3f}"
        f" {statistics.median(timing.ratios('cpu')):8.3f}"
        f" {statistics.median(timing.ratios('peak')):8.3f} {len(timing.pairs):4}{verdict}"
    )


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description="Time two checkouts against each other.")
    parser.add_argument("old", type=Path, metavar="OLD_CHECKOUT")
    parser.add_argument("new", type=Path, metavar="NEW_CHECKOUT")
    parser.add_argument("--only", default="", metavar="TEXT", help="jobs whose name contains TEXT")
    parser.add_argument("--pairs", type=int, default=11, metavar="N", help="pairs of runs (11)")
    parser.add_argument("--limit", type=float, default=3.0, metavar="PERCENT", help="allowed (3)")
    parser.add_argument("--quick", action="store_true", help="tiny inputs, to see that it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every run")
    options = parser.parse_args(words)
    if options.pairs < 1:
        parser.error("--pairs: at least 1")
    return options


def main(words: list[str] | None = None) -> int:
    """Time every job; 1 if one is slower than allowed, writes other bytes, or fails."""
    options = arguments(words)
    checkouts = [options.old.resolve(), options.new.resolve()]
    folder, where = places.scratch()
    before = Path.cwd()
    try:
        os.chdir(folder)  # `python -m` imports from the current folder first
        for checkout in checkouts:
            found = imported_from(folder, checkout)
            if found != checkout:
                print(f"{checkout} does not hold the package: {found} does", file=sys.stderr)
                return 2
        print(f"inputs in {where}; load {os.getloadavg()[0]:.1f}; {places.versions()}")
        sizes = SIZES["quick" if options.quick else "normal"]
        chosen = [job for job in jobs(folder, sizes[2]) if options.only in job.name]
        if not chosen:
            print(f"no job's name contains {options.only!r}", file=sys.stderr)
            return 2
        make_inputs(folder, sizes, {job.group for job in chosen})
        head = f"{'seconds (median)':36} {'old':>8} {'new':>8} {'new/old':>7}  middle half   "
        print(f"{head} {'cpu':>8} {'peak':>8} pairs", flush=True)
        timings = []
        factor = 1 if options.quick else SHORT_FACTOR
        for job in chosen:
            timings.append(time_job(job, folder, checkouts, options.pairs, factor))
            print(line(timings[-1], options.limit / 100), flush=True)
    except Failed as failure:
        print(failure, file=sys.stderr)
        return 1
    finally:
        os.chdir(before)
        shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        text = json.dumps([timing.as_json() for timing in timings], indent=1)
        options.json.write_text(f"{text}\n", encoding="utf-8")
    slower = [t for t in timings if t.ratio > 1 + options.limit / 100]
    return 1 if slower or not all(t.same_bytes for t in timings) else 0


if __name__ == "__main__":
    sys.exit(main())
