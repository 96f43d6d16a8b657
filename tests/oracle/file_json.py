"""The JSON that `flatc` makes of two files, and what may differ in it.

These never count: producer stamps, the text of locations, and fields that are empty or absent. Where
`tosa-opt` writes something wrong, or in no order, a rule of CORRECTIONS changes its JSON to what ours
must be, and only where it is exactly what that defect produces.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from oracle import official_suite

Json = Any

#: Producer stamps and text of locations.
_STAMPS = {"location", "software_version", "min_reader_version"}


def simplified(found: Json) -> Json:
    """Return the JSON without producer stamps, locations, and fields that are empty."""
    if isinstance(found, dict):
        kept = {key: simplified(value) for key, value in found.items() if key not in _STAMPS}
        return {key: value for key, value in kept.items() if value not in ([], "", {}, None)}
    if isinstance(found, list) and found and isinstance(found[0], (dict, list)):
        return [simplified(value) for value in found]
    return found


def tensors_of(found: Json) -> Iterator[Json]:
    """Iterate over every TosaTensor of the JSON of a file."""
    for region in found.get("regions", ()):
        for block in region.get("blocks", ()):
            yield from block.get("tensors", ())


def operators_of(found: Json) -> set[str]:
    """Return names of the operators in the JSON of a file, by their attributes' tables.

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
    """Attribute table -> operator: the union's members are in the operators' order."""
    text = official_suite.schema().read_text(encoding="utf-8")
    found = re.search(r"^union\s+Attribute\b[^{]*\{([^}]*)\}", text, re.MULTILINE)
    tables = re.findall(r"^\s*(\w+)", found[1] if found else "", re.MULTILINE)
    return dict(zip(tables, official_suite.operators(), strict=True))


def first_difference(left: Json, right: Json, path: str = "") -> str:
    """Return the first difference of two JSON values, or "" if they are equal."""
    if left == right:
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


# -- corrections of tosa-opt's output -------------------------------------------------------------

_BITS: Final = {"FP6E2M3": 6, "FP6E3M2": 6, "FP4E2M1": 4}
_BYTES: Final = {"FP8E4M3", "FP8E5M2"}


def _block_scaled(theirs: Json, ours: Json) -> bool:
    """It writes 8 bytes for each FP8 element and one for each element below 8 bits.

    The format, its own reader and the reference model have one byte, and packed bits.
    """
    corrected = False
    for tensor in tensors_of(theirs):
        data = tensor.get("data")
        if "block_shape" not in tensor or not data:
            continue
        kind, count = tensor["type"], int(np.prod(tensor["shape"]))
        raw = np.array(data, np.uint8)
        if kind in _BYTES and len(raw) == 8 * count and not raw.reshape(-1, 8)[:, 1:].any():
            tensor["data"] = raw[::8].tolist()
            corrected = True
        elif kind in _BITS and len(raw) == count and not (raw >> _BITS[kind]).any():
            tensor["data"] = _packed(raw, _BITS[kind]).tolist()
            corrected = True
    return corrected


def _packed(elements: npt.NDArray[np.uint8], width: int) -> npt.NDArray[np.uint8]:
    """One element a byte -> a stream of `width` bits each, the lowest first."""
    bits = np.unpackbits(elements[:, None], axis=1, bitorder="little")[:, :width]
    return np.packbits(bits.reshape(-1), bitorder="little")


#: Type -> its words, infinity, and the only NaN there is once tosa-opt has written a constant.
_NANS: Final = {
    "FP16": ("<u2", 0x7C00, 0x7E00),
    "BF16": ("<u2", 0x7F80, 0x7FC0),
    "FP8E5M2": ("u1", 0x7C, 0x7E),
}


def _nans(theirs: Json, ours: Json) -> bool:
    """It does not preserve the payload of NaNs of these types."""
    corrected = False
    for tensor, other in zip(tensors_of(theirs), tensors_of(ours), strict=False):
        data, kept = tensor.get("data"), other.get("data")
        if not data or tensor["type"] not in _NANS or len(data) != len(kept or ()) or data == kept:
            continue
        words, infinity, quiet = _NANS[tensor["type"]]
        left = np.array(data, np.uint8).view(words)
        right = np.array(kept, np.uint8).view(words)
        magnitude = int(np.iinfo(words).max) >> 1
        lost = (left & magnitude == quiet) & (right & magnitude > infinity) & (left != right)
        if lost.any():
            tensor["data"] = np.where(lost, right, left).astype(words).view(np.uint8).tolist()
            corrected = True
    return corrected


def _region_names(theirs: Json, ours: Json) -> bool:
    """It gives the regions of two operators on one line the same name; readers take the first."""
    given = [region["name"] for region in theirs["regions"]]
    unique = [region["name"] for region in ours["regions"]]
    if len(set(given)) == len(given) or len(set(unique)) != len(given):
        return False
    number = {name: re.sub(r"_\d+$", "", name) for name in unique}
    if any(name not in (one, number[one]) for name, one in zip(given, unique, strict=True)):
        return False
    for region, name in zip(ours["regions"], given, strict=True):
        for block in region["blocks"]:
            block["name"] = block["name"].replace(region["name"], name)
            for operator in block.get("operators", ()):
                attribute = operator.get("attribute", {})
                for key, value in attribute.items():
                    if key.endswith("_graph"):
                        attribute[key] = number[value] if value not in given else value
        region["name"] = name
    return True


#: The hash table of tosa-opt preserves the order of up to this many variables.
MANY_VARIABLES: Final = 8


def _variable_order(theirs: Json, ours: Json) -> bool:
    """It stores variables in a hash table, so more than a few of them are in its order."""
    many = False
    for found in (theirs, ours):
        for region in found["regions"]:
            for block in region["blocks"]:
                variables = [one for one in block.get("tensors", ()) if one.get("variable")]
                if (
                    len(variables) > MANY_VARIABLES
                    and block["tensors"][: len(variables)] == variables
                ):
                    block["tensors"][: len(variables)] = sorted(
                        variables, key=lambda one: one["name"]
                    )
                    many = True
    return many


#: Defect of tosa-opt -> the rule that corrects it. A rule returns whether it was needed.
CORRECTIONS: Final[dict[str, Callable[[Json, Json], bool]]] = {
    "it writes block-scaled constants unpacked": _block_scaled,
    "it does not keep the payload of NaNs": _nans,
    "it gives two regions one name": _region_names,
    "it has no order for many variables": _variable_order,
}
