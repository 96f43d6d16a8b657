"""Which programs read a file, why others do not, and the command that writes a file which they read."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from itertools import islice
from pathlib import PurePath
from typing import Final, Literal

from tosa_convert.consumers.readers import (
    CONSUMERS,
    Consumer,
    Form,
    every_reader,
    listed_formats,
    reader_named,
)
from tosa_convert.consumers.unread import adapted, program_findings
from tosa_convert.eras.dialect_states import BYTECODE, state_of
from tosa_convert.eras.downgrade import has_form_of
from tosa_convert.errors import Finding, fail
from tosa_convert.graph.model import Graph, counted
from tosa_convert.graph.opset import CONST, CONST_SHAPE
from tosa_convert.graph.verify import verify
from tosa_convert.io.formats import FORMATS, MLIR_FORMATS, WEIGHT_FILES, Format
from tosa_convert.remedies import with_file
from tosa_convert.rules.public import find_violations

#: Packages that read or make TOSA, or models, beside those of the tables of readers and of frontends.
FURTHER: Final = (
    *("executorch", "torchao", "torchvision", "tosa-converter-for-tflite"),
    *("mlia", "mlia-ethos-u", "mlia-converters-litert", "mlia-converters-pytorch"),
    *("ai-edge-model-explorer", "jaxlib", "iree-base-runtime", "tosa-convert"),
)


@dataclass(frozen=True, slots=True)
class Misfit:
    """Describe a requirement of an installed package that what is installed does not meet.

    package, release: what requires it. needs: the requirement, as pip takes it.
    found: the release that is installed; "" if there is none.
    """

    package: str
    release: str
    needs: str
    found: str

    def __str__(self) -> str:
        state = f"{self.found} is installed" if self.found else "it is not installed"
        return f"{self.package} {self.release} needs {self.needs}, and {state}"

    @property
    def command(self) -> str:
        """Return the command that installs what is required."""
        return f"pip install {shlex.quote(self.needs)}"


def installed_release(package: str) -> str:
    """Return the release of a package that is installed in this Python, or ""."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def misfits(packages: Iterable[str]) -> Iterator[Misfit]:
    """Find requirements of installed packages that are not met; needs the package `packaging`."""
    try:
        from packaging.requirements import Requirement
    except ImportError:
        message = "it is not installed, and doctor compares requirements with it"
        raise fail("missing-backend", "packaging", message, "pip install packaging") from None
    for package in packages:
        try:
            found = metadata.distribution(package)
        except metadata.PackageNotFoundError:
            continue
        for text in found.requires or ():
            needed = Requirement(text)
            if needed.marker is not None and not needed.marker.evaluate({"extra": ""}):
                continue
            here = installed_release(needed.name)
            if not here or not needed.specifier.contains(here, prereleases=True):
                needs = f"{needed.name}{needed.specifier}"
                yield Misfit(package, found.version, needs, here)


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
    is_old: it has operations in the form of an older TOSA, or is a `.tosa` file of an older version.
    is_written_for: whether it is what `save` writes for the dialect of a month.
    """

    path: str
    format: Format
    weights: frozenset[Form] = frozenset()
    weight_bytes: int = 0
    generic: bool = False
    bytecode: int = 0
    is_old: bool = False
    is_written_for: Callable[[str], bool] = lambda month: False


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
    """Find for each program whether it reads a file, from the facts of `readers`."""
    forbidden = find_violations(graph)
    is_sound = not forbidden or not verify(graph)
    return [
        _diagnosis(graph, stored, reader_named(name), forbidden, is_sound=is_sound)
        for name in (every_reader() if readers is None else readers)
    ]


def _diagnosis(
    graph: Graph,
    stored: StoredProgram,
    reader: Consumer,
    forbidden: list[Finding],
    *,
    is_sound: bool,
) -> Diagnosis:
    of_file = [Finding(_CODE, "", message) for message in _file_problems(graph, stored, reader)]
    of_program: list[Finding] = []
    if forbidden and not reader.lenient:
        message = f"TOSA forbids the program: {counted(len(forbidden), 'finding')}"
        hints = [with_file(row.hint, stored.path) for row in forbidden if row.hint]
        hint = f"tosa-flatbuffer validate {shlex.quote(stored.path)}"
        hint = "; ".join(dict.fromkeys([*hints, hint]))
        of_program.append(Finding(_CODE, "", message, hint))
    written = stored.format if stored.format in reader.formats else reader.formats[0]
    if is_sound or reader.lenient:
        mlir = written in MLIR_FORMATS
        unread = list(islice(program_findings(graph, reader, mlir=mlir), _MOST))
        # What rewrites for the reader change is a matter of how the file is written.
        is_adapted = is_sound and bool(unread) and adapted(graph, reader, mlir=mlir) is not graph
        (of_file if is_adapted else of_program).extend(unread)
    if not of_program:
        of_file += (
            Finding(_CODE, "", message) for message in _form_problems(graph, stored, reader)
        )
    if reader.weights == ("embedded",) and stored.weight_bytes > _EMBEDDED_LIMIT:
        message = f"{reader.name} reads only embedded weights, and these are larger than 2 GiB"
        of_program.append(Finding(_CODE, "", message))
    command = _command(stored, reader) if of_file and not of_program else ""
    findings = (*of_file, *of_program)
    return Diagnosis(reader, not findings, findings, command)


def _form_problems(graph: Graph, stored: StoredProgram, reader: Consumer) -> Iterator[str]:
    """Find why a program does not read the form of an MLIR file, though there is one that it reads."""
    if stored.format not in MLIR_FORMATS or stored.format not in reader.formats or reader.lenient:
        return
    if not stored.is_old:
        is_plain = stored.generic if stored.format == "mlir" else stored.bytecode <= 1
        is_read = is_plain or reader.every_form
        if not reader.dialect or (is_read and has_form_of(graph, state_of(reader.dialect))):
            return
    if reader.dialect and stored.is_written_for(reader.dialect):
        return
    if stored.is_old:
        yield "the file has the form of an older TOSA" + (
            f", which need not be that of {reader.release}" if reader.dialect else ""
        )
    else:
        yield f"{reader.release} reads only the form of its TOSA dialect, of {reader.dialect}"


def _file_problems(graph: Graph, stored: StoredProgram, reader: Consumer) -> Iterator[str]:
    """Find why a program does not read a file, whatever program of TOSA it has."""
    if stored.format not in reader.formats:
        yield f"{reader.name} reads {listed_formats(reader)}, not {FORMATS[stored.format]}"
        return
    if stored.format in ("tosa", "json"):
        if stored.is_old != bool(reader.tosa) and not (stored.is_old and reader.old_tosa):
            yield (
                f"{reader.release} reads only TOSA flatbuffers of version {reader.tosa}"
                if reader.tosa
                else f"the file is of TOSA 0.80, which {reader.release} does not read"
            )
        for form in sorted(stored.weights - set(reader.weights)):
            row = WEIGHT_FILES.get(form)
            text = "after the flatbuffer" if row is None else row.where
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


def _has_attributes(graph: Graph) -> bool:
    """Return whether an operation has attributes, whose custom form differs between builds of MLIR."""
    return any(
        operator.attributes or operator.spec in (CONST, CONST_SHAPE)
        for _, block in graph.blocks()
        for operator in block.operators
    )


def _command(stored: StoredProgram, reader: Consumer) -> str:
    path = PurePath(stored.path)
    to: Literal["tosa", "mlir", "mlirbc"] = "tosa" if "tosa" in reader.formats else "mlirbc"
    if reader.dialect and to == "mlirbc" and state_of(reader.dialect) < BYTECODE:
        to = "mlir"
    target = path.with_name(f"{path.stem}_for_{reader.name}.{to}")
    moves_weights = to == "tosa" and stored.format not in MLIR_FORMATS
    words = ["tosa-flatbuffer", "repack" if moves_weights else "convert"]
    words += [str(path), "-o", str(target)]
    if (to == "tosa" and reader.name in CONSUMERS) or reader.dialect:
        version = f"=={reader.release.split()[1]}" if reader.dialect or reader.tosa else ""
        words += ["--for", f"{reader.spelling}{version}"]
    return shlex.join(words)
