"""Which row of an operator an operand stands for, where some rows are absent or repeat."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tosa_convert.eras.table import DOWNGRADES
from tosa_convert.golden.backends import tflite_model
from tosa_convert.golden.edges import back_propagation, operator_edges
from tosa_convert.graph import OPERATORS, operator
from tosa_convert.graph.dtypes import BY_NAME, NanPropagationMode
from tosa_convert.graph.operator_table import ROWS_1_0, ROWS_1_1, WORDS, Row, Traits
from tosa_convert.graph.opset import _spec, table_of
from tosa_convert.qualify.random_graphs import generate
from tosa_convert.reference import bounds, evaluate
from tosa_convert.rules.families import rules_of

#: Operators on single elements, by the number of operands whose elements meet.
ELEMENTWISE = {
    1: "CLAMP ERF SIGMOID TANH TABLE ABS BITWISE_NOT CEIL CLZ COS EXP FLOOR LOG LOGICAL_NOT NEGATE "
    "RECIPROCAL RSQRT SIN CAST IDENTITY",
    2: "ADD ARITHMETIC_RIGHT_SHIFT BITWISE_AND BITWISE_OR BITWISE_XOR INTDIV LOGICAL_AND "
    "LOGICAL_LEFT_SHIFT LOGICAL_RIGHT_SHIFT LOGICAL_OR LOGICAL_XOR MAXIMUM MINIMUM MUL POW SUB EQUAL "
    "GREATER GREATER_EQUAL",
    3: "SELECT",
}
#: Of these, the ones whose first two operands may change places.
COMMUTES = (
    *(
        "ADD",
        "BITWISE_AND",
        "BITWISE_OR",
        "BITWISE_XOR",
        "LOGICAL_AND",
        "LOGICAL_OR",
        "LOGICAL_XOR",
    ),
    *("MAXIMUM", "MINIMUM", "MUL", "EQUAL"),
)


def test_operators_on_elements_are_known() -> None:
    for count, names in ELEMENTWISE.items():
        assert [row.name for row in OPERATORS if row.elementwise == count] == names.split()
    every = {name for names in ELEMENTWISE.values() for name in names.split()}
    assert {row.name for row in OPERATORS if row.elementwise} == every
    assert [row.name for row in OPERATORS if row.commutes] == [*COMMUTES]


def test_few_operators_have_regions_or_the_code_of_another() -> None:
    regions = {row.name: [part.name for part in row.regions] for row in OPERATORS if row.regions}
    assert regions == {
        "COND_IF": ["then_graph", "else_graph"],
        "WHILE_LOOP": ["cond_graph", "body_graph"],
    }
    shared = {row.name: row.encoded_as for row in OPERATORS if row.encoded_as != row.name}
    assert shared == {"VARIABLE_READ": "IDENTITY", "VARIABLE_WRITE": "IDENTITY"}


def test_mlir_can_omit_two_attributes() -> None:
    optional = {
        (part.name, part.default) for row in OPERATORS for part in row.attributes if part.optional
    }
    assert optional == {("local_bound", False), ("nan_mode", NanPropagationMode.PROPAGATE)}


def test_some_operands_hold_certain_numbers() -> None:
    found: dict[str, list[tuple[str, str]]] = {}
    for row in OPERATORS:
        for part in row.operands:
            if part.domain:
                found.setdefault(part.domain, []).append((row.name, part.name))
    shifts = ("ARITHMETIC_RIGHT_SHIFT", "LOGICAL_LEFT_SHIFT", "LOGICAL_RIGHT_SHIFT")
    gathers = ("GATHER", "SCATTER", "ROW_GATHER_BLOCK_SCALED", "ROW_GATHER")
    assert found == {
        "shift": [(name, "input2") for name in shifts],
        "divisor": [("INTDIV", "input2")],
        "positive": [(name, "input1") for name in ("POW", "LOG", "RECIPROCAL", "RSQRT")],
        "index": [(name, "indices") for name in gathers],
    }


#: Traits whose words name entries of tables -> the table, which has been built.
TABLES: Mapping[str, Mapping[str, object]] = {
    "value": evaluate.OPERATIONS,
    "bound": bounds.BOUNDS,
    "edges": operator_edges._OWN,
    "terms": back_propagation._TERMS,
    "random": generate.RULES,
    "older_form": DOWNGRADES,
    "tflite": tflite_model._RULES,
}
#: Traits that other tests compare with what operators do, or whose words are those of `WORDS`.
OTHERS = {"family", "elementwise", "shape", "range", "on_bool", "accuracy", "products"} | {*WORDS}


def test_every_trait_has_a_table_or_known_words() -> None:
    assert TABLES.keys() | OTHERS == {*Traits._fields}


@pytest.mark.parametrize("trait", TABLES)
def test_a_table_has_the_operators_whose_rows_name_an_entry(trait: str) -> None:
    named = {row.name for row in OPERATORS if getattr(row.traits, trait) != "none"}
    assert {*TABLES[trait]} == named


def test_every_operator_has_rules_of_its_shapes() -> None:
    assert all(callable(rules_of(row).infer) for row in OPERATORS)


def test_what_is_known_of_an_operator_agrees() -> None:
    names = {row.name for row in OPERATORS}
    for row in OPERATORS:
        traits, results = (
            row.traits,
            [part.partition(";")[0] for part in row.types.split("->")[1:2]],
        )
        is_moved = traits.response in ("move", "mixed") and traits.family != "control"
        assert is_moved == (traits.accuracy == "operand" and traits.family != "control"), row
        assert (traits.edges == "extremes") <= (traits.extreme != "none"), row
        assert (traits.response == "position") <= (results[0].strip() == "U"), row
        assert (traits.response == "position") == (traits.shape == "without_axis"), row
        made = traits.on_bool.partition(":")[0]
        assert made in names | BY_NAME.keys() | {"none", "operand"}, row
        low, high = row.range
        assert low < high


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"step": 1}, "edges: TANH has no entry 'saturation'"),
        ({"step": 1, "saturation": 2, "x": 3}, "edges: no operator has the entry 'x'"),
    ],
)
def test_a_table_without_an_entry_is_not_built(entries: dict[str, int], message: str) -> None:
    rows = [operator(name) for name in ("CEIL", "ABS", "TANH")]
    with pytest.raises(LookupError, match=message):
        table_of("edges", entries, rows)
    assert table_of("edges", {"step": 1, "saturation": 2}, rows) == {"CEIL": 1, "TANH": 2}


REDUCE_MAX = next(row for row in ROWS_1_0 if row.name == "REDUCE_MAX")
LAST = len(ROWS_1_0) + len(ROWS_1_1)


def traits_of(row: Row, **words: str) -> str:
    return f"{row.traits} {' '.join(f'{key}={word}' for key, word in words.items())}"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (REDUCE_MAX._replace(traits=traits_of(REDUCE_MAX, accuracy="own")), "accuracy is 'own'"),
        (REDUCE_MAX._replace(accuracy="ulp 1"), "accuracy is 'exact', and 'ulp 1'"),
        (REDUCE_MAX._replace(traits=traits_of(REDUCE_MAX, products="own")), "products is 'own'"),
        (REDUCE_MAX._replace(traits=traits_of(REDUCE_MAX, extreme="most")), "extreme is 'most'"),
        (REDUCE_MAX._replace(since=""), "found since=''"),
    ],
)
def test_a_row_that_does_not_say_everything_is_no_operator(row: Row, message: str) -> None:
    with pytest.raises(LookupError, match=f"REDUCE_MAX: {message}"):
        _spec(LAST + 1, row._replace(since=row.since if "since" in message else "1.1 2026-10"))


def test_a_trait_that_is_missing_is_an_error() -> None:
    text = REDUCE_MAX.traits.replace("edges=", "edgse=")
    with pytest.raises(TypeError, match="edgse"):
        _spec(LAST + 1, REDUCE_MAX._replace(traits=text, since="1.1 2026-10"))
