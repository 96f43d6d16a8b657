"""Write the signatures of functions of operators, for type checkers and editors.

    python schema/generate_stubs.py            # writes the two files of STUBS
    python schema/generate_stubs.py --check    # exit code 1 if one is not up to date

The functions are made from the operator table when they are used, so that type checkers do not see them;
the files have their signatures, and what editors show of them: types and rules.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Sequence
from inspect import Parameter
from pathlib import Path
from typing import Final

from tosa_convert.builder.calls import APART, parameters
from tosa_convert.graph.opset import OPERATORS, AttributeSpec, OperandSpec, OperatorSpec
from tosa_convert.reference.evaluate import definition
from tosa_convert.rules.describe import conditions, type_lines
from tosa_convert.rules.types import rows as type_rows

ROOT: Final = Path(__file__).resolve().parent.parent
STUB: Final = ROOT / "tosa_convert" / "builder" / "operators.pyi"
LIBRARY_STUB: Final = ROOT / "tosa_convert" / "reference" / "__init__.pyi"

STUB_COMMAND: Final = "schema/generate_stubs.py"

_HEAD: Final = '''"""Signatures of the builder's functions; schema/generate_stubs.py writes this file."""

from collections.abc import Sequence
from typing import TypeAlias

from tosa_convert.builder.block_builder import BlockBuilder
from tosa_convert.builder.values import DTypeLike, Operand, Sizes, Value
from tosa_convert.graph.dtypes import {enums}

_DTypes: TypeAlias = DTypeLike | Sequence[DTypeLike] | None
_Names: TypeAlias = str | Sequence[str]

class Operators(BlockBuilder):
    """A function for each operator.

    Types are those that a target with the profile takes together; BF16, FP8, INT4, INT48, INT64 and
    block-scaled types also need the extensions of these types.
    """

'''
#: Columns of a line, as in pyproject.toml.
_WIDTH: Final = 100
_ATTRIBUTE_TYPES: Final = {
    "i32": "int",
    "i32s": "Sequence[int]",
    "bool": "bool",
    "dtype": "DTypeLike",
    "element": "float",
}


def stub() -> str:
    """Return the text of the file for the builder."""
    functions = [_function(spec) for spec in OPERATORS if spec.name not in APART]
    return _HEAD.format(enums=_enums()) + "".join(functions)


def _enums() -> str:
    enums = {row.enum.__name__ for spec in OPERATORS for row in spec.attributes if row.enum}
    return ", ".join(sorted(enums))


def _function(spec: OperatorSpec) -> str:
    count = len(spec.results)
    result = "None" if not count else "Value"
    if any(row.arity for row in spec.results):
        result = "Value | tuple[Value, ...]"
    elif count > 1:
        result = f"tuple[{', '.join(['Value'] * count)}]"
    results = ", ".join(row.name for row in spec.results) or "nothing"
    first = f"Add the operator {spec.name}, which returns {results}."
    words = ["self", *_arguments(spec, _type)]
    return _definition(spec, words, result, "    ") + _docstring(spec, [first], "        ")


def _arguments(spec: OperatorSpec, type_: Callable[[OperatorSpec, Parameter], str]) -> list[str]:
    words = []
    for parameter in parameters(spec):
        if parameter.kind is Parameter.KEYWORD_ONLY and "*" not in words:
            words.append("*")
        default = "" if parameter.default is Parameter.empty else " = ..."
        words.append(f"{parameter.name}: {type_(spec, parameter)}{default}")
    return words


def _definition(
    spec: OperatorSpec, words: Sequence[str], result: str, indent: str, body: str = ""
) -> str:
    """Return a signature in the form of `ruff format`, on as few lines as it fits."""
    start, end = f"{indent}def {spec.name.lower()}(", f") -> {result}:{body}"
    lines = f"{start}{', '.join(words)}{end}", f"{indent}    {', '.join(words)}"
    if len(lines[0]) <= _WIDTH:
        return lines[0]
    if len(lines[1]) > _WIDTH:
        lines = "", ",\n".join(f"{indent}    {word}" for word in words) + ","
    return f"{start}\n{lines[1]}\n{indent}{end}"


def _docstring(spec: OperatorSpec, first: Sequence[str], indent: str) -> str:
    """Return what an editor shows: the types that the operator takes, and its rules."""
    head, *others = first
    lines = [f'"""{head}', *others, "", "Types:"]
    lines += [f"    {line}" for line in type_lines(spec)] or ["    those of shapes"]
    rules = [f"    - {line}" for line in conditions(spec)]
    lines += ["", "Rules:", *rules] if rules else []
    return "\n" + "".join(_wrapped(line, indent) for line in [*lines, '"""'])


# -- the functions of arrays ---------------------------------------------------------------------

_LIBRARY_HEAD: Final = '''"""Functions of arrays; schema/generate_stubs.py writes this file."""

from collections.abc import Sequence
from typing import Literal, overload

from tosa_convert.builder.values import Data, DTypeLike
from tosa_convert.golden.arrays import Array
from tosa_convert.golden.running.operator_functions import GraphStatus as GraphStatus
from tosa_convert.golden.running.operator_functions import run as run
from tosa_convert.graph.dtypes import {enums}
from tosa_convert.reference.block_scaled import Scaled as Scaled

'''


def library_stub() -> str:
    """Return the text of the file for the functions of arrays."""
    functions = [_library_function(spec) for spec in OPERATORS if spec.name not in APART]
    text = _LIBRARY_HEAD.format(enums=_enums()) + "\n".join(functions)
    return text.replace(": ...\n\n", ": ...\n")


def _library_function(spec: OperatorSpec) -> str:
    """Return the signature; two if the result can be block-scaled."""
    count = len(spec.results)
    result = (
        "Array" if count == 1 else f"tuple[{', '.join(['Array'] * count)}]" if count else "None"
    )
    if any(row.arity for row in spec.results):
        result = f"Array | {result}"
    paragraphs = definition(spec.name).split("\n\n")
    text = [row for part in paragraphs for row in ("", *textwrap.wrap(" ".join(part.split()), 92))]
    doc = _docstring(spec, text[1:], "    ")
    tensors = [row.name for row in spec.operands if not row.is_shape]
    pairs = [pair for row in type_rows(spec) for pair in zip(tensors, row.operands, strict=False)]
    blocks = {name for name, one in pairs if isinstance(one, tuple)}

    def signature(kind: str, operand: str) -> str:
        def type_(spec: OperatorSpec, parameter: Parameter) -> str:
            if parameter.name == "scaled":
                return f"Literal[{kind == 'Scaled'}]"
            text = _type(spec, parameter).replace("Sizes", "Sequence[int] | Array")
            several = "DTypeLike | None" if count == 1 else "DTypeLike | Sequence[DTypeLike] | None"
            text = text.replace("_DTypes", several)
            return text.replace("Operand", operand if parameter.name in blocks else "Data")

        words = [word.replace("dtype:", "out_type:") for word in _arguments(spec, type_)]
        words = [word for word in words if not word.startswith("name:")]
        words = [word.replace("[True] = ...", "[True]") for word in words]
        body = " ..." if kind == "Scaled" else ""
        return _definition(spec, words[:-1] if words[-1:] == ["*"] else words, kind, "", body)

    if not any(isinstance(one, tuple) for row in type_rows(spec) for one in row.results):
        return signature(result, "Data | Scaled") + doc
    of_blocks = signature("Scaled", "Data | Scaled" if spec.name == "CAST" else "Scaled")
    if spec.name != "CAST":  # Scaled is a tuple, so a sequence too
        first, *others = of_blocks.split("\n")
        of_blocks = "\n".join([f"{first}  # type: ignore[overload-overlap]", *others])
    return f"@overload\n{of_blocks}\n@overload\n{signature(result, 'Data | Scaled')}{doc}"


def _wrapped(line: str, indent: str) -> str:
    """Return a line of a docstring in the file, on several lines if it is long."""
    start = indent + " " * (len(line) - len(line.lstrip()))
    rows = textwrap.wrap(
        line.strip(),
        _WIDTH,
        initial_indent=start,
        subsequent_indent=f"{start}  ",
        break_on_hyphens=False,
    )
    return "".join(f"{row}\n" for row in rows or [""])


def _type(spec: OperatorSpec, parameter: Parameter) -> str:
    if parameter.name == "dtype":
        return "_DTypes"
    if parameter.name == "name":
        return "_Names"
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


#: File -> what makes its text.
STUBS: Final = {STUB: stub, LIBRARY_STUB: library_stub}


def main() -> int:
    """Write or check the files."""
    stale = 0
    for path, make in STUBS.items():
        if "--check" not in sys.argv[1:]:
            path.write_text(make(), encoding="utf-8")
        elif path.read_text(encoding="utf-8") != make():
            print(f"{path.name} is stale. To update it: python {STUB_COMMAND}", file=sys.stderr)
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
