"""The public function of this package, and what the writers of programs call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, NamedTuple

from tosa_convert.errors import MAX_FINDINGS, Finding, TosaConvertError, refuse_unknown
from tosa_convert.graph.model import MAX_RANK, Block, operator_path, quoted, require_graphs
from tosa_convert.graph.verify import verify
from tosa_convert.rules.validate import Validator, Verdict, finding, judge, unused_values

if TYPE_CHECKING:
    from tosa_convert.graph.columns import BlockColumns
    from tosa_convert.graph.model import Graph, Target, Version
    from tosa_convert.rules.operator_view import OperatorView
    from tosa_convert.rules.profiles import Level

#: The codes of findings about a target: TOSA allows the program.
TARGET_CODES: Final = frozenset(
    {"outside-profile", "outside-level", "version-too-low", "unsupported-by-reader"}
)

#: Codes of findings about the sizes of a tensor. Its operators are judged by these sizes all the same,
#: because a size below 0 often follows from an attribute that is wrong.
_OF_SIZES: Final = frozenset({"unsupported-shape", "malformed-tensor"})
_WRITE_IT: Final = "to write the program nevertheless, pass --no-validate (validate=False)"


def find_violations(
    graph: Graph,
    *,
    profile: str | Iterable[str] | None = None,
    level: str | None = None,
    spec_version: str | None = None,
    also: Iterable[Iterable[Finding]] = (),
) -> list[Finding]:
    """Find what TOSA forbids, as `validate` does. also: further findings of a sound program."""
    require_graphs(graph)
    wrong: list[Finding] = []
    version = _version(graph, spec_version)
    if profile is None and level is None and graph.target is not None:
        profile, level, wrong = _own_target(graph.target, version or graph.version)
    limits = None if level is None else _level(level)
    targets = [wrong, *_targets(graph, profile, version), *also]
    if month := (spec_version or "").partition("-")[2]:
        from tosa_convert.graph.versions import draft_findings

        targets.append(draft_findings(graph, month))
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
    """Raise what TOSA forbids in a sound graph. columns: those that `refuse_unsound` returned."""
    findings = list(islice(Validator(graph, columns=columns).findings(), MAX_FINDINGS))
    if findings:
        raise TosaConvertError(
            replace(finding, hint="; ".join(filter(None, (finding.hint, _WRITE_IT))))
            for finding in findings
        )


class Needs(NamedTuple):
    """The least target that has a program.

    version: a TOSA version such as "1.0"; unknown sizes need 1.1. profiles, extensions: such as
        "PRO-INT" and "EXT-INT16".
    level: "8k" or "none"; None if the program exceeds both.
    """

    version: str
    profiles: tuple[str, ...]
    extensions: tuple[str, ...]
    level: str | None


def needs(graph: Graph) -> Needs:
    """Return the least target that has a program."""
    from tosa_convert.graph.static_shapes import has_open_sizes
    from tosa_convert.graph.versions import V1_1_DRAFT, lowest_version, version_name
    from tosa_convert.rules.profiles import EXTENSIONS, LEVELS, PROFILES, least, requirements

    names = least(requirements(graph))
    assert names is not None, "the latest version has all types, with both profiles"
    return Needs(
        version_name(V1_1_DRAFT if has_open_sizes(graph) else lowest_version(graph)),
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
    """Return profile and level of the target that a program carries, or else what is wrong with it."""
    from tosa_convert.rules.profiles import check_target

    wrong = list(check_target(target, (version.major, version.minor)))
    if wrong:
        return None, None, wrong
    names = (*target.profiles, *target.extensions)
    # MLIR's default has no names: nothing is said about profiles.
    return names or None, target.level, []


def _level(name: str) -> Level:
    from tosa_convert.rules.profiles import LEVELS

    refuse_unknown("level", name.lower(), [level.mlir for level in LEVELS.values()])
    return LEVELS[name.upper()]


def _level_findings(graph: Graph, level: Level) -> Iterator[Finding]:
    from tosa_convert.rules.profiles import input_findings, nesting_violations, violations

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
    graph: Graph, profile: str | Iterable[str] | None, version: Version | None
) -> list[Iterator[Finding]]:
    """Find what does not fit the requested targets. Refuse targets that do not exist at once."""
    from tosa_convert.graph.versions import V1_1_DRAFT, version_findings

    targets = [version_findings(graph, version or graph.version)]
    if version is not None:
        from tosa_convert.rules.infer import version_findings as unknown_sizes

        targets.append(unknown_sizes(graph, version))
    if profile is not None:
        from tosa_convert.rules.profiles import misfits, parse

        names = parse(profile if isinstance(profile, str) else ",".join(profile))
        limit = version or V1_1_DRAFT
        targets.append(
            Finding("outside-profile", row.where, row.message, row.hint)
            for row in misfits(graph, names, (limit.major, limit.minor))
        )
    return targets


def _only_sizes(graph: Graph, unsound: Sequence[Finding]) -> bool:
    """Return whether all that `verify` reports is about sizes, so that every operator can be judged."""
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
    """Report findings of the operators of which `verify` reports nothing, nor of their operands."""
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
