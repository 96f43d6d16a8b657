"""`schema/compare_specification.py`, on files that these tests write in the structure of `tosa.xml`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree.ElementTree import Element, ElementTree, SubElement, fromstring, tostring

import pytest

from tosa_convert.graph.dtypes import DType, dtype
from tosa_convert.graph.opset import OPERATORS, OperatorSpec
from tosa_convert.graph.versions import DRAFTS
from tosa_convert.rules.profiles import EXTENSIONS, LEVELS, PROFILES
from tosa_convert.rules.types import rows

SCRIPT = Path(__file__).parents[2] / "schema" / "compare_specification.py"
KEYS = ("name", "and_name", "and_name2")
#: Extensions that a type needs by itself.
OF_TYPES = re.compile("EXT-(BF16|FP8.*|INT4|INT64|MX-.*)")
LIMITS = {"list_size": "tensor_list_size", "shape_length": "shape_len"}


def type_name(element: DType | tuple[DType, DType]) -> str:
    if isinstance(element, tuple):
        return f"bs32_fp8ue8m0_{type_name(element[0])}"
    name = element.name
    return f"{name.replace('INT', 'i') if name.startswith('INT') else name.lower()}_t"


def add_operator(group: Element, spec: OperatorSpec) -> None:
    xml = SubElement(group, "operator")
    SubElement(xml, "name").text = spec.name
    arguments, types = SubElement(xml, "arguments"), SubElement(xml, "types")
    operands = [row for row in spec.operands if row.state <= DRAFTS[0]]
    tensors = [row.name for row in (*operands, *spec.results) if not row.is_shape]
    for category, values in (
        ("input", operands),
        ("output", spec.results),
        ("attribute", spec.attributes),
    ):
        for value in values:
            made = SubElement(arguments, "argument", name=value.name, category=category, shape="-")
            made.set("tensor-element-type", f"{value.name}_e" if value.name in tensors else "-")
            SubElement(made, "description").text = "A value."
            SubElement(made, "rank", min="0", max="0")
    for name in tensors:
        SubElement(types, "type", name=f"{name}_e")
    SubElement(types, "type", name="acc_t")
    for row in rows(spec):
        if len(operands) < len(row.operands) <= len(spec.operands):
            continue
        for need in row.needs:
            support = SubElement(
                xml, "typesupport", mode="a", version_added=".".join(map(str, need.since))
            )
            for name, element in zip(tensors, (*row.operands, *row.results), strict=False):
                assert element is not None
                support.set(f"{name}_e", type_name(element))
            if row.attribute is not None and row.attribute[0] == "acc_type":
                support.set(
                    "acc_t",
                    type_name(dtype(row.attribute[1])),
                )
            names = sorted(need.names, reverse=True)
            if not spec.name.endswith("BLOCK_SCALED") and spec.name not in ("CONST", "DIM"):
                names = [name for name in names if not OF_TYPES.fullmatch(name)]
            SubElement(support, "op_profile", dict(zip(KEYS, names, strict=False)))


def specification() -> Element:
    """Our tables as a specification, the draft of tosa-tools."""
    root = Element("tosa")
    SubElement(root, "version", major="1", minor="1", patch="0", draft="true")
    profiles = SubElement(root, "profiles")
    for row in PROFILES:
        SubElement(profiles, "profile", profile=row.name, name=row.name, description="", status="")
    extensions = SubElement(root, "profile_extensions")
    for row in EXTENSIONS:
        extension = SubElement(extensions, "profile_extension", name=row.name, status="")
        for profile in row.profiles:
            SubElement(extension, "op_profile").text = profile
    levels = SubElement(root, "levels")
    for name, level in LEVELS.items():
        limits = {
            f"max_{LIMITS.get(key, key)}": str(value) for key, value in level._asdict().items()
        }
        del limits["max_name"]
        SubElement(levels, "level", limits, name=name).text = "A level."
    group = SubElement(SubElement(root, "operators"), "operatorgroup", name="all")
    for spec in OPERATORS:
        if spec.state <= DRAFTS[0]:
            add_operator(group, spec)
    return root


def compare(folder: Path, root: Element, *month: str) -> tuple[int, list[str]]:
    """Return the exit code of the script for the draft of a month, and what it prints."""
    path = folder / "tosa.xml"
    ElementTree(root).write(path)
    command = [sys.executable, str(SCRIPT), str(path), *month]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.stderr.endswith(" differences\n"), done.stderr
    return done.returncode, done.stdout.splitlines()


@pytest.fixture(scope="module")
def ours() -> bytes:
    return tostring(specification())


def test_our_tables_do_not_differ_from_themselves(tmp_path: Path, ours: bytes) -> None:
    assert compare(tmp_path, fromstring(ours), DRAFTS[0]) == (0, [])


def at(root: Element, path: str) -> Element:
    found = root.find(path)
    assert found is not None, path
    return found


def operator_of(root: Element, name: str) -> Element:
    (found,) = [xml for xml in root.iter("operator") if xml.findtext("name") == name]
    return found


def changed(root: Element) -> list[str]:
    """Change a fact of each kind; returns the lines that name the differences, in order."""
    at(root, "version").set("minor", "2")
    SubElement(at(root, "profiles"), "profile", profile="PRO-NEW")
    extensions = at(root, "profile_extensions")
    extensions.remove(extensions[-1])
    SubElement(extensions[0], "op_profile").text = "PRO-FP"
    at(root, "levels/level").set("max_rank", "7")
    group = at(root, "operators/operatorgroup")
    group.remove(operator_of(root, "CEIL"))
    SubElement(SubElement(group, "operator"), "name").text = "ROUND_EVEN"
    exp = operator_of(root, "EXP")
    SubElement(at(exp, "arguments"), "argument", name="approximate", category="attribute")
    erf = operator_of(root, "ERF")
    at(erf, "arguments/argument").set("name", "x")
    absolute = operator_of(root, "ABS")
    first = at(absolute, "typesupport")
    assert first.get("input1_e") == "i32_t"
    first.set("version_added", "1.1.draft")
    half = at(operator_of(root, "ADD"), "typesupport[@input1_e='fp16_t']")
    for name in ("input1_e", "input2_e", "output_e"):
        half.set(name, "fp64_t")
    at(operator_of(root, "CLZ"), "typesupport[@input1_e='i32_t']/op_profile").set("name", "PRO-FP")
    at(operator_of(root, "SIN"), "typesupport").set("surprise", "1")
    SubElement(root, "novelty")
    return [
        "/tosa: the element <novelty> is not understood",
        "/tosa/operators/operatorgroup/operator/typesupport: the attribute surprise is not understood",
        "version: the specification is 1.2.0 draft; our tables have 1.0.0 and 1.1.0 draft",
        "profiles: PRO-NEW is only in the specification",
        "extensions: EXT-MXFP is only in our tables",
        "profiles of EXT-INT16: PRO-FP is only in the specification",
        "level 8K: max_rank is 7 in the specification, 6 in our tables",
        "operators: ROUND_EVEN is only in the specification",
        "operators: CEIL is only in our tables",
        "ERF: inputs: x is only in the specification",
        "ERF: inputs: input is only in our tables",
        "ERF: its types are not compared, because its arguments differ",
        "ADD: the type fp64_t is not understood",
        "ADD of FP16, FP16, FP16: only in our tables: PRO-FP since 1.0",
        "ADD of fp64_t, fp64_t, fp64_t: only in the specification: PRO-FP since 1.0",
        "ABS of INT32, INT32: PRO-INT since 1.1 in the specification, PRO-INT since 1.0 in our tables",
        "CLZ of INT32, INT32: PRO-FP since 1.0 in the specification, PRO-INT since 1.0 in our tables",
        "EXP: attributes: approximate is only in the specification",
    ]


def test_every_kind_of_difference_is_named(tmp_path: Path, ours: bytes) -> None:
    root = fromstring(ours)
    expected = changed(root)
    code, found = compare(tmp_path, root, DRAFTS[0])
    assert code == 1
    assert sorted(found) == sorted(expected)


def test_the_newest_draft_lacks_what_left_it(tmp_path: Path, ours: bytes) -> None:
    code, found = compare(tmp_path, fromstring(ours))
    gone = sorted(spec.name for spec in OPERATORS if spec.removed)
    expected = ["extensions: EXT-MXFP-CONV is only in the specification"]
    expected += [f"operators: {name} is only in the specification" for name in gone]
    expected += ["operators: ARGMIN is only in our tables"]
    expected += ["GATHER: inputs: row_count is only in our tables"]
    assert code == 1
    assert [line for line in found if " of " not in line] == expected
    types = {line.partition(": ")[0] for line in found if " of " in line}
    plain = ("FP6E2M3", "FP6E3M2", "FP4E2M1", "MXINT8")
    assert types == {f"{name} of {element}" for name in ("CONST", "DIM") for element in plain}


def test_sets_of_types_and_extensions_without_a_profile_are_read(
    tmp_path: Path, ours: bytes
) -> None:
    root = fromstring(ours)
    reshape = operator_of(root, "RESHAPE")
    for support in reshape.findall("typesupport"):
        if "bs32" in support.get("input1_e", "") or support.get("input1_e") in ("bf16_t", "i64_t"):
            reshape.remove(support)
    blocks = SubElement(reshape, "typesupport", mode="MX", version_added="1.1")
    SubElement(blocks, "op_profile", name="EXT-MX-COMMON")
    SubElement(blocks, "type_set", name="s", values="bs32_fp8ue8m0_set_t")
    SubElement(blocks, "type_bind", type="input1_e", set="s")
    SubElement(blocks, "type_bind", type="output_e", set="s", same_as="input1_e")
    for name, version in (("bf16", "1.0"), ("i64", "1.1")):
        types = {"input1_e": f"{name}_t", "output_e": f"{name}_t"}
        row = SubElement(reshape, "typesupport", types, mode=name, version_added=version)
        SubElement(row, "op_profile", name=f"EXT-{name.upper().replace('I64', 'INT64')}")
    assert compare(tmp_path, root, DRAFTS[0]) == (0, [])
