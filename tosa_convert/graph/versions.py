"""Which TOSA version a graph needs.

A version brings operators and element types (`since` in their rows). Sources: the schema releases
that first carried them, and the dialect's own availability checks (docs/formats.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tosa_convert.errors import Finding
from tosa_convert.graph.model import Graph, SoftwareVersion, Version, operator_path

V1_0: Final = Version(1, 0)
V1_1_DRAFT: Final = Version(1, 1, 0, draft=True)

#: What a user may ask for -> what is stamped.
BY_NAME: Final = {"1.0": V1_0, "1.1": V1_1_DRAFT}

#: Versions that are read. A final 1.1 may still change what the draft says, so it is not among them.
READABLE: Final = (V1_0, Version(1, 0, 0, draft=True), V1_1_DRAFT)

#: The first release of the schema that has everything of TOSA 1.1.
MIN_READER: Final = SoftwareVersion(2026, 8, 0)

#: Bit 1 of the compatibility features: the file holds block-scaled (MX) tensors.
MXFP_FEATURE: Final = 1 << 1


def lowest_version(graph: Graph) -> Version:
    """The lowest version that expresses every operator and tensor of the graph."""
    return V1_0 if next(beyond(graph, V1_0), None) is None else V1_1_DRAFT


def beyond(graph: Graph, version: Version) -> Iterator[Finding]:
    """A finding for each operator and tensor that `version` cannot express."""
    limit = (version.major, version.minor)
    hint = "ask for TOSA 1.1, or leave the version out"
    for where, block in graph.blocks():
        for index, operator in enumerate(block.operators):
            if operator.spec.since > limit:
                since = ".".join(map(str, operator.spec.since))
                yield Finding(
                    "version-too-low",
                    operator.location or operator_path(where, index, operator),
                    f"{operator.spec.name} came with TOSA {since}; {version} does not have it",
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


def features(graph: Graph) -> int:
    """The compatibility features a reader of this graph must have, as a bit set."""
    for _, block in graph.blocks():
        if any(tensor.scale is not None for tensor in block.tensors.values()):
            return MXFP_FEATURE
    return 0
