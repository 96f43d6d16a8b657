"""The tables of docs/model-suites.md about programs of operators, made from what was recorded."""

from __future__ import annotations

import json
import re
import textwrap
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "tests" / "frontends" / "operator_results.json"
#: The words of the tables for what becomes of a program, in order.
WORDS: Final = ("equal", "named", "differs")
_TYPES: Final = r"_(float16|bfloat16|bf16|fp16|float64|int8|int16|int32|int64|uint8|bool)$"
_SEQUENCES: Final = "random sequences"
_WIDTH: Final = 110

#: Operator -> why programs of it are not equal. A test requires one for each, and no other.
NOTES: Final[dict[str, dict[str, str]]] = {
    "torch": {
        "gaussian_nll_loss": "torch.export cannot follow its branch on the data",
    },
    "tflite": {
        "BITCAST": "TOSA has no cast that keeps the bits",
        "CONCATENATION": "operands of several scales, which TFLite does not run",
        "CUMSUM": "FP32: sums in another order, up to 6 units in the last place",
        "FAKE_QUANT": "the narrow range, which TFLite does not run",
        "GELU": "approximate: the difference of TANH from -1 has few bits, in TFLite too",
        "HARD_SWISH": "FP32: factors in another order, 1 unit in the last place",
        "LOCAL_RESPONSE_NORMALIZATION": (
            "LiteRT's reference kernel leaves the last channel of a window out; its other kernel agrees"
        ),
        "SUM": (
            "int8 and int16: LiteRT's reference kernel sums wrongly; its other kernel agrees, for int8 "
            "within 1"
        ),
        "UNIQUE": "the size of the result depends on the data",
        "WHERE": "the size of the result depends on the data",
    },
}


def results(frontend: str) -> dict[str, str]:
    """Program -> what became of it."""
    found: dict[str, dict[str, str]] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found[frontend]


def operator_of(frontend: str, program: str) -> str:
    """Return the operator that a program tests."""
    if "sequences" in program:
        return _SEQUENCES
    if frontend == "tflite":
        return program.partition("/")[0]
    return re.sub(_TYPES, "", program.partition(":make_")[2])


def by_operator(frontend: str) -> dict[str, Counter[str]]:
    """Operator -> how many of its programs became what."""
    found: dict[str, Counter[str]] = {}
    for program, word in results(frontend).items():
        found.setdefault(operator_of(frontend, program), Counter())[word] += 1
    return dict(sorted(found.items()))


def table(frontend: str) -> str:
    """Return all programs, the operators whose programs are all equal, and a row for each other one."""
    found = by_operator(frontend)
    counts = sum(found.values(), Counter())
    lines = ["| programs | run | equal | named | differ | why |", "|---|---|---|---|---|---|"]
    random_ones = found.pop(_SEQUENCES)
    for name, row in (("one operator", counts - random_ones), (_SEQUENCES, random_ones)):
        numbers = " | ".join(f"{row[word]:,}" for word in WORDS)
        note = NOTES[frontend].get(name, "")
        lines.append(f"| {name} | {row.total():,} | {numbers} | {note} |")
    whole = [name for name, row in found.items() if row["equal"] == row.total()]
    total = sum(found[name].total() for name in whole)
    names = [
        name if found[name].total() == 1 else f"{name} ({found[name].total()})" for name in whole
    ]
    text = (
        f"All are equal for {len(whole)} operators, {total:,} programs: {', '.join(names)}. "
        "Without a number there is one program."
    )
    lines += ["", *textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)]
    lines += ["", "| operator | run | equal | named | differ | why |", "|---|---|---|---|---|---|"]
    for name, row in found.items():
        if name not in whole:
            numbers = " | ".join(str(row[word]) for word in WORDS)
            lines.append(
                f"| {name} | {row.total()} | {numbers} | {NOTES[frontend].get(name, '')} |"
            )
    return "\n".join(lines) + "\n"


TABLES: Final[dict[str, Callable[[], str]]] = {
    "torch-operators": lambda: table("torch"),
    "tflite-operators": lambda: table("tflite"),
}
