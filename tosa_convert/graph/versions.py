"""Which TOSA version a graph needs.

A version brings operators and element types (`since` in their rows), and for some operators
combinations of types. Sources: the schema releases that first carried them, and the dialect's own
availability checks (docs/formats.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Final

from tosa_convert.errors import Finding
from tosa_convert.graph.dtypes import BY_CODE, V1_1, DType
from tosa_convert.graph.model import Block, Graph, Operator, SoftwareVersion, Version, operator_path

V1_0: Final = Version(1, 0)
V1_1_DRAFT: Final = Version(1, 1, 0, draft=True)

#: What a user may ask for -> what is stamped.
BY_NAME: Final = {"1.0": V1_0, "1.1": V1_1_DRAFT}

#: Versions that are read. A final 1.1 may still change what the draft says, so it is not among them.
READABLE: Final = (V1_0, Version(1, 0, 0, draft=True), V1_1_DRAFT)

_SPELLED: Final = re.compile(r"(\d{1,4})\.(\d{1,4})\.(\d{1,9})( draft)?")

#: The first release of the schema that has everything of TOSA 1.1.
MIN_READER: Final = SoftwareVersion(2026, 8, 0)

#: Bit 1 of the compatibility features: the file holds block-scaled (MX) tensors.
MXFP_FEATURE: Final = 1 << 1
#: Every bit of those features that we know.
_FEATURES: Final = 0b11

INCOMPATIBLE_HINT: Final = "update tosa-convert, or write the file with an older tool"

Types = tuple[str, ...]


def _rows(*rows: str) -> frozenset[Types]:
    return frozenset(tuple(row.split()) for row in rows)


_FP8: Final = ("FP8E4M3", "FP8E5M2")
_FLOATS: Final = ("FP32", "FP16", "BF16", *_FP8)
_CONV: Final = frozenset(product(_FLOATS, _FLOATS, _FLOATS, ("FP32", "FP16", "BF16"))) - _rows(
    "FP32 FP32 FP32 FP32",
    "FP16 FP16 FP16 FP32",
    "FP16 FP16 FP16 FP16",
    "BF16 BF16 BF16 FP32",
    "FP8E4M3 FP8E4M3 FP16 FP16",
    "FP8E5M2 FP8E5M2 FP16 FP16",
)
#: Operator -> how many operands count, and combinations of types that 1.0 does not have: those of the
#: operands, of the first result, and of the accumulator if there is one. Where 1.1 mixes floating
#: point types, these are all that 1.0 does not mix; some of them 1.1 does not have either.
_NEW_IN_1_1: Final[dict[str, tuple[int, frozenset[Types]]]] = {
    "CONV2D": (2, _CONV),
    "CONV3D": (2, _CONV),
    "DEPTHWISE_CONV2D": (2, _CONV),
    "TRANSPOSE_CONV2D": (2, _CONV),
    "MATMUL": (
        2,
        frozenset(product(_FLOATS, _FLOATS, _FLOATS))
        - _rows(
            "FP32 FP32 FP32",
            "FP16 FP16 FP16",
            "FP16 FP16 FP32",
            "BF16 BF16 FP32",
            "FP8E4M3 FP8E4M3 FP16",
            "FP8E5M2 FP8E5M2 FP16",
        ),
    ),
    "CAST": (
        1,
        frozenset([*product(("BOOL",), _FLOATS), *product(_FLOATS, ("BOOL",))]),
    ),
    "GATHER": (1, _rows("BOOL BOOL")),
    "SCATTER": (1, _rows("BOOL BOOL")),
    "RESIZE": (1, frozenset((kind, kind) for kind in _FP8)),
}


def version_name(version: Version) -> str:
    """The version as a user asks for it, or in full."""
    return next((name for name, known in BY_NAME.items() if known == version), str(version))


def parse_version(text: str) -> Version | None:
    """The version that `version_name` gives as this text, or None if it is none that we read."""
    if text in BY_NAME:
        return BY_NAME[text]
    found = _SPELLED.fullmatch(text)
    if found is None:
        return None
    version = Version(int(found[1]), int(found[2]), int(found[3]), bool(found[4]))
    return version if replace(version, patch=0) in READABLE else None


def lowest_version(graph: Graph) -> Version:
    """The lowest version that expresses every operator and tensor of the graph."""
    return V1_0 if next(version_findings(graph, V1_0), None) is None else V1_1_DRAFT


def version_findings(graph: Graph, version: Version) -> Iterator[Finding]:
    """A finding for each operator and tensor that `version` cannot express."""
    limit = (version.major, version.minor)
    hint = "ask for TOSA 1.1, or leave the version out"
    for where, block in graph.blocks():
        if _within(block, limit):
            continue
        for index, operator in enumerate(block.operators):
            if operator.spec.since > limit:
                since = ".".join(map(str, operator.spec.since))
                yield Finding(
                    "version-too-low",
                    operator.location or operator_path(where, index, operator),
                    f"{operator.spec.name} came with TOSA {since}; {version} does not have it",
                    hint,
                )
            elif limit < V1_1 and operator.spec.name in _NEW_IN_1_1:
                types = _types(block, operator)
                if types in _NEW_IN_1_1[operator.spec.name][1]:
                    yield Finding(
                        "version-too-low",
                        operator.location or operator_path(where, index, operator),
                        f"{operator.spec.name} of {', '.join(types)} came with TOSA 1.1; "
                        f"{version} does not have it",
                        hint,
                    )
        for tensor in block.tensors.values():
            dtypes = [tensor.dtype] if tensor.scale is None else [tensor.dtype, tensor.scale.dtype]
            for dtype in dtypes:
                if dtype.since > limit:
                    since = ".".join(map(str, dtype.since))
                    yield Finding(
                        "version-too-low",
                        f'{where} tensor "{tensor.name}"',
                        f"{dtype} came with TOSA {since}; {version} does not have it",
                        hint,
                    )
                    break


def _within(block: Block, limit: tuple[int, int]) -> bool:
    """Whether kinds of operators and tensors tell by themselves that a version has all of them."""
    specs = {operator.spec for operator in block.operators}
    watched = _NEW_IN_1_1 if limit < V1_1 else ()
    if any(spec.since > limit or spec.name in watched for spec in specs):
        return False
    codes = {tensor.dtype.code for tensor in block.tensors.values()}
    if any(BY_CODE[code].since > limit for code in codes):
        return False
    return all(tensor.scale is None for tensor in block.tensors.values())


def _types(block: Block, operator: Operator) -> Types:
    """The types of an operator that make a combination of `_NEW_IN_1_1`."""
    names = (*operator.inputs[: _NEW_IN_1_1[operator.spec.name][0]], *operator.outputs[:1])
    found = [block.tensors[name].dtype.name for name in names if name in block.tensors]
    accumulator = operator.attributes.get("acc_type")
    return (*found, accumulator.name) if isinstance(accumulator, DType) else tuple(found)


def incompatibility(reader: SoftwareVersion | None, used: int) -> str:
    """Why a file that wants such a reader, with such features, must not be read; or ""."""
    if reader is not None:
        wanted = (reader.major, reader.minor, reader.micro)
        if wanted > (MIN_READER.major, MIN_READER.minor, MIN_READER.micro):
            return f"the file is for readers of schema {reader} or later, ours is {MIN_READER}"
    if used & ~_FEATURES:
        return f"the file uses features 0x{used & ~_FEATURES:x}, which we do not know"
    return ""


def features(graph: Graph) -> int:
    """The compatibility features a reader of this graph must have, as a bit set."""
    for _, block in graph.blocks():
        if any(tensor.scale is not None for tensor in block.tensors.values()):
            return MXFP_FEATURE
    return 0
