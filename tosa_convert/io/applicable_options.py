"""One table of the options and the formats that each applies to, for library and command line.

An option at its default asks for nothing and is never refused. An option with any other value must
have an effect; if it cannot have one, the request is refused by name instead of being ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Literal

from tosa_convert.errors import Findings, fail
from tosa_convert.io.formats import FORMATS, Format
from tosa_convert.io.options import Weights
from tosa_convert.records import NamedTuple

#: The form of an input or output: a file's format, an `ir.Module`, a Graph, or a framework's model.
Form = Literal["mlir", "mlirbc", "tosa", "json", "vgf", "spv", "pte", "module", "graph", "model"]

FORMS: Final[Mapping[Form, str]] = {
    "module": "MLIR module",
    "graph": "Graph",
    "model": "a model of a framework",
    **{name: FORMATS[name] for name in FORMATS},
}

_TEXT: Final = frozenset[Form](("mlir",))
_BYTECODE: Final = frozenset[Form](("mlirbc",))
_TOSA: Final = frozenset[Form](("tosa",))
_VGF: Final = frozenset[Form](("vgf", "spv", "pte"))
_MODULE: Final = frozenset[Form](("module",))
_MODEL: Final = frozenset[Form](("model",))
_FILES: Final = frozenset[Form](FORMATS)
_ALL: Final = frozenset[Form](FORMS)
_MLIR: Final = _TEXT | _BYTECODE | _MODULE


class OptionRow(NamedTuple):
    """One option: the forms on which it has an effect.

    It applies if the input's form is in `inputs`, or the output's form is in `outputs`.
    """

    name: str
    flag: str
    effect: str
    inputs: frozenset[Form] = frozenset()
    outputs: frozenset[Form] = frozenset()


#: Keyword of the Python functions -> row.
OPTIONS: Final = {
    row.name: row
    for row in (
        OptionRow(
            "func",
            "--func",
            "selects a function of a module or a TFLite model, or a part of a .vgf, .spv or .pte file",
            _MLIR | _MODEL | _VGF,
        ),
        OptionRow(
            "split_input_file", "--split-input-file", "separates modules in MLIR text", _TEXT
        ),
        OptionRow("names", "--names", "concerns names in MLIR, read or written", _MLIR, _MLIR),
        OptionRow("context", "", "is the context in which a module is built", outputs=_MODULE),
        OptionRow("full_paths", "--full-paths", "concerns locations of MLIR", _MLIR | _MODEL),
        OptionRow(
            "narrow", "--narrow", "converts element types while MLIR is read", _MLIR | _MODEL
        ),
        OptionRow("exact", "--exact", "chooses how a framework's model is simplified", _MODEL),
        OptionRow("via", "--via", "chooses another route from a framework's model", _MODEL),
        OptionRow("python", "--python", "names the Python that has a model's framework", _MODEL),
        OptionRow("timeout", "--timeout", "bounds the time of a framework's converter", _MODEL),
        OptionRow("check", "--check", "compares a model's framework with the program", _MODEL),
        OptionRow(
            "partial", "--partial", "cuts out the operators of a model that do not lower", _MODEL
        ),
        OptionRow(
            "random_weights", "--random-weights", "concerns models of libraries, by name", _MODEL
        ),
        OptionRow("arrays", "--input", "names inputs of --check", _MODEL),
        OptionRow("random", "--random", "is the seed of the inputs of --check", _MODEL),
        OptionRow("engine", "--engine", "computes the program of --check", _MODEL),
        OptionRow(
            "pass_captured", "--pass-captured", "passes values that regions of MLIR capture", _MLIR
        ),
        OptionRow(
            "input_shapes", "--input-shape", "sets shapes of arguments", _FILES | _MODULE | _MODEL
        ),
        OptionRow(
            "accept_changed_weights",
            "--accept-changed-weights",
            "concerns weights beside a .tosa or .json file",
            _FILES - _MLIR - _VGF,
        ),
        OptionRow("copy", "", "concerns files and buffers", _FILES),
        OptionRow("constants", "", "concerns constants of a module", outputs=_MODULE),
        OptionRow(
            "bytecode_version",
            "--bytecode-version",
            "chooses the version of the MLIR bytecode that is written",
            outputs=_BYTECODE,
        ),
        OptionRow(
            "dialect",
            "",
            "is the month of an older MLIR, or the version of an older .tosa file",
            _TEXT | _BYTECODE,
            _TEXT | _BYTECODE | _TOSA,
        ),
        OptionRow(
            "function_op",
            "--function-op",
            "chooses the operation of MLIR that holds the program",
            outputs=_TEXT | _BYTECODE,
        ),
        OptionRow("generic", "--generic", "chooses a syntax of MLIR text", outputs=_TEXT),
        OptionRow(
            "locations", "--no-locations", "says whether MLIR text has locations", outputs=_TEXT
        ),
        OptionRow("elide", "--elide", "leaves constants out of MLIR text", outputs=_TEXT),
        OptionRow("weights", "--weights", "says where constants are stored", outputs=_FILES),
        OptionRow("verify", "--verify", "reads the result back", outputs=_FILES),
        OptionRow(
            "validate",
            "--no-validate",
            "concerns programs that are written as .tosa or MLIR, which are validated",
            outputs=_MLIR | _TOSA,
        ),
        OptionRow("tosa_version", "--tosa-version", "sets the version of the program", _ALL, _ALL),
        OptionRow("input_names", "--input-names", "renames arguments", _ALL, _ALL),
        OptionRow("output_names", "--output-names", "renames results", _ALL, _ALL),
        OptionRow(
            "consumer",
            "--for",
            "chooses the form of a .tosa or MLIR file for the program that opens it",
            outputs=_TEXT | _BYTECODE | _TOSA,
        ),
        OptionRow("limits", "--limit", "bounds the resources that are used", _ALL, _ALL),
    )
}

#: Format of the output -> where its constants can be stored, and why nowhere else.
WEIGHTS_OF: Final[dict[Format, tuple[tuple[Weights, ...], str]]] = {
    "tosa": (("auto", "embedded", "offset", "npy", "safetensors", "irpa"), ""),
    "json": (("auto", "embedded", "npy", "safetensors", "irpa"), "nothing can be appended to it"),
    "mlir": (("auto", "embedded", "irpa"), "MLIR stores its constants inside"),
    "mlirbc": (("auto", "embedded", "irpa"), "MLIR stores its constants inside"),
}


def refuse_inapplicable(
    given: Collection[str],
    where: str,
    *,
    read_from: Form | None = None,
    written_as: Form | None = None,
) -> None:
    """Refuse the given options that have no effect on this input and output, all of them at once."""
    findings = Findings(len(OPTIONS) + 1)
    for row in OPTIONS.values():
        if row.name in given and read_from not in row.inputs and written_as not in row.outputs:
            option = f"{row.name} ({row.flag})" if row.flag else row.name
            message = f"the option {option} does not apply to {_direction(read_from, written_as)}"
            findings.add("option-conflict", where, message, f"it {row.effect}; leave it out")
    findings.raise_if_any()


def refuse_weights(file_format: Format, weights: Weights) -> None:
    """Refuse a storage of constants that the format does not have."""
    choices, reason = WEIGHTS_OF[file_format]
    if weights not in choices:
        message = f'weights="{weights}" does not apply to {FORMATS[file_format]}: {reason}'
        raise fail("option-conflict", "weights", message, "use " + " or ".join(choices))


def _direction(read_from: Form | None, written_as: Form | None) -> str:
    if read_from is None or written_as is None:
        return FORMS[read_from or written_as or "graph"]
    return f"{FORMS[read_from]} -> {FORMS[written_as]}"
