"""The recipe "Add an operator" of CONTRIBUTING.md, carried out in a copy of the checkout."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest
from docs.recipe_copy import Edit, changed, copy_checkout, recipe, refuse_stale, run

from tosa_convert.formats.wire.layout import ATTRIBUTES
from tosa_convert.graph.opset import OPERATORS

#: The last operator, and the table of its attributes.
NEWEST: Final = OPERATORS[-1]
TABLE: Final = ATTRIBUTES[NEWEST.code]
ROW: Final = f"""\
    Row("ROUND_EVEN", f"{{_UNARY}} edges=step response=step accuracy=own", "input1",
        "T -> T; FP | float", accuracy="ulp 0.5", since="1.1 {NEWEST.state}"),
)
# fmt: on
"""
#: The end of the row of the last operator, and of the table.
LAST: Final = f'since="1.1 {NEWEST.state}"),\n)\n# fmt: on\n'
EDITS: Final[tuple[Edit, ...]] = (
    ("schema/tosa.fbs", f"  {NEWEST},\n", f"  {NEWEST},\n  ROUND_EVEN,\n"),
    ("schema/tosa.fbs", f"  {TABLE},\n", f"  {TABLE},\n  RoundEvenAttribute,\n"),
    (
        "schema/tosa.fbs",
        f"table {TABLE} {{",
        f"table RoundEvenAttribute {{}}\n\ntable {TABLE} {{",
    ),
    ("tosa_convert/graph/operator_table.py", LAST, f"{LAST.partition(')')[0]}),\n{ROW}"),
    (
        "tosa_convert/reference/elementwise.py",
        "OPERATIONS: Final[dict[str, Operation]] = {\n",
        "OPERATIONS: Final[dict[str, Operation]] = {\n"
        '    "ROUND_EVEN": _of(np.rint, "Return the nearest integer, or the even one.", "input1"),\n',
    ),
    ("CHANGELOG.md", "", "- operators: read and write `ROUND_EVEN`.\n"),
)
GENERATORS: Final = (
    "schema/generate.py",
    "schema/generate_stubs.py",
    "tests/docs/regenerate.py",
)
GENERATED: Final = {
    "docs/computation.md",
    "docs/formats.md",
    "tests/unit/formats/mlir/printed_operators.txt",
    "tosa_convert/builder/operators.pyi",
    "tosa_convert/formats/wire/layout.py",
    "tosa_convert/reference/__init__.pyi",
}
#: Tests that pass with the operator.
TESTED: Final = (
    "tests/docs/test_tables.py",
    "tests/docs/test_formats_doc.py",
    "tests/golden/test_every_operator.py",
    "tests/golden/test_generate.py::test_every_operator_of_the_table_is_generated_or_there_is_a_reason",
    "tests/pictures/test_diagram.py",
    "tests/reference/test_operations.py",
    "tests/rules/test_builder_operators.py",
    "tests/rules/test_negatives_of_rows.py",
    "tests/unit/formats/json/test_jsontext_fields.py",
    "tests/unit/formats/mlir/test_mlir_printer.py",
    "tests/unit/formats/wire/test_layout_generation.py",
    "tests/unit/graph/test_totality.py",
    "tests/unit/graph/test_versions.py",
)

PROGRAM: Final = """
import tempfile
from pathlib import Path
import numpy as np
import tosa_convert as tc
from tosa_convert import golden
from tosa_convert.builder import Builder
from tosa_convert.reference.evaluate import Machine

b = Builder("main")
x = b.input("x", "FP32", (2, 3))
b.output(b.round_even(b.abs(x), name="y"))
graph = b.graph()
assert tc.validate(graph) == [], tc.validate(graph)
b = Builder("main")
try:
    b.round_even(b.input("x", "INT32", (2, 3)))
except tc.TosaConvertError as error:
    assert "input1 is INT32" in str(error), error
else:
    raise AssertionError("INT32 is not refused")
for form in ("tosa", "json", "mlir", "mlirbc"):
    path = Path(tempfile.mkdtemp()) / f"m.{form}"
    tc.save(graph, path)
    again = tc.load(path)
    assert tc.compare(graph, again, names=True) is None, form
    assert [op.spec.name for op in again.main.operators] == ["ABS", "ROUND_EVEN"], form
x = np.array([[0.5, -1.5, 2.5], [1, 0.75, 3.5]], np.float32)
assert Machine(graph).run({"x": x})["y"].tolist() == [[0, 2, 2], [1, 1, 4]]
made = golden.generate(seed=2, operators=5, kinds=["ROUND_EVEN", "ADD"])
assert "ROUND_EVEN" in {op.spec.name for op in made.main.operators}
tc.save(graph, "m.tosa")
"""


def test_the_recipe_names_every_file_of_an_operator_and_there_are_ten() -> None:
    files = {name for name, _, _ in EDITS} | GENERATED
    steps = recipe("Add an operator")
    assert len(files) == 10
    for name in files:
        assert f"`{name}`" in steps, name
    assert all(f"`python {name}`" in steps for name in GENERATORS)


def test_the_steps_fit_the_files() -> None:
    refuse_stale(EDITS)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the checkout with the operator."""
    root = copy_checkout(tmp_path_factory.mktemp("recipe"), EDITS)
    for name in GENERATORS:
        run(root, name)
    return root


@pytest.mark.slow
def test_the_steps_change_the_ten_files_and_no_other(checkout: Path) -> None:
    assert changed(checkout) == {name for name, _, _ in EDITS} | GENERATED


@pytest.mark.slow
def test_a_program_with_the_operator_is_built_judged_written_read_generated_and_shown(
    checkout: Path,
) -> None:
    run(checkout, "-c", PROGRAM)
    stub = (checkout / "tosa_convert/builder/operators.pyi").read_text(encoding="utf-8")
    assert "def round_even(" in stub
    shown = run(checkout, "-m", "tosa_convert", "show", "m.tosa")
    assert "ROUND_EVEN" in shown
    picture = run(checkout, "-m", "tosa_convert", "report", "m.tosa", "--svg", "-o", "-")
    assert "ROUND_EVEN" in picture


@pytest.mark.slow
def test_the_tests_of_the_copy_pass(checkout: Path) -> None:
    options = ("-q", "-n", "0", "-p", "no:cacheprovider", "--no-header", "-rfE")
    output = run(checkout, "-m", "pytest", *options, *TESTED)
    assert re.search(r"\d+ passed", output), output
