"""Which programs read a file, why others do not, and the command that writes a file which they read."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final, Literal

from tosa_convert.errors import Finding
from tosa_convert.file_consumers import CONSUMERS, OTHER_CONSUMERS, Consumer, Form
from tosa_convert.formats import FORMATS, MLIR_FORMATS, Format
from tosa_convert.graph.model import Graph, counted
from tosa_convert.graph.opset import CONST, CONST_SHAPE
from tosa_convert.spec.public import validate
from tosa_convert.spec.readers import reader_findings

#: All programs, by name.
READERS: Final = CONSUMERS | OTHER_CONSUMERS
#: Findings of one program that are kept; a program may refuse each of many tensors.
_MOST: Final = 1000
_CODE: Final = "unsupported-by-reader"
#: Bytes above which a `.tosa` file cannot have its weights embedded.
_EMBEDDED_LIMIT: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class StoredProgram:
    """A file and how it stores its program.

    weights: the forms in which its constants are stored; empty if it has none.
    weight_bytes: how many bytes they take.
    generic: MLIR text in generic form. bytecode: the version of MLIR bytecode; 0 for other formats.
    """

    path: str
    format: Format
    weights: frozenset[Form] = frozenset()
    weight_bytes: int = 0
    generic: bool = False
    bytecode: int = 0


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Whether a program reads a file.

    reader: the program. reads: whether it reads the file.
    findings: why it does not.
    command: writes a file that it reads; "" if it reads this one, or if no command helps.
    """

    reader: Consumer
    reads: bool
    findings: tuple[Finding, ...] = ()
    command: str = ""


def diagnose(
    graph: Graph, stored: StoredProgram, readers: list[str] | None = None
) -> list[Diagnosis]:
    """For each program whether it reads a file, from the facts of `file_consumers`.

    Args:
        graph: the program in the file, which `verify` finds sound.
        stored: how the file stores it.
        readers: names of `READERS`; None for all.

    Example:
        >>> import tosa_convert as tc
        >>> graph = tc.load("digits_cnn.tosa")
        >>> stored = StoredProgram("digits_cnn.tosa", "tosa", frozenset({"embedded"}), 40000)
        >>> for row in diagnose(graph, stored, ["tosa-opt", "iree"]):
        ...     print(row.reader.name, row.reads, row.command or "-")
        tosa-opt True -
        iree False tosa-flatbuffer convert digits_cnn.tosa -o digits_cnn_for_iree.mlirbc
    """
    forbidden = validate(graph)
    return [
        _diagnosis(graph, stored, READERS[name], forbidden)
        for name in (READERS if readers is None else readers)
    ]


def _diagnosis(
    graph: Graph, stored: StoredProgram, reader: Consumer, forbidden: list[Finding]
) -> Diagnosis:
    of_file = [Finding(_CODE, "", message) for message in _file_problems(graph, stored, reader)]
    of_program: list[Finding] = []
    if forbidden and not reader.lenient:
        message = f"TOSA forbids the program: {counted(len(forbidden), 'finding')}"
        hint = f"tosa-flatbuffer validate {shlex.quote(stored.path)}"
        of_program.append(Finding(_CODE, "", message, hint))
    # Only what reads the flatbuffer itself needs constants: MLIR's text and bytecode have any operands.
    facts = reader._replace(constants="") if stored.format in MLIR_FORMATS else reader
    for finding in reader_findings(graph, facts):
        of_program.append(finding)
        if len(of_program) == _MOST:
            break
    if reader.weights == ("embedded",) and stored.weight_bytes > _EMBEDDED_LIMIT:
        message = f"{reader.name} reads only embedded weights, and these are larger than 2 GiB"
        of_program.append(Finding(_CODE, "", message))
    command = _command(stored, reader) if of_file and not of_program else ""
    findings = (*of_file, *of_program)
    return Diagnosis(reader, not findings, findings, command)


def _file_problems(graph: Graph, stored: StoredProgram, reader: Consumer) -> Iterator[str]:
    """Why a program does not read a file, whatever program of TOSA it has."""
    if stored.format not in reader.formats:
        yield f"{reader.name} reads {_listed(reader)}, not {FORMATS[stored.format]}"
        return
    if stored.format in ("tosa", "json"):
        for form in sorted(stored.weights - set(reader.weights)):
            text = {"offset": "after the flatbuffer", "npy": "in .npy files"}.get(form, form)
            yield f"the weights are {text}: {reader.name} {reader.otherwise}"
    if stored.format == "mlir" and reader.generic_text and not stored.generic:
        if _has_attributes(graph):
            yield f"{reader.name} reads MLIR text only in generic form"
    if reader.old_variables and stored.bytecode > _LAST_WITHOUT_PROPERTIES:
        if any(tensor.variable for _, block in graph.blocks() for tensor in block.tensors.values()):
            yield (
                f"{reader.name} reads variables in MLIR bytecode only up to version "
                f"{_LAST_WITHOUT_PROPERTIES}, found version {stored.bytecode}"
            )


#: Later versions of MLIR bytecode store properties, whose layout differs between builds of MLIR.
_LAST_WITHOUT_PROPERTIES: Final = 4


def _listed(reader: Consumer) -> str:
    *first, last = (FORMATS[name] for name in reader.formats)
    return f"{', '.join(first)} and {last}" if first else last


def _has_attributes(graph: Graph) -> bool:
    """Whether an operation has attributes, whose custom form differs between builds of MLIR."""
    return any(
        operator.attributes or operator.spec in (CONST, CONST_SHAPE)
        for _, block in graph.blocks()
        for operator in block.operators
    )


def _command(stored: StoredProgram, reader: Consumer) -> str:
    """The command that writes a file that a program reads."""
    path = PurePath(stored.path)
    to: Literal["tosa", "mlirbc"] = "tosa" if "tosa" in reader.formats else "mlirbc"
    target = path.with_name(f"{path.stem}_for_{reader.name}.{to}")
    moves_weights = to == "tosa" and stored.format not in MLIR_FORMATS
    words = ["tosa-flatbuffer", "repack" if moves_weights else "convert"]
    words += [str(path), "-o", str(target)]
    if to == "tosa" and reader.name in CONSUMERS:
        words += ["--for", reader.name]
    return shlex.join(words)
