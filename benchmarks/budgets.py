"""The budgets: limits on measured figures, and a verdict for each."""

from __future__ import annotations

import re
import statistics
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import places
from measure import run
from rows import Row

PYTHON = "ours (Python)"
COMMAND = "ours (command)"


@dataclass(frozen=True)
class Verdict:
    """One limit: the measured figure, the limit, and whether it is met."""

    work: str
    limit: str
    measured: str
    met: bool

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def judge(rows: dict[str, Row]) -> list[Verdict]:
    """Return a verdict for each budget whose rows have run. Of several rows, the worst counts."""
    return [
        *_export_verdicts(rows),
        *_import_verdicts(rows),
        *_command_verdicts(rows),
        *_look_verdicts(rows),
    ]


def _faster(
    rows: dict[str, Row], work: str, ids: list[str], least: float, subject: str = PYTHON
) -> list[Verdict]:
    """Return the verdict on how much faster than its peer a subject is; none if no row of `ids` ran."""
    ratios = [ratio for i in ids if i in rows and (ratio := rows[i].ratio(subject)) is not None]
    if not ratios:
        return []
    worst = min(ratios)
    return [Verdict(work, f"at least {least:g}x faster", f"{worst:.1f}x", worst >= least)]


def _at_most(work: str, limit: float, unit: str, measured: list[float]) -> list[Verdict]:
    """Return the verdict on a figure that must not exceed a limit; none without a figure."""
    if not measured:
        return []
    worst = max(measured)
    return [Verdict(work, f"at most {limit:g} {unit}", f"{worst:.2f} {unit}", worst <= limit)]


def _of_100_000(rows: dict[str, Row], verb: str) -> list[str]:
    """Return the ids of the rows with 100,000 operators that ran."""
    ids = [f"{verb}/{graph}/100000" for graph in ("chain", "branch")]
    return [i for i in ids if i in rows]


def _export_verdicts(rows: dict[str, Row]) -> list[Verdict]:
    large = _of_100_000(rows, "export")
    weights = [row for i, row in rows.items() if i.startswith("export/weights/512/")]
    verdicts = _faster(rows, "export 100,000 operators", large, 30)
    verdicts += _at_most(
        "export, per operator, in addition to MLIR's parse",
        10,
        "µs",
        [_export_cost(rows[i]) for i in large],
    )
    for what, least in (("f32/dense", 8), ("i8/dense", 15), ("f32/resource", 3)):
        ids = [f"export/weights/512/{what}"]
        verdicts += _faster(rows, f"export 512 MiB {what} weights", ids, least)
    return verdicts + _at_most(
        "peak memory of an export of 512 MiB, relative to the parsed module",
        1.15,
        "x",
        [_peak(row) for row in weights],
    )


def _import_verdicts(rows: dict[str, Row]) -> list[Verdict]:
    large = _of_100_000(rows, "import")
    weights = [i for i in rows if i.startswith("import/weights/512/")]
    mapped = [i for i in rows if i.startswith(("import/weights/", "import/sparse/"))]
    return [
        *_faster(rows, "import 512 MiB weights", weights, 4),
        *_at_most(
            "growth of anonymous memory in an import of the most weights, before they are read",
            16,
            "MiB",
            [_number(rows[i], "memory", "anonymous") / (1 << 20) for i in mapped],
        ),
        *_faster(rows, "import 100,000 operators", large, 1),
        *_at_most("import, per operator", 10, "µs", [_import_cost(rows[i]) for i in large]),
    ]


def _command_verdicts(rows: dict[str, Row]) -> list[Verdict]:
    bars = [row for i, row in rows.items() if i.startswith("progress/")]
    many = [i for i, row in rows.items() if i.startswith("many/") and row.size >= 2000]
    shim = "tosa-opt (pip command)"
    slower = [
        1 / ratio
        for i in ("one/export", "one/import")
        if i in rows and (ratio := rows[i].ratio(COMMAND, shim)) is not None
    ]
    models = [rows[i] for i in ("model/tflite",) if i in rows]
    return [
        *_at_most(
            "the progress bar, of the time for writing",
            1,
            "%",
            [
                100 * _number(row, "progress", "the bar") / _number(row, "progress", "writing")
                for row in bars
            ],
        ),
        *_faster(rows, "many small files in one call", many, 4, COMMAND),
        *_at_most("one small file, command line, against pip's tosa-opt", 2, "x", slower),
        *_at_most(
            "a small TFLite model, against its converter alone",
            2,
            "x",
            [1 / ratio for row in models if (ratio := row.ratio(COMMAND)) is not None],
        ),
    ]


#: Seconds that verbs which convert nothing may take, by the beginning of their rows.
_LOOK_SECONDS = {"show/sparse/3072": 0.5, "diff/branch/10000": 3, "report/branch/10000": 5}
#: MiB that showing a file of 3 GiB may take.
_SHOW_MIB = 100


def _look_verdicts(rows: dict[str, Row]) -> list[Verdict]:
    found: list[Verdict] = []
    for name, limit in _LOOK_SECONDS.items():
        result = rows[name].results.get(COMMAND) if name in rows else None
        if result is None or not result.runs:
            continue
        found += _at_most(rows[name].title, limit, "s", [result.wall])
        if name.startswith("show"):
            title = f"{rows[name].title}, peak memory"
            found += _at_most(title, _SHOW_MIB, "MiB", [result.peak / (1 << 20)])
    return found


def _number(row: Row, *keys: str) -> float:
    found: object = row.found
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return float(found) if isinstance(found, (int, float)) else float("nan")


def _phases(row: Row) -> dict[str, float]:
    found = row.found.get("phases")
    return found if isinstance(found, dict) else {}


def _export_cost(row: Row) -> float:
    """Microseconds an operator of our call: everything after the parse, counted once."""
    parts = _phases(row)
    skipped = ("MLIR: parse and verify", "MLIR: verify again")
    return sum(s for name, s in parts.items() if name not in skipped) / row.size * 1e6


def _import_cost(row: Row) -> float:
    """Microseconds an operator; what building the module repeats is in it already."""
    parts = _phases(row)
    return (
        sum(s for name, s in parts.items() if not name.startswith(("check", "MLIR")))
        / row.size
        * 1e6
    )


def _peak(row: Row) -> float:
    """Peak memory of an export relative to the memory of the module, with all of its pages resident.

    The resources of a parsed file are pages of that file; they are not resident until they are read.
    """
    touched = _number(row, "memory", "anonymous_before") + row.size
    module = max(_number(row, "memory", "parsed"), touched)
    return _number(row, "memory", "peak") / module


# -- starting up -----------------------------------------------------------------------------------

_FUNCTIONS = (
    "from tosa_convert import load, save, export_tosa_func_to_flatbuffer, "
    "import_tosa_func_from_flatbuffer"
)


def start_up(repeat: int) -> tuple[list[tuple[str, float]], list[Verdict]]:
    """Milliseconds of the package's imports and of --help, and their limits.

    Five times as many runs as elsewhere: short runs are the most easily disturbed.
    """
    repeat *= 5
    sets = {
        "import tosa_convert": "import tosa_convert",
        "  and its functions": _FUNCTIONS,
        "  import all modules that read and write a .tosa": (
            f"{_FUNCTIONS}; import tosa_convert.formats.flatbuffer.read, "
            "tosa_convert.formats.flatbuffer.write, "
            "tosa_convert.graph.verify"
        ),
        "  of which numpy": "import numpy",
        "MLIR's bindings, numpy included (torch_mlir.ir)": "import torch_mlir.ir",
    }
    found: list[tuple[str, float]] = []
    for name, code in sets.items():
        if "torch_mlir" in code and not places.has("torch_mlir"):
            continue
        _import_time(code)  # compile modules that are not compiled yet
        found.append((name, statistics.median(_import_time(code) for _ in range(repeat))))
    commands: dict[str, list[str | Path]] = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "tosa-flatbuffer-convert --help": [*places.ours(), "--help"],
    }
    for name, words in commands.items():
        run(words)
        found.append((name, 1e3 * statistics.median(run(words).wall for _ in range(repeat))))
    times = dict(found)
    verdicts = []
    for name, limit in (
        ("import tosa_convert", 60),
        ("  import all modules that read and write a .tosa", 60),
        ("tosa-flatbuffer-convert --help", 80),
    ):
        verdicts.append(
            Verdict(
                name.strip(), f"at most {limit} ms", f"{times[name]:.1f} ms", times[name] <= limit
            )
        )
    return found, verdicts


def _import_time(code: str) -> float:
    """Milliseconds that `python -X importtime` reports after the interpreter's own start."""
    output = run([sys.executable, "-X", "importtime", "-c", code], listen="stderr").output
    rows = re.findall(r"import time:\s+(\d+) \|\s+\d+ \|\s*(\S+)", output)
    # The start ends with the module `site`, which may import anything.
    ends = max(index for index, (_, module) in enumerate(rows) if module == "site")
    return sum(int(own) for own, _ in rows[ends + 1 :]) / 1000
