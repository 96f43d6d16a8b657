"""Write the signatures of the builder's functions for type checkers and editors.

    python schema/generate_stubs.py            # writes tosa_convert/builder/operators.pyi
    python schema/generate_stubs.py --check    # exit code 1 if the file is not up to date

The functions are made from the operator table when the package is imported, so that type checkers do not
see them; this file has their signatures, and what editors show of them: types and rules.
"""

from __future__ import annotations

import sys
import textwrap
from inspect import Parameter
from pathlib import Path
from typing import Final

from tosa_convert.builder.calls import APART, parameters
from tosa_convert.graph.opset import OPERATORS, AttributeSpec, OperandSpec, OperatorSpec
from tosa_convert.rules.describe import conditions, type_lines

ROOT: Final = Path(__file__).resolve().parent.parent
STUB: Final = ROOT / "tosa_convert" / "builder" / "operators.pyi"

STUB_COMMAND: Final = "schema/generate_stubs.py"

_HEAD: Final = '''"""Signatures of the builder's functions; schema/generate_stubs.py writes this file."""

from collections.abc import Sequence

from tosa_convert.builder.block_builder import BlockBuilder
from tosa_convert.builder.values import DTypeLike, Operand, Sizes, Value
from tosa_convert.graph.dtypes import {enums}

class Operators(BlockBuilder):
    """A function for each operator.

    Types are those that a target with the profile takes together; BF16, FP8, INT4, INT48, INT64 and
    block-scaled types also need the extensions of these types.
    """

'''
_ATTRIBUTE_TYPES: Final = {
    "i32": "int",
    "i32s": "Sequence[int]",
    "bool": "bool",
    "dtype": "DTypeLike",
    "element": "float",
}


def stub() -> str:
    """Return the text of the file."""
    enums = {row.enum.__name__ for spec in OPERATORS for row in spec.attributes if row.enum}
    functions = [_function(spec) for spec in OPERATORS if spec.name not in APART]
    return _HEAD.format(enums=", ".join(sorted(enums))) + "".join(functions)


def _function(spec: OperatorSpec) -> str:
    words = ["self"]
    keyword = False
    for parameter in parameters(spec):
        if parameter.kind is Parameter.KEYWORD_ONLY and not keyword:
            words.append("*")
            keyword = True
        default = "" if parameter.default is Parameter.empty else " = ..."
        words.append(f"{parameter.name}: {_type(spec, parameter)}{default}")
    count = len(spec.results)
    result = "None" if not count else "Value"
    if any(row.arity for row in spec.results):
        result = "Value | tuple[Value, ...]"
    elif count > 1:
        result = f"tuple[{', '.join(['Value'] * count)}]"
    arguments = "".join(f"        {word},\n" for word in words)
    return f"    def {spec.name.lower()}(\n{arguments}    ) -> {result}:\n{_docstring(spec)}"


def _docstring(spec: OperatorSpec) -> str:
    """Return what an editor shows: the types that the operator takes, and its rules."""
    results = ", ".join(row.name for row in spec.results) or "nothing"
    lines = [f'"""Add the operator {spec.name}, which returns {results}.', "", "Types:"]
    lines += [f"    {line}" for line in type_lines(spec)] or ["    those of shapes"]
    rules = [f"    - {line}" for line in conditions(spec)]
    lines += ["", "Rules:", *rules] if rules else []
    return "".join(map(_wrapped, [*lines, '"""']))


def _wrapped(line: str) -> str:
    """Return a line of a docstring in the file, on several lines if it is long."""
    start = " " * (8 + len(line) - len(line.lstrip()))
    rows = textwrap.wrap(
        line.strip(),
        100,
        initial_indent=start,
        subsequent_indent=f"{start}  ",
        break_on_hyphens=False,
    )
    return "".join(f"{row}\n" for row in rows or [""])


def _type(spec: OperatorSpec, parameter: Parameter) -> str:
    if parameter.name == "dtype":
        return "DTypeLike | Sequence[DTypeLike] | None"
    if parameter.name == "name":
        return "str | Sequence[str]"
    if parameter.name == "scaled":
        return "bool"
    rows: dict[str, OperandSpec | AttributeSpec] = {row.name: row for row in spec.attributes}
    rows |= {row.name: row for row in spec.operands}
    row = rows[parameter.name]
    if isinstance(row, OperandSpec):
        kind = "Sizes" if row.is_shape else "Operand"
        if row.arity == "*":
            return f"Sequence[{kind}]"
    else:
        kind = f"{row.enum.__name__} | str" if row.enum else _ATTRIBUTE_TYPES[row.kind]
        if row.name == "block_size":
            kind = "BlockSize | int"
    return f"{kind} | None" if parameter.default is None else kind


def main() -> int:
    """Write or check the file."""
    text = stub()
    if "--check" in sys.argv[1:]:
        if STUB.read_text(encoding="utf-8") == text:
            return 0
        print(f"{STUB.name} is stale. To update it: python {STUB_COMMAND}", file=sys.stderr)
        return 1
    STUB.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
