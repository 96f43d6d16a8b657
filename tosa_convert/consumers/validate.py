"""The public function `validate`: the rules of TOSA, and what readers of the file do not read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from tosa_convert.graph.model import require_graphs
from tosa_convert.rules.public import find_violations

if TYPE_CHECKING:
    from tosa_convert.errors import Finding
    from tosa_convert.graph.model import Graph
    from tosa_convert.rules.profiles import ProfileName


def validate(
    graph: Graph,
    *,
    profile: ProfileName | Iterable[ProfileName] | None = None,
    level: Literal["8k", "none"] | None = None,
    spec_version: Literal["1.0", "1.1", "1.1-2026-08", "1.1-2026-09"] | None = None,
    for_reader: str | Iterable[str] | None = None,
) -> list[Finding]:
    """Find everything that TOSA forbids in a program.

    `verify` answers whether a graph is sound, and `validate` also whether TOSA allows it: the types,
    shapes and attributes of each operator.

    Args:
        graph: any graph, however it was made. It is not changed.
        profile: the profiles and extensions of a target, such as ["PRO-INT", "EXT-INT16"], or one of
            them. What needs another one is a finding of code "outside-profile".
        level: "8k" or "none". If neither profile nor level is given, they are those of the target
            environment that an MLIR module carries, if it has one. A limit of the level that an
            operator exceeds is a finding of code "outside-level".
        spec_version: the TOSA version of the target, "1.0", "1.1", or the draft of 1.1 of a month, such
            as "1.1-2026-09"; by default that of the target environment. Operators, types and unknown
            sizes that it does not have are findings of code "version-too-low". Without either, the
            version that the file states is used for operators and types.
        for_reader: a program that is to read the file, such as "vela:ethos-u85" or
            "tosa-opt==2026.2", or a collection of them; names of `consumers.names.reader_named`.
            Without a release the newest known one counts. What one of them does not read is a finding
            of code "unsupported-by-reader".

    Returns:
        The findings, at most `errors.MAX_FINDINGS`; [] if TOSA allows the program. Those of `verify`
        come first. If there are any, TOSA's rules are applied to the operators that `verify` accepts, or
        to all if only sizes of tensors are wrong, and nothing is said about a target. Each finding of
        code "invalid-operator" has the name of its rule, such as "add-broadcast".

    Raises:
        TosaConvertError: "option-conflict" for a profile, extension, level or reader that
            does not exist.

    Example:
        >>> import tosa_convert as tc
        >>> graph = tc.load("digits_cnn.tosa")
        >>> tc.validate(graph)
        []
        >>> block = graph.main
        >>> block.tensors[block.outputs[0]].shape = (1, 11)
        >>> for finding in tc.validate(graph):
        ...     print(finding.rule, finding.message)
        add-output-shape output is FP32 [1, 11]; expected [1, 10]
    """
    require_graphs(graph)
    also: list[Iterable[Finding]] = []
    for name in [for_reader] if isinstance(for_reader, str) else for_reader or ():
        from tosa_convert.consumers.readers import reader_named
        from tosa_convert.consumers.unread import program_findings

        reader = reader_named(name, "for_reader")
        also.append(program_findings(graph, reader, mlir="tosa" not in reader.formats))
    return find_violations(
        graph, profile=profile, level=level, spec_version=spec_version, also=also
    )
