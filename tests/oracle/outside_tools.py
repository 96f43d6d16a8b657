"""The outside judges: `tosa-opt`, `flatc` and the reference model, one call each.

Nothing here knows our own code, so that nothing of ours can judge itself.
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import official_suite

Json = Any

#: Seconds after which an outside program counts as hanging.
PATIENCE = 120


class ToolError(RuntimeError):
    """An outside tool that failed where it must not."""


@dataclass(frozen=True)
class Refused:
    """An outside tool would not do it; `message` is what it said, `crashed` how it ended."""

    message: str
    crashed: bool = False

    def __str__(self) -> str:
        return f"{'crash: ' if self.crashed else ''}{self.message}"


def _call(command: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    # The reference model attaches a debugger to its caller if it finds one on the path.
    return subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=PATIENCE,
        env={**os.environ, "PATH": ""},
    )


def _refused(done: subprocess.CompletedProcess[str]) -> Refused:
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return Refused(lines[0] if lines else f"exit code {done.returncode}", done.returncode < 0)


class TosaOpt:
    """`tosa-opt` in a scratch folder."""

    def __init__(self, scratch: Path) -> None:
        self.empty = scratch / "empty.mlir"
        self.empty.write_text("module {}\n", encoding="utf-8")
        self.program = official_suite.native("tosa-opt")

    def read(self, tosa: Path, module: Path) -> Refused | None:
        """Deserialise `tosa` into MLIR bytecode, which unlike text keeps every bit of a NaN."""
        module.unlink(missing_ok=True)
        done = _call(
            [
                self.program,
                f"--tosa-deserialize=tosa-flatbuffer-filename={tosa}",
                self.empty,
                "--emit-bytecode",
                "-o",
                module,
            ]
        )
        return _refused(done) if done.returncode or not module.exists() else None

    def write(self, module: Path, tosa: Path) -> Refused | None:
        """Serialise a module, text or bytecode, into `tosa`."""
        tosa.unlink(missing_ok=True)
        option = f"--tosa-serialize=tosa-flatbuffer-filename={tosa}"
        done = _call([self.program, option, module, "-o", os.devnull])
        return _refused(done) if done.returncode or not tosa.exists() else None


def flatc_json(folder: Path, *files: Path) -> list[Json]:
    """What `flatc --json` says of each file; it passes through `folder`. Raises ToolError.

    The files' stems must differ.
    """
    options = ["--json", "--strict-json", "--raw-binary", "-o", folder]
    done = _call([official_suite.native("flatc"), *options, official_suite.schema(), "--", *files])
    if done.returncode:
        raise ToolError(f"flatc: {done.stderr.strip() or done.stdout.strip()}")
    targets = [folder / f"{file.stem}.json" for file in files]
    found = [json.loads(target.read_bytes()) for target in targets]
    for target in targets:
        target.unlink()
    return found


def reference_run(tosa: Path, test: Path, folder: Path) -> dict[str, bytes] | Refused:
    """What the reference model computes from `tosa` on the inputs of an official test.

    The bytes of each output file, or why there are none.
    """
    folder.mkdir(exist_ok=True)
    description = json.loads((test / "desc.json").read_text(encoding="utf-8"))
    done = _call(
        [
            official_suite.native("tosa_reference_model"),
            f"--test_desc={test / 'desc.json'}",
            f"--flatbuffer_dir={test}",
            f"--tosa_file={tosa}",
            f"--output_dir={folder}",
        ]
    )
    outputs = {}
    for name in description["ofm_file"]:
        if (folder / name).exists():
            outputs[name] = (folder / name).read_bytes()
            (folder / name).unlink()
    if done.returncode:
        return _refused(done)
    if len(outputs) != len(description["ofm_file"]):
        return Refused(f"{len(outputs)} of {len(description['ofm_file'])} outputs")
    return outputs


# -- what two files' JSON may differ in ------------------------------------------------------------

#: Producer stamps and text of locations.
_STAMPS = {"location", "software_version", "min_reader_version"}


def simplified(found: Json) -> Json:
    """The JSON without producer stamps, locations, and fields that are empty."""
    if isinstance(found, dict):
        kept = {key: simplified(value) for key, value in found.items() if key not in _STAMPS}
        return {key: value for key, value in kept.items() if value not in ([], "", {}, None)}
    if isinstance(found, list) and found and isinstance(found[0], (dict, list)):
        return [simplified(value) for value in found]
    return found


def tensors_of(found: Json) -> Iterable[Json]:
    """Every TosaTensor of the JSON of a file."""
    for region in found.get("regions", ()):
        for block in region.get("blocks", ()):
            yield from block.get("tensors", ())


def operators_of(found: Json) -> set[str]:
    """Names of the operators in the JSON of a file, by their attributes' tables.

    The attribute's type and not the operator's code, which is IDENTITY for two more of them.
    """
    names = _operator_by_table()
    return {
        names[operator["attribute_type"]]
        for region in found.get("regions", ())
        for block in region.get("blocks", ())
        for operator in block.get("operators", ())
    }


@functools.cache
def _operator_by_table() -> dict[str, str]:
    """Attribute table -> operator: the union's members stand in the operators' order."""
    text = official_suite.schema().read_text(encoding="utf-8")
    found = re.search(r"^union\s+Attribute\b[^{]*\{([^}]*)\}", text, re.MULTILINE)
    tables = re.findall(r"^\s*(\w+)", found[1] if found else "", re.MULTILINE)
    return dict(zip(tables, official_suite.operators(), strict=True))


def first_difference(left: Json, right: Json, path: str = "") -> str:
    """Where two JSON values first differ, or "" if they are equal."""
    if left == right and type(left) is type(right):
        return ""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in (*left, *(key for key in right if key not in left)):
            found = first_difference(left.get(key), right.get(key), f"{path}.{key}")
            if found:
                return found
    if isinstance(left, list) and isinstance(right, list):
        for index, (one, other) in enumerate(zip(left, right, strict=False)):
            found = first_difference(one, other, f"{path}[{index}]")
            if found:
                return found
        return f"{path}: {len(left)} values != {len(right)} values"
    return f"{path}: {left!r:.80} != {right!r:.80}"


# -- what tosa-opt is known to write wrongly -------------------------------------------------------

_BITS = {"FP6E2M3": 6, "FP6E3M2": 6, "FP4E2M1": 4}
_BYTES = {"FP8E4M3", "FP8E5M2"}
_NAN_KINDS = {"FP16": ("<u2", 0x7C00), "BF16": ("<u2", 0x7F80), "FP8E5M2": ("u1", 0x7C)}


def mend_block_scaled(found: Json) -> int:
    """Put block-scaled constants that tosa-opt wrote into the format's form; how many there were.

    It writes 8 bytes for each FP8 element and one for each element below 8 bits; the format, its own
    reader and the reference model have one byte, and packed bits.
    """
    mended = 0
    for tensor in tensors_of(found):
        data = tensor.get("data")
        if "block_shape" not in tensor or not data:
            continue
        kind, count = tensor["type"], int(np.prod(tensor["shape"]))
        raw = np.array(data, np.uint8)
        if kind in _BYTES and len(raw) == 8 * count and not raw.reshape(-1, 8)[:, 1:].any():
            tensor["data"] = raw[::8].tolist()
            mended += 1
        elif kind in _BITS and len(raw) == count and not (raw >> _BITS[kind]).any():
            tensor["data"] = _packed(raw, _BITS[kind]).tolist()
            mended += 1
    return mended


def _packed(elements: npt.NDArray[np.uint8], width: int) -> npt.NDArray[np.uint8]:
    """One element a byte -> a stream of `width` bits each, the lowest first."""
    bits = np.unpackbits(elements[:, None], axis=1, bitorder="little")[:, :width]
    return np.packbits(bits.reshape(-1), bitorder="little")


def same_nans(found: Json) -> None:
    """Make all NaNs of a type one where tosa-opt does not keep which NaN it was."""
    for tensor in tensors_of(found):
        data = tensor.get("data")
        if not data or tensor["type"] not in _NAN_KINDS:
            continue
        kind, infinity = _NAN_KINDS[tensor["type"]]
        width = np.dtype(kind).itemsize
        whole = np.array(data[: len(data) // width * width], np.uint8).view(kind)
        magnitude = whole & np.array(int(np.iinfo(kind).max) >> 1, kind)
        if (magnitude > infinity).any():
            whole[magnitude > infinity] = infinity + 1
            tensor["data"] = whole.view(np.uint8).tolist()
