"""Compare our tables with a `tosa.xml` of the TOSA specification, and name every difference.

    python schema/compare_specification.py PATH [MONTH]

MONTH is that of the draft which the file is, such as 2026-08: without it, the newest one that is known
here. What a draft changed, and what that changed here, is in schema/merges.md.

The file is read and never copied: it has a licence of its own, and must be one that the user has. Exit
code 1 if something differs, or if the file has an element or attribute that is not understood.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element as Xml

from tosa_convert.graph.dtypes import BLOCK_SCALED, DTYPES
from tosa_convert.graph.opset import OPERATORS, VARIABLE, OperatorSpec
from tosa_convert.graph.versions import BY_NAME, DRAFTS, PLAIN_BLOCKS
from tosa_convert.rules.profiles import CAPABILITIES, EXTENSIONS, LEVELS, PROFILES
from tosa_convert.rules.types import EXTENSIONS_OF_TYPES, forms, rows

#: Element -> the elements in it. Those whose value is None may hold anything.
_CHILDREN: Final[dict[str, str | None]] = {
    "tosa": "version profiles profile_extensions levels operators enum",
    "profiles": "profile",
    "profile_extensions": "profile_extension",
    "profile_extension": None,
    "levels": "level",
    "operators": "operatorgroup",
    "operatorgroup": "operator",
    "operator": "name arguments types typesupport",
    "arguments": "argument",
    "argument": "description rank levellimit ctc ctc_remove op_profile",
    "ctc": "op_profile",
    "ctc_remove": "op_profile",
    "types": "type",
    "typesupport": "op_profile type_set type_bind",
    "enum": "enumval",
}
#: Element -> its attributes. Further ones of a typesupport are the names of the operator's types.
_ATTRIBUTES: Final = {
    "version": "major minor patch draft",
    "profile": "profile name description status",
    "profile_extension": "name description status",
    "level": "name max_rank max_kernel max_stride max_scale max_log2_size max_nesting "
    "max_tensor_list_size max_shape_len",
    "operatorgroup": "name",
    "argument": "name category type tensor-element-type tensor-element-scale-type shape optional",
    "rank": "min max",
    "levellimit": "value limit",
    "op_profile": "name and_name and_name2",
    "type": "name",
    "typesupport": "mode version_added",
    "type_set": "name values",
    "type_bind": "type set same_as",
    "enum": "name description extension",
    "enumval": "name value description extension or_extension",
}
#: Our name of a limit -> the attribute that has it.
_LIMITS: Final = {
    **{
        name: f"max_{name}"
        for name in ("rank", "kernel", "stride", "scale", "log2_size", "nesting")
    },
    "list_size": "max_tensor_list_size",
    "shape_length": "max_shape_len",
}
_ACCUMULATOR: Final = ("acc_type", "acc_t")
#: Type in the file -> ours. `bs32_fp8ue8m0_X_t` is X in blocks; a set stands for all such types.
_TYPES: Final[dict[str, str]] = {
    _name.replace("INT", "i") if _name[:3] == "INT" else _name.lower(): _name
    for _name in (row.name for row in DTYPES)
}
_BLOCKS: Final = "bs32_fp8ue8m0_"

#: The types of an operator's tensors in our order, and of its accumulator.
Types = tuple[str, ...]


class Need(NamedTuple):
    """One way to have a row of types: a profile with extensions, and the version that added it."""

    names: frozenset[str]
    since: tuple[int, int]

    def __str__(self) -> str:
        return f"{' and '.join(sorted(self.names, reverse=True))} since {self.since[0]}.{self.since[1]}"


Rows = Mapping[Types, frozenset[Need]]


def differences(root: Xml, month: str) -> Iterator[str]:
    """Yield what differs between the draft of a month and our tables, and what is not understood."""
    yield from _not_understood(root)
    yield from _version(root)
    yield from _capabilities(root, month)
    yield from _levels(root)
    operators = {
        _text(xml, "name"): xml for xml in root.iterfind("operators/operatorgroup/operator")
    }
    own = {
        spec.name: spec
        for spec in OPERATORS
        if spec.state <= month and not _is_gone(spec.removed, month)
    }
    yield from _names("operators", set(operators), set(own))
    for name, spec in own.items():
        if name in operators:
            yield from _operator(spec, operators[name], month)


def _is_gone(removed: str, month: str) -> bool:
    return bool(removed) and removed <= month


def _not_understood(xml: Xml, path: str = "") -> Iterator[str]:
    path = f"{path}/{xml.tag}"
    known = _CHILDREN.get(xml.tag, "")
    attributes = {*_ATTRIBUTES.get(xml.tag, "").split()}
    types = set()
    if xml.tag == "operator":
        types = {row.get("name", "") for row in xml.iterfind("types/type")}
    for name in sorted(set(xml.keys()) - attributes):
        yield f"{path}: the attribute {name} is not understood"
    for child in xml:
        if known is not None and child.tag not in known.split():
            yield f"{path}: the element <{child.tag}> is not understood"
        elif child.tag == "typesupport":
            shown = Xml(child.tag, {k: v for k, v in child.items() if k not in types})
            shown.extend(child)
            yield from _not_understood(shown, path)
        elif known is not None:
            yield from _not_understood(child, path)


def _names(what: str, theirs: set[str], ours: set[str]) -> Iterator[str]:
    for name in sorted(theirs - ours):
        yield f"{what}: {name} is only in the specification"
    for name in sorted(ours - theirs):
        yield f"{what}: {name} is only in our tables"


def _version(root: Xml) -> Iterator[str]:
    xml = root.find("version")
    found = {} if xml is None else dict(xml.items())
    number = ".".join(found.get(key, "?") for key in ("major", "minor", "patch"))
    name = f"{number} draft" if found.get("draft") == "true" else number
    known = sorted({str(version) for version in BY_NAME.values()})
    if name not in known:
        yield f"version: the specification is {name}; our tables have {' and '.join(known)}"


def _capabilities(root: Xml, month: str) -> Iterator[str]:
    profiles = {xml.get("profile", "") for xml in root.iterfind("profiles/profile")}
    yield from _names("profiles", profiles, {row.name for row in PROFILES})
    extensions = {
        xml.get("name", ""): {(child.text or "").strip() for child in xml}
        for xml in root.iterfind("profile_extensions/profile_extension")
    }
    own = {row.name for row in EXTENSIONS if not _is_gone(row.removed, month)}
    yield from _names("extensions", set(extensions), own)
    for name in sorted(extensions.keys() & CAPABILITIES.keys()):
        yield from _names(f"profiles of {name}", extensions[name], set(CAPABILITIES[name].profiles))


def _levels(root: Xml) -> Iterator[str]:
    levels = {xml.get("name", "").upper(): xml for xml in root.iterfind("levels/level")}
    yield from _names("levels", set(levels), set(LEVELS))
    for name in sorted(levels.keys() & LEVELS.keys()):
        for ours, theirs in _LIMITS.items():
            limit, found = getattr(LEVELS[name], ours), levels[name].get(theirs, "missing")
            if found != str(limit):
                yield f"level {name}: {theirs} is {found} in the specification, {limit} in our tables"


def _operator(spec: OperatorSpec, xml: Xml, month: str) -> Iterator[str]:
    arguments = {row.get("name", ""): row for row in xml.iterfind("arguments/argument")}
    operands = [row for row in spec.operands if row.state <= month]
    for kind, own in (
        ("input", operands),
        ("output", spec.results),
        ("attribute", spec.attributes),
    ):
        theirs = {
            name
            for name, row in arguments.items()
            if row.get("category", "").partition("(")[0] == kind
        }
        yield from _names(f"{spec.name}: {kind}s", theirs, {row.name for row in own})
    if any(form.any_inputs for form in forms(spec)) or any(row.arity == "?" for row in operands):
        return  # tensors of any type, or more than one number of tensors
    names = [row.name for row in (*operands, *spec.results) if not row.is_shape]
    if spec is VARIABLE:
        names = []
    if not set(names) <= arguments.keys():
        yield f"{spec.name}: its types are not compared, because its arguments differ"
        return
    unknown: list[str] = []
    theirs_rows = _rows_of(xml, [arguments[name] for name in names], unknown)
    yield from (
        f"{spec.name}: the type {name} is not understood" for name in dict.fromkeys(unknown)
    )
    ours_rows = _own_rows(spec, month)
    if len(operands) < len(spec.operands):
        ours_rows = {types: needs for types, needs in ours_rows.items() if len(types) == len(names)}
    for types in sorted(theirs_rows.keys() | ours_rows.keys()):
        theirs_needs, ours_needs = theirs_rows.get(types), ours_rows.get(types)
        if theirs_needs == ours_needs:
            continue
        shown = f"{spec.name} of {', '.join(types) or 'no tensors'}"
        if theirs_needs is None or ours_needs is None:
            where = "our tables" if theirs_needs is None else "the specification"
            yield f"{shown}: only in {where}: {_listed(theirs_needs or ours_needs)}"
        else:
            theirs_text, ours_text = _listed(theirs_needs), _listed(ours_needs)
            yield f"{shown}: {theirs_text} in the specification, {ours_text} in our tables"


def _listed(needs: frozenset[Need] | None) -> str:
    return " or ".join(sorted(map(str, needs or ())))


def _rows_of(xml: Xml, arguments: list[Xml], unknown: list[str]) -> Rows:
    """Return the rows of an operator in the file. Names of types that are not known go to `unknown`."""
    found: dict[Types, set[Need]] = {}
    for support in xml.iterfind("typesupport"):
        version = support.get("version_added", "1.0").split(".")
        since = int(version[0]), int(version[1])
        for values in _expanded(support):
            words = [values.get(_element(row), _element(row)) for row in arguments]
            words += [values[name] for name in _ACCUMULATOR if name in values]
            types = tuple(_type(word, unknown) for word in words)
            for profile in support.iterfind("op_profile"):
                names = {value for value in profile.attrib.values() if value}
                names |= {name for type_ in types for name in _needed(type_, names)}
                found.setdefault(types, set()).update(
                    Need(names_with_profile, since) for names_with_profile in _with_profile(names)
                )
    return {types: _minimal(needs) for types, needs in found.items()}


def _with_profile(names: set[str]) -> list[frozenset[str]]:
    """Return names with a profile: if they are extensions only, one for each that these allow."""
    if any(name.startswith("PRO-") for name in names):
        return [frozenset(names)]
    known = [CAPABILITIES[name].profiles for name in names if name in CAPABILITIES]
    shared = [row.name for row in PROFILES if all(row.name in profiles for profiles in known)]
    return [frozenset({*names, profile}) for profile in shared]


def _element(argument: Xml) -> str:
    return argument.get("tensor-element-type", argument.get("type", ""))


def _expanded(support: Xml) -> Iterator[dict[str, str]]:
    """Yield the values of an operator's types in one row: all combinations of its sets."""
    own = dict(support.items())
    sets = {
        row.get("name", ""): row.get("values", "").split() for row in support.iterfind("type_set")
    }
    bound = {row.get("type", ""): row for row in support.iterfind("type_bind")}
    free = [name for name, row in bound.items() if row.get("same_as") is None]
    choices = [_alternatives(sets.get(bound[name].get("set", ""), [])) for name in free]
    for combination in product(*choices):
        values = own | dict(zip(free, combination, strict=True))
        for name in bound:
            source = name
            for _ in bound:  # a chain of `same_as` is no longer than the list
                source = bound[source].get("same_as", source) if source in bound else source
            values[name] = values.get(source, source)
        yield values


def _alternatives(words: list[str]) -> list[str]:
    all_blocks = [f"{_BLOCKS}{dtype.name.lower()}_t" for dtype in BLOCK_SCALED]
    return [
        type_ for word in words for type_ in (all_blocks if word == f"{_BLOCKS}set_t" else [word])
    ]


def _text(xml: Xml, name: str) -> str:
    return (xml.findtext(name) or "").strip()


def _type(word: str, unknown: list[str]) -> str:
    stem = word.removesuffix("_t")
    blocks, name = stem.startswith(_BLOCKS), _TYPES.get(stem.removeprefix(_BLOCKS))
    if name is None:
        unknown.append(word)
        return word
    return f"block-scaled {name}" if blocks else name


def _needed(type_: str, named: set[str]) -> list[str]:
    """Return the extensions that a type needs by itself, besides those that its row names."""
    name = type_.removeprefix("block-scaled ")
    mx = f"EXT-MX-{name.removeprefix('MX')}"
    if name != type_ or name in ("FP6E2M3", "FP6E3M2", "FP4E2M1", "MXINT8"):
        return ["EXT-MX-COMMON", mx]
    if mx in named:
        return ["EXT-MX-COMMON"]
    if name not in EXTENSIONS_OF_TYPES:
        return []
    return [f"EXT-{EXTENSIONS_OF_TYPES[name]}"]


def _own_rows(spec: OperatorSpec, month: str) -> Rows:
    found: dict[Types, set[Need]] = {}
    without_plain_blocks = _is_gone(PLAIN_BLOCKS.get(spec.name, ""), month)
    for row in rows(spec):
        if without_plain_blocks and set(BLOCK_SCALED[2:]) & {*row.operands, *row.results}:
            continue
        elements = [
            f"block-scaled {element[0]}" if isinstance(element, tuple) else str(element)
            for element in (*row.operands, *row.results)
        ]
        if row.attribute is not None and row.attribute[0] in _ACCUMULATOR:
            elements.append(row.attribute[1])
        found.setdefault(tuple(elements), set()).update(Need(*need) for need in row.needs)
    return {types: _minimal(needs) for types, needs in found.items()}


def _minimal(needs: set[Need]) -> frozenset[Need]:
    """Return the needs without those that another one makes superfluous."""
    return frozenset(
        need
        for need in needs
        if not any(
            other != need and other.names <= need.names and other.since <= need.since
            for other in needs
        )
    )


def main(arguments: list[str]) -> int:
    """Print the differences; returns the exit code."""
    if len(arguments) not in (1, 2):
        print(__doc__)
        return 2
    path, month = (*arguments, DRAFTS[-1])[:2]
    found = list(differences(ElementTree.parse(Path(path)).getroot(), month))
    for line in found:
        print(line)
    print(f"{len(found)} differences", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
