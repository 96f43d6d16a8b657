"""The tables of docs/formats.md agree with the tables of the program."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import numpy as np
import pytest
from docs.test_links import WIDTH

from tosa_convert.consumers.readers import CONSUMERS
from tosa_convert.graph import DTYPES, OPERATORS, Constant, DType
from tosa_convert.graph.constant import pack
from tosa_convert.graph.dtypes import V1_0
from tosa_convert.io.formats import EXTENSIONS, READ_ONLY

DOCUMENT = "docs/formats.md"


def layout(row: DType) -> str:
    if row.name == "BOOL":
        return "a byte, 0 or 1"
    if row.name == "INT4":
        return "two a byte, the first in the low half; -7 to 7"
    if row.bits == 4:
        return "two a byte, the first in the low half"
    if row.bits == 6:
        return "four to three bytes, the first in the lowest bits"
    return "a byte" if row.bits == 8 else f"{row.bits // 8} bytes, little-endian"


def values(row: DType) -> list[float]:
    if row.name == "BOOL":
        return [1, 0, 1]
    return [1, 2, 0.5] if row.name == "FP8UE8M0" else [1, -2, 6]


def example(row: DType) -> bytes:
    """Return the bytes of the values in a file, made by numpy and not by `Constant`."""
    array = np.array(values(row)).astype(row.numpy)
    if row.is_packed:
        codes = array.view(np.uint8) & np.uint8((1 << row.bits) - 1)
        return pack(codes, row.bits).tobytes()
    octets = array.view(np.uint8).reshape(len(array), -1)[:, : row.element_bytes]
    return octets.tobytes()


def dtypes_table() -> str:
    lines = [
        "| type | code | bits | in a file | example | bytes | MLIR | since |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in DTYPES:
        shown = ", ".join(f"{value:g}" for value in values(row))
        since = ".".join(map(str, row.since))
        lines.append(
            f"| `{row.name}` | {row.code} | {row.bits} | {layout(row)} | {shown} | "
            f"`{example(row).hex(' ')}` | `{row.mlir}` | {since} |"
        )
    return "\n".join(lines) + "\n"


def operators_list() -> str:
    names = ", ".join(f"`{row.name}`" for row in OPERATORS if row.since > V1_0)
    return textwrap.fill(f"{names}.", WIDTH) + "\n"


def consumers_table() -> str:
    lines = ["| program (`--for`) | embedded | offset | of another form it |", "|---|---|---|---|"]
    for row in CONSUMERS.values():
        marks = " | ".join(
            "yes" if form in row.weights else "no" for form in ("embedded", "offset")
        )
        lines.append(f"| `{row.name}` | {marks} | {row.otherwise} |")
    return "\n".join(lines) + "\n"


TABLES = {"dtypes": dtypes_table, "operators": operators_list, "consumers": consumers_table}


@pytest.mark.parametrize("row", DTYPES, ids=str)
def test_the_example_bytes_of_a_type_are_read_as_its_example_values(row: DType) -> None:
    array = Constant(row, len(values(row)), example(row)).numpy()
    assert array.astype(np.float64).tolist() == values(row)


def test_the_extensions_are_listed(root: Path) -> None:
    text = (root / DOCUMENT).read_text(encoding="utf-8").partition("\n\n|")[2].partition("\n\n")[0]
    read_only = {f".{name}" for name in READ_ONLY}
    assert set(re.findall(r"`(\.\w+)`", text)) == set(EXTENSIONS) | read_only
