"""The public function of this package, and what the writers of programs call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, NamedTuple

from tosa_convert.errors import MAX_FINDINGS, Finding, TosaConvertError, refuse_unknown
from tosa_convert.graph.model import MAX_RANK, Block, operator_path, quoted, require_graphs
from tosa_convert.graph.verify import verify
from tosa_convert.rules.program import unused_values
from tosa_convert.rules.validate import Validator, finding
from tosa_convert.rules.verdict import Verdict, judge

if TYPE_CHECKING:
    from tosa_convert.graph.columns import BlockColumns
    from tosa_convert.graph.model import Graph, Version
    from tosa_convert.graph.target import Target
    from tosa_convert.rules.levels import Level
    from tosa_convert.rules.operator_view import OperatorView

#: The codes of findings about a target: TOSA allows the program.
TARGET_CODES: Final = frozenset(
    {"outside-profile", "outside-level", "version-too-low", "unsupported-by-reader"}
)

#: Codes of findings about the sizes of a tensor. Its operators are judged by these sizes all the same,
#: because a size below 0 often follows from an attribute that is wrong.
_OF_SIZES: Final = frozenset({"unsupported-shape", "malformed-tensor"})
_WRITE_IT: Final = "to write the program nevertheless, pass --no-validate (validate=False)"


def validate(
    graph: Graph,
    *,
    profile: str | Iterable[str] | None = None,
    level: str | None = None,
    spec_version: str | None = None,
    for_reader: str | Iterable[str] | None = None,
) -> list[Finding]:
    """Everything that TOSA forbids in a program.

    `verify` answers whether a graph is sound, and `validate` also whether TOSA allows it: the types,
    shapes and attributes of each operator.

    Args:
        graph: any graph, however it was made. It is not changed.
        profile: the profiles and extensions of a target, such as "PRO-INT,EXT-INT16": one text with
            commas, or a collection. What needs another one is a finding of code "outside-profile".
        level: "8k" or "none". If neither profile nor level is given, they are those of the target
            environment that an MLIR module carries, if it has one. A limit of the level that an
            operator exceeds is a finding of code "outside-level".
        spec_version: the TOSA version of the target, "1.0" or "1.1"; by default that of the target
            environment. Operators, types and unknown sizes that it does not have are findings of code
            "version-too-low". Without either, the version that the file states is used for operators
            and types.
        for_reader: a program that is to read the file, such as "vela:ethos-u85" or
            "tosa-opt==2026.2", or a collection of them; names that `file_consumers.reader_named` knows.
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
    wrong: list[Finding] = []
    version = _version(graph, spec_version)
    if profile is None and level is None and graph.target is not None:
        profile, level, wrong = _own_target(graph.target, version or graph.version)
    limits = None if level is None else _level(level)
    targets = [wrong, *_targets(graph, profile, version, for_reader)]
    unsound = verify(graph)
    if unsound and _only_sizes(graph, unsound):
        found = chain(unsound, Validator(graph).findings())
    elif unsound:
        found = chain(unsound, _sound_findings(graph, unsound))
    else:
        rules = Validator(graph).findings() if limits is None else _level_findings(graph, limits)
        found = chain(unused_values(graph), rules, *targets)
    return list(islice(found, MAX_FINDINGS))


def refuse_invalid(graph: Graph, columns: Mapping[str, BlockColumns] | None = None) -> None:
    """Raise TosaConvertError with what TOSA forbids in a graph that `verify` accepts.

    columns: those that `refuse_unsound` returned.
    """
    findings = list(islice(Validator(graph, columns=columns).findings(), MAX_FINDINGS))
    if findings:
        raise TosaConvertError(
            replace(finding, hint="; ".join(filter(None, (finding.hint, _WRITE_IT))))
            for finding in findings
        )


class Needs(NamedTuple):
    """The least target that has a program.

    version: a TOSA version such as "1.0". profiles, extensions: such as "PRO-INT" and "EXT-INT16".
    level: "8k" or "none"; None if the program exceeds both.
    """

    version: str
    profiles: tuple[str, ...]
    extensions: tuple[str, ...]
    level: str | None


def needs(graph: Graph) -> Needs | None:
    """The least target that has a program, or None if no target has it.

    Args:
        graph: a program of which `validate` reports nothing.

    Example:
        >>> import tosa_convert as tc
        >>> needs(tc.load("digits_cnn.tosa"))
        Needs(version='1.0', profiles=('PRO-FP',), extensions=(), level='8k')
    """
    from tosa_convert.graph.versions import lowest_version, version_name
    from tosa_convert.rules.levels import LEVELS
    from tosa_convert.rules.profiles import EXTENSIONS, PROFILES, least, requirements

    names = least(requirements(graph))
    if names is None:
        return None
    return Needs(
        version_name(lowest_version(graph)),
        tuple(row.name for row in PROFILES if row.name in names),
        tuple(row.name for row in EXTENSIONS if row.name in names),
        next((row.mlir for row in LEVELS.values() if not any(_level_findings(graph, row))), None),
    )


def _version(graph: Graph, name: str | None) -> Version | None:
    """Return the version of the requested target, else of that which the program carries, or None."""
    from tosa_convert.graph.versions import BY_NAME

    if name is None:
        return None if graph.target is None else graph.version
    refuse_unknown("spec_version", name, BY_NAME)
    return BY_NAME[name]


def _own_target(
    target: Target, version: Version
) -> tuple[tuple[str, ...] | None, str | None, list[Finding]]:
    """Profile and level of the target that a program carries, or else what is wrong with it."""
    from tosa_convert.rules.target import check

    wrong = list(check(target, (version.major, version.minor)))
    if wrong:
        return None, None, wrong
    names = (*target.profiles, *target.extensions)
    # MLIR's default has no names: nothing is said about profiles.
    return names or None, target.level, []


def _level(name: str) -> Level:
    from tosa_convert.rules.levels import LEVELS

    refuse_unknown("level", name.lower(), [level.mlir for level in LEVELS.values()])
    return LEVELS[name.upper()]


def _level_findings(graph: Graph, level: Level) -> Iterator[Finding]:
    """The findings of a sound graph, those of a level included."""
    from tosa_convert.rules.levels import input_findings, nesting_violations, violations

    def judge_for_level(view: OperatorView) -> Verdict:
        verdict = judge(view)
        if verdict.violations:
            return verdict
        return Verdict(tuple(violations(view, level)), verdict.results)

    yield from Validator(graph, judge_for_level).findings()
    yield from input_findings(graph, level)
    for row in nesting_violations(graph, level):
        yield finding(row.operator, row.where, row.violation)


def _targets(
    graph: Graph,
    profile: str | Iterable[str] | None,
    version: Version | None,
    for_reader: str | Iterable[str] | None,
) -> list[Iterator[Finding]]:
    """What does not fit the requested targets. Targets that do not exist are refused at once."""
    from tosa_convert.graph.versions import V1_1_DRAFT, version_findings

    targets = [version_findings(graph, version or graph.version)]
    if version is not None:
        from tosa_convert.rules.open_sizes import version_findings as unknown_sizes

        targets.append(unknown_sizes(graph, version))
    if profile is not None:
        from tosa_convert.rules.profiles import misfits, parse

        names = parse(profile if isinstance(profile, str) else ",".join(profile))
        limit = version or V1_1_DRAFT
        targets.append(
            Finding("outside-profile", row.where, row.message, row.hint)
            for row in misfits(graph, names, (limit.major, limit.minor))
        )
    for name in [for_reader] if isinstance(for_reader, str) else for_reader or ():
        from tosa_convert.consumers.readers import reader_named
        from tosa_convert.consumers.unread import program_findings

        reader = reader_named(name, "for_reader")
        targets.append(program_findings(graph, reader, mlir="tosa" not in reader.formats))
    return targets


def _only_sizes(graph: Graph, unsound: Sequence[Finding]) -> bool:
    """Whether all that `verify` reports is about sizes, so that every operator can be judged."""
    return (
        len(unsound) < MAX_FINDINGS
        and all(finding.code in _OF_SIZES for finding in unsound)
        and all(
            len(tensor.shape or ()) <= MAX_RANK
            for _, block in graph.blocks()
            for tensor in block.tensors.values()
        )
    )


def _sound_findings(graph: Graph, unsound: Sequence[Finding]) -> Iterator[Finding]:
    """The findings of the operators of which `verify` reports nothing, nor of their operands."""
    validator = Validator(replace(graph, regions=[]))
    places = {finding.where for finding in unsound}
    for where, block in graph.blocks():
        sound = Block(block.name, [], [], [])
        for name, tensor in block.tensors.items():
            if name not in block.shapes and f"{where} tensor {quoted(name)}" not in places:
                sound.tensors[name] = tensor
        for name, shape in block.shapes.items():
            if name not in block.tensors and f"{where} shape {quoted(name)}" not in places:
                sound.shapes[name] = shape
        values = sound.tensors.keys() | sound.shapes.keys()
        positions = [
            position
            for position, operator in enumerate(block.operators)
            if values.issuperset((*operator.inputs, *operator.outputs))
            # What an operator runs may be unsound.
            and not operator.spec.regions
            and operator_path(where, position, operator) not in places
        ]
        sound.operators += [block.operators[position] for position in positions]
        yield from validator.block(where, sound, positions)
