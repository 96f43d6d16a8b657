"""Which function of a module is read, and which variables it may use."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain, islice
from typing import Final, NamedTuple

from tosa_convert.errors import MAX_FINDINGS, Finding, TosaConvertError, fail, suggest
from tosa_convert.formats.mlir.bytecode.attributes import FunctionType, TypeAttr
from tosa_convert.formats.mlir.bytecode.decode import Bytecode
from tosa_convert.formats.mlir.bytecode.operations import Fields, Operation
from tosa_convert.formats.mlir.locations import LocationReader, plain_location
from tosa_convert.formats.mlir.names import text_of
from tosa_convert.graph.opset import VARIABLE

MODULE: Final = "builtin.module"
FUNCTION: Final = "func.func"
GLOBAL: Final = "ml_program.global"
#: Operations of other dialects -> those that say the same here.
_SAME: Final = {
    **dict.fromkeys(("ml_program.func", "ml_program.subgraph"), FUNCTION),
    "ml_program.global_load_const": "ml_program.global_load",
    **dict.fromkeys(("ml_program.return", "ml_program.output", "util.return"), "func.return"),
    "util.global": GLOBAL,
    "util.global.load": "ml_program.global_load",
    "util.global.store": "ml_program.global_store",
}
#: Attributes of a module that belong to no dialect, and the values of the second one.
_OF_SYMBOLS: Final = ("sym_name", "sym_visibility")
_VISIBILITIES: Final = (None, "public", "private", "nested")
_PREFIXED: Final = "one whose name begins with that of a dialect"
#: Dialects whose operations may be at the top of a TOSA module.
_AROUND_TOSA: Final = ("builtin", "func", "ml_program", "tosa", "util")
#: Of several functions, one of which has to be chosen, so many are read, and so many are named.
_MOST_READ: Final = 16
_MOST_NAMED: Final = 50


class Function(NamedTuple):
    """A func.func. name: its symbol."""

    operation: Operation
    name: str
    is_public: bool


class Selection(NamedTuple):
    """What a module offers.

    functions: the function to read, or the first candidates if there are several.
    variables: the tosa.variable operations of the module.
    globals: its ml_program.global operations.
    findings: of symbols that are defined twice, of what MLIR does not allow, and one for each candidate
        if there are several. They are not raised at once, so that problems of the functions can be
        reported together with them.
    """

    functions: list[Function]
    variables: list[Operation]
    globals: list[Operation]
    findings: list[Finding]


def select(bytecode: Bytecode, func: str | None) -> Selection:
    """Select the function of a module to read."""
    use_common_names(bytecode)
    operations = _top_level(bytecode)
    LocationReader(bytecode)([bytecode.root.location, *(item.location for item in operations)])
    variables = [item for item in operations if bytecode.names[item.name] == VARIABLE.mlir]
    others = [item for item in operations if bytecode.names[item.name] == GLOBAL]
    functions = _functions(bytecode, operations)
    with_body = _with_body(functions)
    problems = chain(_repeated_symbols(bytecode, operations), _invalid(bytecode, operations))
    findings = list(islice(problems, MAX_FINDINGS))
    if func is not None:
        return Selection([_called(func, with_body)], variables, others, findings)
    if not with_body:
        raise _no_function(bytecode, functions, operations)
    candidates = [item for item in with_body if item.is_public] or with_body
    if len(candidates) > 1:
        findings += _ambiguous(bytecode, candidates)
    return Selection(candidates[:_MOST_READ], variables, others, findings)


def use_common_names(bytecode: Bytecode) -> None:
    """Give operations of other dialects the names of those that say the same here."""
    bytecode.names = [_SAME.get(name, name) for name in bytecode.written_names]


def _invalid(bytecode: Bytecode, operations: list[Operation]) -> Iterator[Finding]:
    """Find what MLIR does not allow at the top of a module, or as attributes there."""
    locations, root = LocationReader(bytecode), bytecode.root

    def finding(operation: Operation, found: str, expected: str) -> Finding:
        where = plain_location(locations.full(operation.location))
        subject = f"'{bytecode.names[operation.name]}'"
        return Finding("malformed-structure", where, f"{subject} has {found}, expected {expected}")

    for operation in operations if operations[:1] == [root] else (root, *operations):
        name = bytecode.names[operation.name]
        attributes = bytecode.dictionary(operation.attributes)
        _decode_all(bytecode, attributes.values())
        if name not in (MODULE, FUNCTION):
            continue
        if operation.types or operation.operands:
            yield finding(operation, "operands or results", "none")
        if len(operation.regions) != 1:
            yield finding(operation, f"{len(operation.regions)} regions", "1")
        if name == MODULE:
            blocks = sum(len(region.blocks) for region in operation.regions)
            if blocks > 1:
                yield finding(operation, f"{blocks} blocks", "1")
            for key in attributes:
                if "." not in key and key not in _OF_SYMBOLS:
                    yield finding(operation, f"an attribute {key!r}", _PREFIXED)
            continue
        visibility = text_of(bytecode, attributes.get(_OF_SYMBOLS[1]))
        if visibility not in _VISIBILITIES:
            expected = ", ".join(filter(None, _VISIBILITIES))
            yield finding(operation, f"the visibility {visibility!r}", expected)
        signature = signature_of(bytecode, operation) or ((), ())
        for key, types in zip(("arg_attrs", "res_attrs"), signature, strict=True):
            listed = bytecode.attribute(attributes[key]) if key in attributes else [-1] * len(types)
            if not isinstance(listed, list) or len(listed) != len(types):
                yield finding(operation, key, f"an array of {len(types)} dictionaries")
                continue
            for entry in chain.from_iterable(map(bytecode.dictionary, dict.fromkeys(listed))):
                if "." not in entry:
                    yield finding(operation, f"an attribute {entry!r} in {key}", _PREFIXED)


def _decode_all(bytecode: Bytecode, numbers: Iterable[int]) -> None:
    """Decode attributes with all inside them, so that damaged ones are refused."""
    pending, seen = list(numbers), set(numbers)
    while pending:
        found = bytecode.attribute(pending.pop())
        if isinstance(found, (dict, list)):
            parts = set(found.values() if isinstance(found, dict) else found) - seen
            pending += parts
            seen |= parts


def signature_of(bytecode: Bytecode, function: Operation) -> FunctionType | None:
    number = bytecode.dictionary(function.attributes).get("function_type")
    attribute = None if number is None else bytecode.attribute(number)
    found = attribute.type if isinstance(attribute, TypeAttr) else None
    return found if isinstance(found, FunctionType) else None


def names_with_body(bytecode: Bytecode) -> list[str]:
    use_common_names(bytecode)
    return [item.name for item in _with_body(_functions(bytecode, _top_level(bytecode)))]


def bodies_of(bytecode: Bytecode) -> dict[str, Operation]:
    """Return the functions of a bytecode's module that have a body, by their names."""
    whole = bytecode.rooted(bytecode.module)
    found = _with_body(_functions(whole, _top_level(whole)))
    return {item.name: item.operation for item in found}


def _with_body(functions: list[Function]) -> list[Function]:
    return [item for item in functions if any(row.blocks for row in item.operation.regions)]


def _top_level(bytecode: Bytecode) -> list[Operation]:
    root = bytecode.root
    name = bytecode.names[root.name]
    if name == FUNCTION:
        return [root]
    if name == MODULE:
        return [
            Operation(*fields)
            for region in root.regions
            for block in region.blocks
            for fields in block.operations
        ]

    where = plain_location(LocationReader(bytecode).full(root.location))
    message = f"found the operation '{name}' at the top level, expected a {MODULE} or a {FUNCTION}"
    raise fail("foreign-operator", where, message, lowering_hint(name.partition(".")[0]))


def _functions(bytecode: Bytecode, operations: list[Operation]) -> list[Function]:
    functions = []
    for operation in operations:
        if bytecode.names[operation.name] == FUNCTION:
            attributes = bytecode.dictionary(operation.attributes)
            name = text_of(bytecode, attributes.get("sym_name")) or ""
            visibility = text_of(bytecode, attributes.get("sym_visibility"))
            functions.append(Function(operation, name, visibility in (None, "public")))
    return functions


def _called(func: str, functions: list[Function]) -> Function:
    name = func.removeprefix("@")
    for function in functions:
        if function.name == name:
            return function
    raise fail(
        "unknown-function",
        "",
        f"no function @{name} with a body; "
        f"found {_listing(functions) or 'no function with a body'}",
        suggest(f"@{name}", [f"@{row.name}" for row in functions]),
    )


def _no_function(
    bytecode: Bytecode, functions: list[Function], operations: list[Operation]
) -> TosaConvertError:
    """Return the error for a module without a function: it names the operations there are instead."""
    locations = LocationReader(bytecode)
    others = [
        (operation, name)
        for operation in operations
        if (name := bytecode.names[operation.name]).partition(".")[0] not in _AROUND_TOSA
    ]
    foreign = [
        Finding(
            "foreign-operator",
            plain_location(locations.full(operation.location)) or f"'{name}'",
            f"'{name}' is not a TOSA operator",
            lowering_hint(name),
        )
        for operation, name in others[:MAX_FINDINGS]
    ]
    if foreign:
        return TosaConvertError(foreign)
    found = f"only declarations: {_listing(functions)}" if functions else f"no {FUNCTION}"
    message = f"found {found}, expected a function with a body at the top level of the module"
    return fail("no-function", plain_location(locations.full(bytecode.root.location)), message)


def _repeated_symbols(bytecode: Bytecode, operations: list[Operation]) -> Iterator[Finding]:
    """Report symbols that two operations of a module define; variables are reported elsewhere."""
    locations = LocationReader(bytecode)
    defined: dict[str, bool] = {}
    for operation in operations:
        symbol = text_of(bytecode, bytecode.dictionary(operation.attributes).get("sym_name"))
        if symbol is None:
            continue
        is_variable = bytecode.names[operation.name] == VARIABLE.mlir
        if symbol in defined and not (is_variable and defined[symbol]):
            where = plain_location(locations.full(operation.location))
            yield Finding("duplicate-name", where, f"the symbol @{symbol} is defined twice")
        defined[symbol] = is_variable


def _ambiguous(bytecode: Bytecode, functions: list[Function]) -> list[Finding]:
    locations, count = LocationReader(bytecode), len(functions)
    functions = functions[:MAX_FINDINGS]
    listing = _listing(functions)
    # A text with more is not parsed to its end.
    number = str(count) if count <= MAX_FINDINGS else f"more than {MAX_FINDINGS}"
    return [
        Finding(
            "ambiguous-function",
            plain_location(locations.full(function.operation.location)),
            f"function @{function.name} is one of {number} that could be exported: {listing}",
        )
        for function in functions
    ]


def _listing(functions: list[Function]) -> str:
    more = len(functions) - _MOST_NAMED
    names = ", ".join(f"@{function.name}" for function in functions[:_MOST_NAMED])
    return f"{names} and {more} more" if more > 0 else names


def operations_named(root: Operation, names: Collection[int]) -> Iterator[Operation]:
    """Iterate over operations in an operation's regions whose names have these indices, in order."""
    pending: list[Iterator[Fields]] = [_inside(root)]
    while pending:
        fields = next(pending[-1], None)
        if fields is None:
            pending.pop()
            continue
        operation = Operation(*fields)
        if operation.name in names:
            yield operation
        if operation.regions:
            pending.append(_inside(operation))


def _inside(operation: Operation) -> Iterator[Fields]:
    blocks = (block for region in operation.regions for block in region.blocks)
    return chain.from_iterable(block.operations for block in blocks)


_FIRST: Final = "lower it to TOSA before exporting"

_BY_CONVERT: Final = (
    "tosa-flatbuffer-convert does it, or tosa_convert.frontends.from_file, with the extra"
)
#: Dialects above TOSA -> what lowers them to TOSA.
_LOWERING: Final = {
    **dict.fromkeys(("stablehlo", "chlo", "vhlo", "mhlo"), f"{_BY_CONVERT} `jax`"),
    "torch": f"{_BY_CONVERT} `mlir`",
    "tfl": "convert the .tflite file that the text was made from, with tosa-flatbuffer-convert",
    "tf": "convert the SavedModel or the .pb file, with tosa-flatbuffer-convert",
    "onnx": "convert the .onnx file that the text was made from, with tosa-flatbuffer-convert",
}

#: Dialects that TOSA is lowered to; no pass leads back.
_BELOW: Final = frozenset(
    ("affine", "bufferization", "cf", "gpu", "linalg", "llvm", "math", "memref", "scf", "vector")
)


def lowering_hint(operator: str) -> str:
    """Return the hint for an operator of another dialect.

    Example:
        >>> lowering_hint("linalg.matmul")
        'lower it to TOSA before exporting; if TOSA was lowered to linalg, export before that pass'
    """
    dialect = operator.partition(".")[0]
    if dialect in _LOWERING:
        return f"{_FIRST}: {_LOWERING[dialect]}"
    if dialect in _BELOW:
        return f"{_FIRST}; if TOSA was lowered to {dialect}, export before that pass"
    return _FIRST
