"""The whole schema and the whole dialect are covered: every operator, attribute, enum, element type and
field has a row, is written, is read back, and has a case among the programs written by hand.

Every check is a function that returns what is missing, so that a test can prove that it finds a gap.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import struct
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from enum import IntEnum
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import pytest
from oracle import written_cases

import tosa_convert as tc
from tosa_convert.formats.bindings.packages import Bindings
from tosa_convert.formats.wire import layout
from tosa_convert.formats.wire.tables import Field, Table
from tosa_convert.graph import dtypes, versions
from tosa_convert.graph.dtypes import TOOLS_STATE
from tosa_convert.graph.opset import OPERATORS, AttributeSpec, OperandSpec, OperatorSpec

Graphs = list[tc.Graph]
#: Whether the tools that read the cases have an operator.
IN_TOOLS: Final = attrgetter("is_in_tools")

#: Enums of the schema that are not enums of the graph.
OTHER_ENUMS: Final = {
    "DType": "rows of their own: dtypes.DTYPES",
    "Op": "rows of their own: opset.OPERATORS",
    "CompatibilityFeature": "bits, not values: versions.MXFP_FEATURE",
}

#: Kind of an attribute's row -> kind of the slot that holds it.
SLOT_KINDS: Final = {
    "i32": "i32",
    "i32s": "[i32]",
    "bool": "bool",
    "dtype": "u32",
    "enum": "u32",
    "element": "[u8]",
    "bytes": "[u8]",
    "string": "string",
    "region": "string",
}

#: Operators of the dialect that the schema lacks.
NOT_IN_SCHEMA: Final = {
    "tosa.yield": "the end of a block, whose operands are the block's outputs",
    "tosa.apply_scale": "what a RESCALE computes for one element, on scalars: the format has tensors",
}

#: Attributes of the dialect without a field in the schema.
NO_FIELD: Final = {
    ("tosa.const", "values"): "data of the tensor that the operator produces",
    ("tosa.const_shape", "values"): "data of the shape that the operator produces",
    ("tosa.variable", "sym_name"): "variable_name of a tensor",
    ("tosa.variable", "var_shape"): "shape of a tensor",
    ("tosa.variable", "type"): "type of a tensor",
    ("tosa.variable", "initial_value"): "data of a tensor",
    ("tosa.variable", "sym_visibility"): "who in the module may use the symbol; of IREE's copy",
    ("tosa.variable_read", "name"): "the tensor of the variable, as an operand",
    ("tosa.variable_write", "name"): "the tensor of the variable, as a result",
    ("tosa.cast", "input_unsigned"): "of IREE's copy of the dialect; refused when true",
}

#: Operands and results of the schema that the dialect lacks.
NOT_IN_DIALECT: Final = {
    ("tosa.variable_read", "variable"): "the attribute `name`",
    ("tosa.variable_write", "variable"): "the attribute `name`",
    ("tosa.reshape_block_scaled", "input_scale"): "the second of a variadic `input`",
    ("tosa.reshape_block_scaled", "output_scale"): "the second of a variadic `output`",
    ("tosa.row_gather_block_scaled", "values_scale"): "the second of a variadic `values`",
    ("tosa.row_gather_block_scaled", "output_scale"): "the second of a variadic `output`",
}

#: Fields that are the same in all programs, or that are not part of a program.
UNIFORM: Final = {
    ("MATMUL_T_BLOCK_SCALED", "block_size"): "the dialect takes BLOCK_SIZE_32 only",
    ("CAST_FROM_BLOCK_SCALED", "block_size"): "the dialect takes BLOCK_SIZE_32 only",
    ("CAST_TO_BLOCK_SCALED", "block_size"): "the dialect takes BLOCK_SIZE_32 only",
    ("CONV2D_BLOCK_SCALED", "block_size"): "the dialect takes BLOCK_SIZE_32 only",
}


# -- the schema against the rows -------------------------------------------------------------------


def row_gaps(
    operators: Iterable[OperatorSpec],
    enums: Mapping[str, Mapping[str, int]],
    tables: Mapping[str, Table],
) -> Iterator[str]:
    """Iterate over operators, attributes and enums in which the schema and the graph's rows differ."""
    rows = {row.code: row for row in operators}
    for name, code in enums["Op"].items():
        row = rows.pop(code, None)
        if name == "UNKNOWN":
            continue
        if row is None or row.name != name:
            yield f"operator {name} has no row"
            continue
        yield from attribute_gaps(row, tables[layout.ATTRIBUTES[code]])
    yield from (f"row {row.name} is not an operator of the schema" for row in rows.values())
    yield from enum_gaps(enums)


def attribute_gaps(row: OperatorSpec, table: Table) -> Iterator[str]:
    attributes = {attribute.name: attribute for attribute in row.attributes}
    for field in table.fields:
        attribute = attributes.pop(field.name, None)
        where = f"{table.name}.{field.name}"
        if attribute is None:
            yield f"{where} has no row"
            continue
        if SLOT_KINDS[attribute.kind] != field.kind:
            yield f"{where} is {field.kind}, its row {attribute.kind}"
        enum = "DType" if attribute.kind == "dtype" else attribute.enum and attribute.enum.__name__
        if field.enum != (enum or ""):
            yield f"{where} is of enum {field.enum!r}, its row of {enum!r}"
    yield from (f"row {row.name}.{name} is not a field of the schema" for name in attributes)


def enum_gaps(enums: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    for name, members in enums.items():
        if name in OTHER_ENUMS:
            continue
        known = {member.name: member.value for member in dtypes.ENUMS.get(name, ())}
        if {"UNKNOWN": 0, **known} != dict(members):
            yield f"enum {name} is {dict(members)}, its rows {known}"
    known = {row.name: row.code for row in dtypes.DTYPES}
    for name, code in enums["DType"].items():
        if known.get(name) != code and name not in dtypes.NOT_ELEMENT_TYPES:
            yield f"DType {name} has no row"
    for name, bit in enums["CompatibilityFeature"].items():
        if name != "NONE" and getattr(versions, f"{name}_FEATURE", None) != 1 << bit:
            yield f"feature {name} has no bit"


def test_every_operator_attribute_and_enum_of_the_schema_has_its_row() -> None:
    assert list(row_gaps(OPERATORS, layout.ENUMS, layout.TABLES)) == []


def test_a_row_that_is_missing_is_noticed() -> None:
    without = [row for row in OPERATORS if row.name != "CLAMP"]
    assert list(row_gaps(without, layout.ENUMS, layout.TABLES)) == ["operator CLAMP has no row"]
    table = layout.TABLES["PadAttribute"]
    fields = (*table.fields, Field("mode", 0, "u32", enum="ResizeMode"))
    more = Table(table.name, fields)
    tables = {**layout.TABLES, "PadAttribute": more}
    assert list(row_gaps(OPERATORS, layout.ENUMS, tables)) == ["PadAttribute.mode has no row"]
    other = [
        replace(row, attributes=(AttributeSpec("axis", "bool"),)) if row.name == "CONCAT" else row
        for row in OPERATORS
    ]
    found = list(row_gaps(other, layout.ENUMS, layout.TABLES))
    assert found == ["ConcatAttribute.axis is i32, its row bool"]
    for enum, member in (("RoundingMode", "NEW"), ("DType", "FP64"), ("CompatibilityFeature", "X")):
        enums = {**layout.ENUMS, enum: {**layout.ENUMS[enum], member: 31}}
        assert len(list(row_gaps(OPERATORS, enums, layout.TABLES))) == 1
    enums = {**layout.ENUMS, "Op": {**layout.ENUMS["Op"], "NEW": 101}}
    assert list(row_gaps(OPERATORS, enums, layout.TABLES)) == ["operator NEW has no row"]


# -- the schema against the cases ------------------------------------------------------------------


@pytest.fixture(scope="module")
def modules(torch_mlir: Bindings) -> list[Any]:
    """Return every program written by hand, and constants of every type."""
    texts = [case.text for case in written_cases.cases()]
    texts += [written_cases.constants(form)[0] for form in written_cases.FORMS]
    context = torch_mlir.new_context()
    return [torch_mlir.ir.Module.parse(text, context) for text in texts]


@pytest.fixture(scope="module")
def files(modules: list[Any]) -> list[bytes]:
    # Some cases use attributes that TOSA forbids: this is about the fields of a file.
    return [tc.export_tosa_func_to_flatbuffer(module, validate=False) for module in modules]


@pytest.fixture(scope="module")
def graphs(files: list[bytes]) -> Graphs:
    return [tc.load(data) for data in files]


def case_gaps(graphs: Graphs) -> Iterator[str]:
    """Iterate over the gaps of the cases.

    An operator, a second value of an attribute, a member, an element type.
    """
    values: dict[tuple[str, str], set[Any]] = defaultdict(set)
    seen: set[str] = set()
    constant: set[str] = set()
    blocks: set[IntEnum] = set()
    for graph in graphs:
        for _, block in graph.blocks():
            for operator in block.operators:
                seen.add(operator.spec.name)
                for name, value in operator.attributes.items():
                    values[operator.spec.name, name].add(value)
            for tensor in block.tensors.values():
                if tensor.variable:
                    seen.add("VARIABLE")
                if tensor.data is not None:
                    constant.add(tensor.dtype.name)
                if tensor.scale is not None:
                    blocks.add(tensor.scale.shape)
    members: dict[str, set[Any]] = defaultdict(set)
    for row in filter(IN_TOOLS, OPERATORS):
        if row.name not in seen:
            yield f"no case has {row.name}"
            continue
        for attribute in row.attributes:
            found = values[row.name, attribute.name]
            if attribute.kind == "enum" and attribute.enum is not None:
                members[attribute.enum.__name__] |= found
            elif attribute.kind == "dtype":
                members["accumulator"] |= found
            if (row.name, attribute.name) in UNIFORM or attribute.kind == "dtype":
                continue
            if attribute.optional or attribute.kind == "bool":
                # The default is read even if the writer omits the field, so it proves nothing.
                if not found - {attribute.default}:
                    yield f"no case has {row.name} with {attribute.name} other than the default"
            elif attribute.kind == "i32" and found == {0}:
                yield f"no case has {row.name} with {attribute.name} other than 0"
            elif not found:
                yield f"no case has {row.name} with {attribute.name}"
    members["BlockShape"] |= blocks
    for name, enum in dtypes.ENUMS.items():
        for member in set(enum) - members[name]:
            yield f"no case has {member!r}"
    choices = {choice for row in OPERATORS for one in row.attributes for choice in one.choices}
    for choice in choices - members["accumulator"]:
        yield f"no case accumulates in {choice}"
    for dtype in filter(IN_TOOLS, dtypes.DTYPES):
        if dtype.name not in constant:
            yield f"no case has a constant of {dtype}"


def test_every_operator_attribute_member_and_element_type_has_a_case(graphs: Graphs) -> None:
    assert list(case_gaps(graphs)) == []


def test_a_case_that_is_missing_is_noticed(graphs: Graphs) -> None:
    assert len(list(case_gaps([]))) > 100
    fewer = [
        graph
        for graph in graphs
        if not any(
            op.spec.name == "RESIZE" for _, block in graph.blocks() for op in block.operators
        )
    ]
    assert list(case_gaps(fewer))[:1] == ["no case has RESIZE"]


def test_every_case_comes_back_byte_for_byte(
    files: list[bytes], graphs: Graphs, torch_mlir: Bindings, tmp_path: Path
) -> None:
    """A field that is only written or only read would be lost."""
    for data, graph in zip(files, graphs, strict=True):
        context = torch_mlir.new_context()
        module = tc.import_tosa_func_from_flatbuffer(data, context=context, validate=False)
        assert tc.export_tosa_func_to_flatbuffer(module, validate=False) == data
        copy = tmp_path / "copy.tosa"
        tc.save(graph, copy, validate=False)
        assert copy.read_bytes() == data
        tc.save(graph, copy, weights="offset", validate=False)
        assert tc.compare(tc.load(copy), graph, locations=True, version=True) is None


# -- every field is written by some case -----------------------------------------------------------


def fields_of(data: bytes) -> set[tuple[str, str]]:
    """(table, field) of every slot present in a file, found by walking it with the layout alone."""
    found: set[tuple[str, str]] = set()

    def word(position: int) -> int:
        return int(struct.unpack_from("<I", data, position)[0])

    def walk(name: str, position: int) -> None:
        vtable = position - struct.unpack_from("<i", data, position)[0]
        size = struct.unpack_from("<H", data, vtable)[0]
        slots = struct.unpack_from(f"<{(size - 4) // 2}H", data, vtable + 4)
        union = ""
        for field in layout.TABLES[name].fields:
            offset = slots[field.slot] if field.slot < len(slots) else 0
            if not offset:
                continue
            found.add((name, field.name))
            place = position + offset
            if field.name == "attribute_type":
                union = layout.ATTRIBUTES[data[place]]
            elif field.kind in ("table", "union"):
                walk(field.table or union, place + word(place))
            elif field.kind == "[table]":
                vector = place + word(place)
                for at in range(vector + 4, vector + 4 + 4 * word(vector), 4):
                    walk(field.table, at + word(at))

    walk(layout.ROOT, word(0))
    return found


def all_fields(tables: Mapping[str, Table]) -> set[tuple[str, str]]:
    newer = {layout.ATTRIBUTES[row.code] for row in OPERATORS if not IN_TOOLS(row)}
    return {
        (table.name, field.name)
        for table in tables.values()
        for field in table.fields
        if table.name not in newer
    }


def test_every_field_of_the_schema_is_written_for_some_case(
    files: list[bytes], graphs: Graphs, tmp_path: Path
) -> None:
    written = set[tuple[str, str]]().union(*map(fields_of, files))
    path = tmp_path / "behind.tosa"
    for graph in graphs:
        tc.save(graph, path, weights="offset", validate=False)
        written |= fields_of(path.read_bytes())
    assert all_fields(layout.TABLES) - written == set()
    assert ("TosaTensor", "scale_offset") not in set().union(*map(fields_of, files))


# -- the dialect against the rows ------------------------------------------------------------------

Parts = dict[str, list[str]]
KINDS: Final = ("operands", "attributes", "results", "regions")


def dialect(bindings: Bindings) -> dict[str, Parts]:
    """Operation -> names of its operands, attributes, results and regions, each in order.

    From the accessors of the classes that MLIR generates for its bindings.
    """
    module = importlib.import_module(f"{bindings.package}.dialects._tosa_ops_gen")
    operations: dict[str, Parts] = {}
    for name, found in vars(module).items():
        if not hasattr(found, "OPERATION_NAME") or name.endswith("Adaptor"):
            continue
        parts: Parts = {kind: [] for kind in KINDS}
        for accessor in vars(found).values():
            if isinstance(accessor, property):
                kind, given = accessed(accessor)
                parts[kind].append(given)
        operations[found.OPERATION_NAME] = parts
    return operations


def accessed(accessor: property) -> tuple[str, str]:
    """Return the list of an operation that an accessor reads, and the name."""
    assert accessor.fget is not None
    tree = ast.parse(textwrap.dedent(inspect.getsource(accessor.fget)))
    kind = key = ""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in (
            "operands",
            "attributes",
            "results",
            "regions",
        ):
            kind = node.attr
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            key = node.value
    return kind, key if kind == "attributes" else accessor.fget.__name__


def dialect_gaps(
    operations: Mapping[str, Parts], operators: Iterable[OperatorSpec]
) -> Iterator[str]:
    """Iterate over operators and their parts in which the dialect and the rows differ."""
    # Bindings need not have what a later state of the dialect added.
    rows = {row.mlir: row for row in operators if row.is_in_tools or row.mlir in operations}
    for name, parts in operations.items():
        row = rows.pop(name, None)
        if row is None:
            if name not in NOT_IN_SCHEMA:
                yield f"{name} has no row and no reason"
            continue
        for kind, values in (("operands", row.operands), ("results", row.results)):
            expected = [
                one.name
                for one in values
                if (name, one.name) not in NOT_IN_DIALECT
                and (one.state <= TOOLS_STATE or one.name in parts[kind])
            ]
            if expected != parts[kind]:
                yield f"{name} has {kind} {parts[kind]}, its row {expected}"
        if [one.name for one in row.regions] != parts["regions"]:
            yield f"{name} has regions {parts['regions']}, its row {row.regions}"
        attributes = {one.name for one in row.attributes if one.kind != "region"}
        given = {one for one in parts["attributes"] if (name, one) not in NO_FIELD}
        if attributes != given:
            yield f"{name} has attributes {sorted(given)}, its row {sorted(attributes)}"
    yield from (f"row {row.name} is not an operation of the dialect" for row in rows.values())


def test_every_operation_of_the_dialect_has_its_row_or_a_reason(
    bindings: Bindings, torch_mlir: Bindings
) -> None:
    # One package has operations of a later state of the dialect.
    known = dialect(torch_mlir).keys() | {row.mlir for row in OPERATORS}
    operations = {name: parts for name, parts in dialect(bindings).items() if name in known}
    assert len(operations) > 100
    assert list(dialect_gaps(operations, OPERATORS)) == []


def test_an_operation_without_a_row_is_noticed(torch_mlir: Bindings) -> None:
    operations = dialect(torch_mlir)
    without = [row for row in OPERATORS if row.name != "SIN"]
    assert list(dialect_gaps(operations, without)) == ["tosa.sin has no row and no reason"]
    renamed = [
        replace(row, operands=(OperandSpec("x"),)) if row.name == "SIN" else row
        for row in OPERATORS
    ]
    found = list(dialect_gaps(operations, renamed))
    assert found == ["tosa.sin has operands ['input1'], its row ['x']"]
    more = {**operations, "tosa.sin": {**operations["tosa.sin"], "attributes": ["fast"]}}
    assert list(dialect_gaps(more, OPERATORS)) == ["tosa.sin has attributes ['fast'], its row []"]
    fewer = {name: parts for name, parts in operations.items() if name != "tosa.sin"}
    assert list(dialect_gaps(fewer, OPERATORS)) == ["row SIN is not an operation of the dialect"]


def test_every_zero_point_shift_and_multiplier_is_a_compile_time_constant() -> None:
    constants = {
        (row.name, value.name) for row in OPERATORS for value in row.operands if value.is_constant
    }
    scalars = {"shift", "multiplier", "row_count"}
    named = {
        (row.name, value.name)
        for row in OPERATORS
        for value in row.operands
        if value.name.endswith("_zp") or value.name in scalars
    }
    assert constants == named | {("SLICE_SHAPE", "start"), ("SLICE_SHAPE", "size")}
    assert not any(value.is_constant for row in OPERATORS for value in row.results)
    assert not any(
        value.is_constant and value.is_shape for row in OPERATORS for value in row.operands
    )


def test_every_listed_exception_is_still_needed(torch_mlir: Bindings) -> None:
    """An exception for something that the dialect has lost would hide a later gap."""
    operations = dialect(torch_mlir)
    iree = {("tosa.cast", "input_unsigned"), ("tosa.variable", "sym_visibility")}
    assert NOT_IN_SCHEMA.keys() == operations.keys() - {row.mlir for row in OPERATORS}
    for name, attribute in NO_FIELD.keys() - iree:
        assert attribute in operations[name]["attributes"]
    rows = {row.mlir: row for row in OPERATORS}
    for name, value in NOT_IN_DIALECT:
        assert value in [one.name for one in (*rows[name].operands, *rows[name].results)]
