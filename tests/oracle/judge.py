"""Compare what we make of a program with what the outside tools make of it.

A Judge takes official flatbuffers and MLIR modules, and gives a Verdict for each with every
difference found. What the outside tools refuse or get wrong is recognised by their message or by a
rule stated here, never by a file's name. The verdict then has the reason, and others decide: the
official file itself, MLIR's verifier, the reference model.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from oracle.file_json import CORRECTIONS, MANY_VARIABLES, first_difference, operators_of, simplified
from oracle.outside_tools import Refused, TosaOpt, flatc_json, reference_run

import tosa_convert as tc
from tosa_convert.formats.bindings.packages import default_bindings

#: The fastest file system for temporary files.
_MEMORY: Final = Path("/dev/shm")

#: The message of tosa-opt when it refuses to read a sound file -> why. Its reader folds zero points into
#: attributes to build an operator, although its own writer and the reference model take them.
_REFUSES_SOUND: Final = {
    "ERROR: cannot retrieve the zero points from op": "its reader wants constant zero points",
}
#: The message of MLIR's verifier.
_VERIFIER: Final = re.compile(r"error: (?P<message>'tosa\.\w+' op .*)")

#: Allowed differences of printed modules: generated names, and a requested version.
_NAME: Final = re.compile(r'tosa\.tensor_name = "(?:[^"\\]|\\.)*"')
_STAMP: Final = re.compile(r'tosa\.fbs_version = "([^"]*)"')
#: The versions we write. The generator also makes files of a draft of 1.0, which come back as these.
_WRITTEN: Final = {"1.0.0", "1.1.0d"}
_VARIABLE: Final = '  "tosa.variable"('


@dataclass
class Verdict:
    """The result for one program.

    exported: our file has tosa-opt's JSON, and tosa-opt reads it. imported: our module is tosa-opt's.
    returned: imported and exported again it is the original. ran: the reference model computes the
    same bytes. None: not judged.
    reason: why an outside tool could not judge, or what it does wrong.
    """

    file: str
    operators: set[str] = field(default_factory=set)
    exported: bool | None = None
    imported: bool | None = None
    returned: bool | None = None
    ran: bool | None = None
    reason: str = ""
    differences: list[str] = field(default_factory=list)

    def check(self, what: str, difference: str) -> bool:
        """Record a difference, if any; return whether there is none."""
        if difference:
            self.differences.append(f"{what}: {difference}")
        return not difference


class Judge:
    """Judges programs in a scratch folder of its own; use it as a context."""

    def __init__(self) -> None:
        parent = _MEMORY if _MEMORY.is_dir() else None
        self.folder = tempfile.TemporaryDirectory(prefix="judge-", dir=parent)
        self.scratch = Path(self.folder.name)
        self.tosa_opt = TosaOpt(self.scratch)
        self.bindings = default_bindings("torch_mlir")
        self.context = self.bindings.new_context()

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_: object) -> None:
        self.folder.cleanup()

    def file(self, file: Path) -> Verdict:
        """Judge an official flatbuffer; its folder holds the test's description and inputs."""
        verdict = Verdict(str(file))
        self.context = self.bindings.new_context()
        module = self.scratch / "theirs.mlirbc"
        refused = self.tosa_opt.read(file, module)
        try:
            built = self.load(file, names="generate", constants="dense")
        except tc.TosaConvertError as error:
            self.unbuildable(verdict, file, refused, error)
            return verdict
        if refused is None:
            theirs = self.parse(module)
            verdict.imported = verdict.check("import", text_difference(show(theirs), show(built)))
        elif refused.message in _REFUSES_SOUND:
            verdict.reason = _REFUSES_SOUND[refused.message]
            # Its writer accepts what its reader does not: let it write what we have read.
            theirs = built
            module.write_bytes(bytecode(built))
        else:
            verdict.check("tosa-opt refuses the file", str(refused))
            return verdict
        expected = str(refused) if refused else plain(show(theirs))
        self.export(verdict, theirs, module, expected)
        back = self.scratch / "back.tosa"
        tc.export_tosa_func_to_flatbuffer(self.load(file), back, validate=False)
        verdict.returned = verdict.check("round trip", graph_difference(file, back))
        expected, found = str(refused) if refused else show(theirs), self.reading(back)
        stamp = _STAMP.search(expected)
        if stamp is not None and stamp[1] not in _WRITTEN:
            expected, found = (_STAMP.sub("", text) for text in (expected, found))
        verdict.returned &= verdict.check(
            "tosa-opt's reading of the round trip", text_difference(expected, found)
        )
        if verdict.reason:
            self.run(verdict, file, back)
        return verdict

    def unbuildable(
        self, verdict: Verdict, file: Path, refused: Refused | None, error: tc.TosaConvertError
    ) -> None:
        """We refuse to build a module; that is right if MLIR's verifier refuses it in tosa-opt, too."""
        message = verifier_message(str(refused))
        if not message or message not in str(error):
            verdict.check("import", f"we say {error}; tosa-opt says {refused or 'nothing'}")
            return
        verdict.reason = f"MLIR's verifier refuses it: {message}"
        back = self.scratch / "back.tosa"
        tc.save(tc.load(file), back, validate=False)
        verdict.returned = verdict.check("round trip", graph_difference(file, back))
        verdict.operators = operators_of(*flatc_json(self.scratch, back))
        self.run(verdict, file, back)

    def module(self, path: Path) -> Verdict:
        """Judge a module, text or bytecode, with one function."""
        verdict = Verdict(str(path))
        self.context = self.bindings.new_context()
        module = self.parse(path)
        self.export(verdict, module, path)
        ours = self.scratch / "ours.tosa"
        found = show(self.load(ours, names="generate", constants="dense"))
        verdict.imported = verdict.check("import", text_difference(self.reading(ours), found))
        once = tc.export_tosa_func_to_flatbuffer(module, validate=False)
        again = tc.export_tosa_func_to_flatbuffer(self.load(once), validate=False)
        difference = "" if once == again else "the bytes differ: "
        difference += str(
            tc.compare(tc.load(once), tc.load(again), locations=True, version=True) or ""
        )
        verdict.returned = verdict.check("round trip", difference)
        return verdict

    # -- steps --------------------------------------------------------------------------------

    def export(self, verdict: Verdict, module: Any, path: Path, expected: str = "") -> None:
        """Compare our file of `module` with tosa-opt's file of the same module in `path`.

        expected: what tosa-opt must read from ours, except for names; by default what it reads from its
        own, where that conforms to the format.
        """
        ours, theirs = self.scratch / "ours.tosa", self.scratch / "theirs.tosa"
        tc.export_tosa_func_to_flatbuffer(
            module, ours, names="generate", tosa_version="1.1", validate=False
        )
        unwritten = self.tosa_opt.write(path, theirs)
        if unwritten is not None:
            verdict.check("tosa-opt does not write it", str(unwritten))
            return
        left, right = map(simplified, flatc_json(self.scratch, theirs, ours))
        verdict.operators = operators_of(left)
        corrected = [rule for rule, correct in CORRECTIONS.items() if correct(left, right)]
        verdict.reason = verdict.reason or "; ".join(corrected)
        verdict.exported = verdict.check("export", first_difference(left, right))
        if not expected and not corrected:
            expected = plain(self.reading(theirs))
        if expected:
            verdict.exported &= verdict.check(
                "tosa-opt's reading of our export",
                text_difference(expected, plain(self.reading(ours))),
            )

    def run(self, verdict: Verdict, file: Path, ours: Path) -> None:
        """The reference model's answer to the official file and to ours must be the same bytes."""
        expected = reference_run(file, file.parent, self.scratch / "expected")
        found = reference_run(ours, file.parent, self.scratch / "found")
        difference = "" if expected == found else f"{describe(expected)} != {describe(found)}"
        same = verdict.check("the reference model", difference)
        if isinstance(expected, Refused):
            verdict.reason += f"; the reference model refuses it, too: {expected}"
        else:
            verdict.ran = same

    def parse(self, path: Path) -> Any:
        """Return a module of the bindings."""
        return self.bindings.ir.Module.parseFile(str(path), self.context)

    def load(self, source: Path | bytes, **options: Any) -> Any:
        """Our import. Whether TOSA allows a program does not matter here."""
        return tc.import_tosa_func_from_flatbuffer(
            source, context=self.context, validate=False, **options
        )

    def reading(self, file: Path) -> str:
        """Return the module that tosa-opt reads from a file, printed by the bindings.

        Its error message, if it refuses it.
        """
        module = self.scratch / "reading.mlirbc"
        refused = self.tosa_opt.read(file, module)
        return str(refused) if refused else show(self.parse(module))


def verifier_message(error: str) -> str:
    """Return what MLIR's verifier says of a TOSA operation in an error, or ""."""
    match = _VERIFIER.search(error)
    return match["message"] if match else ""


def show(module: Any) -> str:
    """Return a module in generic form without locations; many variables in the order of their names."""
    text = str(module.operation.get_asm(print_generic_op_form=True))
    if text.count(_VARIABLE) > MANY_VARIABLES:
        lines = text.splitlines()
        declared = sorted(line for line in lines if line.startswith(_VARIABLE))
        text = "\n".join(
            lines[:1] + declared + [line for line in lines[1:] if line not in declared]
        )
    return text


def plain(text: str) -> str:
    """Return a printed module without the names of values and the version."""
    return _STAMP.sub("tosa.fbs_version", _NAME.sub("tosa.tensor_name", text))


def bytecode(module: Any) -> bytes:
    """Return a module as bytecode."""
    parts: list[bytes] = []

    class Sink:
        def write(self, part: bytes) -> None:
            parts.append(part)

    module.operation.write_bytecode(Sink())
    return b"".join(parts)


def text_difference(expected: str, found: str) -> str:
    """Return the first lines that differ, or "" if none do."""
    if expected == found:
        return ""
    left, right = expected.splitlines(), found.splitlines()
    for number, (one, other) in enumerate(zip(left, right, strict=False), 1):
        if one != other:
            pairs = enumerate(zip(one + "\0", other + "\0", strict=False))
            start = max(0, next(at for at, (a, b) in pairs if a != b) - 40)
            return f"line {number}: ...{one[start:][:160]}... != ...{other[start:][:160]}..."
    return f"{len(left)} lines != {len(right)} lines"


def graph_difference(one: Path, other: Path) -> str:
    """Return the first difference of two flatbuffers as graphs, names apart; "" if there is none."""
    return str(tc.compare(tc.load(one), tc.load(other), names=True) or "")


def describe(result: dict[str, bytes] | Refused) -> str:
    """Return the result of the reference model, for a message."""
    if isinstance(result, Refused):
        return str(result)
    return ", ".join(f"{name}: {len(data)} bytes" for name, data in result.items())
