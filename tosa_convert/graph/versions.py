"""The TOSA version that a graph needs, from its operators, types and their combinations.

Sources: the release of the schema that first had them, and the availability checks of MLIR's dialect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import Final

from tosa_convert.errors import Finding
from tosa_convert.graph.dtypes import BLOCK_SCALED, BY_CODE, TOOLS_STATE, V1_1, DType
from tosa_convert.graph.model import (
    DYNAMIC,
    Block,
    Graph,
    Operator,
    SoftwareVersion,
    Version,
    located,
    operator_path,
)
from tosa_convert.version import DRAFT, draft_name

V1_0: Final = Version(1, 0)
V1_1_DRAFT: Final = Version(1, 1, 0, draft=True)

#: The months of drafts of TOSA 1.1 that can be asked for: that of the newest tosa-tools, and the newest
#: that is known here. Files do not say which one they are for.
DRAFTS: Final = (TOOLS_STATE, DRAFT)
#: Version as users request it -> version that is written.
BY_NAME: Final = {
    "1.0": V1_0,
    "1.1": V1_1_DRAFT,
    **{f"1.1-{month}": V1_1_DRAFT for month in DRAFTS},
}
#: Operator that had elements of block-scaled types in plain tensors -> the draft that took them out.
PLAIN_BLOCKS: Final = {"CONST": "2026-09", "DIM": "2026-09"}
#: Operator whose batches may have any dimensions, and are broadcast -> the draft that added that.
_BATCHES: Final = {"MATMUL": "2026-09", "MATMUL_T": "2026-09"}

#: Versions that are read, of any patch. A final 1.1 is not: it can differ from the draft.
READABLE: Final = (V1_0, Version(1, 0, 0, draft=True), V1_1_DRAFT)

_FULL_VERSION: Final = r"(\d{1,4})\.(\d{1,4})\.(\d{1,9})( draft)?"

#: The first release of the schema that has everything of TOSA 1.1.
MIN_READER: Final = SoftwareVersion(2026, 8, 0)

#: Bit 1 of the compatibility features: the file holds block-scaled (MX) tensors.
MXFP_FEATURE: Final = 1 << 1
#: All compatibility features that are supported.
_FEATURES: Final = 0b11

INCOMPATIBLE_HINT: Final = "update tosa-convert, or write the file with an older tool"

#: Names of element types.
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
#: Operator -> the number of operands that matter, and the combinations of types that need 1.1: those
#: of the operands, of the first result, and of the accumulator if there is one. Where 1.1 mixes
#: floating-point types, these are all combinations that 1.0 does not have; 1.1 lacks some of them, too.
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
    """Return the name that users request the version by; the full version if it has none."""
    return next((name for name, known in BY_NAME.items() if known == version), str(version))


def parse_version(text: str) -> Version | None:
    """Return the version of a text that `version_name` made, or None if it cannot be read."""
    if text in BY_NAME:
        return BY_NAME[text]
    match = re.fullmatch(_FULL_VERSION, text)
    if match is None:
        return None
    version = Version(int(match[1]), int(match[2]), int(match[3]), bool(match[4]))
    return version if version._replace(patch=0) in READABLE else None


def newer_than(block: Block, op: Operator, state: str) -> tuple[str, str]:
    """Return what a state lacks of an operator, and the state that added it; both may be ""."""
    since = _BATCHES.get(op.spec.name, "")
    lacks = op.spec.newer_than(state, len(op.inputs))
    if since <= state or any(lacks):
        return lacks
    form = _form_of_batches(block, op)
    return (f"{op.spec.name} of {form}", since) if form else ("", "")


def _form_of_batches(block: Block, op: Operator) -> str:
    """Return in what a product of matrices is not one of the first form, [N, ...] and [N, ...]."""
    tensors = [block.tensors.get(name) for name in op.inputs[:2]]
    shapes = [tensor.shape for tensor in tensors if tensor is not None and tensor.shape is not None]
    rank = next((len(shape) for shape in shapes if len(shape) != 3), 3)
    if rank != 3:
        return f"{rank} dimensions"
    batches = [shape[0] for shape in shapes]
    if len(batches) < 2 or batches[0] == batches[1] or DYNAMIC in batches:
        return ""
    is_shared = op.spec.name == "MATMUL_T" and batches[1] == 1
    return "" if is_shared else "broadcast batches"


def draft_findings(graph: Graph, month: str) -> Iterator[Finding]:
    """Report a finding for each operator that a draft of TOSA 1.1 does not have, or has no more."""
    for where, block in graph.blocks():
        for index, op in enumerate(block.operators):
            spec, message, hint = op.spec, "", ""
            if spec.removed and spec.removed <= month:
                message = f"{spec.name} is not in TOSA 1.1 since {draft_name(spec.removed)}"
                hint = f"{spec.replaced_by} replaces it"
            elif any(newer := newer_than(block, op, month)):
                message = f"{newer[0]} is in TOSA 1.1 since {draft_name(newer[1])}"
                hint = f"pass --tosa-version 1.1-{newer[1]}" if newer[1] in DRAFTS else ""
            elif PLAIN_BLOCKS.get(spec.name, "x") <= month:
                names = op.outputs if spec.name == "CONST" else op.inputs
                tensor = block.tensors.get(names[0]) if names else None
                if tensor and tensor.scale is None and tensor.dtype in BLOCK_SCALED[2:]:
                    since = draft_name(PLAIN_BLOCKS[spec.name])
                    message = (
                        f"{spec.name} of plain {tensor.dtype} is not in TOSA 1.1 since {since}"
                    )
                    hint = "a block-scaled tensor replaces it"
            if message:
                yield Finding(
                    "version-too-low", located(operator_path(where, index, op), op), message, hint
                )


def lowest_version(graph: Graph) -> Version:
    """Return the lowest version that has every operator, element type and combination of types.

    Example:
        >>> import tosa_convert as tc
        >>> print(lowest_version(tc.load("digits_cnn.tosa")))
        1.0.0
    """
    return V1_0 if next(version_findings(graph, V1_0), None) is None else V1_1_DRAFT


def version_findings(graph: Graph, version: Version) -> Iterator[Finding]:
    """Report a finding for each operator and tensor that the version does not have."""
    limit = (version.major, version.minor)
    for where, block in graph.blocks():
        if _is_within(block, limit):
            continue
        for index, operator in enumerate(block.operators):
            what, since = operator.spec.name, operator.spec.since
            if since <= limit < V1_1 and operator.spec.name in _NEW_IN_1_1:
                types = _types(block, operator)
                lacks, _ = newer_than(block, operator, TOOLS_STATE)
                if lacks:
                    what, since = lacks, V1_1
                elif types in _NEW_IN_1_1[operator.spec.name][1]:
                    what, since = f"{operator.spec.name} of {', '.join(types)}", V1_1
            if since > limit:
                path = located(operator_path(where, index, operator), operator)
                yield _too_low(path, what, since, version)
        for tensor in block.tensors.values():
            dtypes = [tensor.dtype] if tensor.scale is None else [tensor.dtype, tensor.scale.dtype]
            new = next((dtype for dtype in dtypes if dtype.since > limit), None)
            if new is not None:
                path = f'{where} tensor "{tensor.name}"'
                yield _too_low(path, new.name, new.since, version)


def _too_low(where: str, what: str, since: tuple[int, int], version: Version) -> Finding:
    message = f"{what} needs TOSA {since[0]}.{since[1]}; {version} does not have it"
    return Finding("version-too-low", where, message)


def _is_within(block: Block, limit: tuple[int, int]) -> bool:
    """Return whether the kinds of operators and types suffice to say that a version has a block."""
    # Fast path of version_findings; equal by test test_a_graph_within_a_version_has_no_findings
    specs = {operator.spec for operator in block.operators}
    with_new_types = _NEW_IN_1_1 if limit < V1_1 else ()
    if any(spec.since > limit or spec.name in with_new_types for spec in specs):
        return False
    codes = {tensor.dtype.code for tensor in block.tensors.values()}
    if any(BY_CODE[code].since > limit for code in codes):
        return False
    return {type(tensor.scale) for tensor in block.tensors.values()} <= {type(None)}


def _types(block: Block, operator: Operator) -> Types:
    """Return the types of an operator in the order of `_NEW_IN_1_1`."""
    names = (*operator.inputs[: _NEW_IN_1_1[operator.spec.name][0]], *operator.outputs[:1])
    types = [block.tensors[name].dtype.name for name in names if name in block.tensors]
    accumulator = operator.attributes.get("acc_type")
    return (*types, accumulator.name) if isinstance(accumulator, DType) else tuple(types)


def incompatibility(min_reader: SoftwareVersion | None, used_features: int) -> str:
    """Return the reason why a file must not be read, or ""."""
    if min_reader is not None:
        needed = (min_reader.major, min_reader.minor, min_reader.micro)
        if needed > (MIN_READER.major, MIN_READER.minor, MIN_READER.micro):
            return (
                f"the file needs a reader of schema {min_reader} or later, "
                f"this one supports {MIN_READER}"
            )
    if used_features & ~_FEATURES:
        return f"the file uses the unknown features 0x{used_features & ~_FEATURES:x}"
    return ""


def features(graph: Graph) -> int:
    """Return the compatibility features that a reader of this graph needs, as a bit set."""
    for _, block in graph.blocks():
        if any(tensor.scale is not None for tensor in block.tensors.values()):
            return MXFP_FEATURE
    return 0
