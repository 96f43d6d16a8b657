"""One table of the options and the formats that each applies to, for library and command line.

An option at its default asks for nothing and is never refused. An option with any other value must
have an effect; if it cannot have one, the request is refused by name instead of being ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Literal, NamedTuple

from tosa_convert.errors import Finding, TosaConvertError, fail
from tosa_convert.io.formats import FORMATS, Format
from tosa_convert.io.options import Weights

#: The form of an input or output: a file's format, an `ir.Module`, a Graph, or a framework's model.
Form = Literal["mlir", "mlirbc", "tosa", "json", "module", "graph", "model"]

FORMS: Final[Mapping[Form, str]] = {
    "module": "MLIR module",
    "graph": "Graph",
    "model": "a model of a framework",
    **{name: FORMATS[name] for name in FORMATS},
}

_FILES: Final = frozenset[Form](FORMATS)
_MLIR_TEXT: Final = frozenset[Form](("mlir",))
_MLIR: Final = frozenset[Form](("mlir", "mlirbc", "module"))
_ALL: Final = frozenset[Form](FORMS)
_PROGRAMS: Final = frozenset[Form](("mlir", "mlirbc", "tosa", "module"))
_NOT_GRAPH: Final = frozenset[Form]((*FORMATS, "module", "model"))
_MODEL: Final = frozenset[Form](("model",))
_NONE: Final = frozenset[Form]()


class OptionRow(NamedTuple):
    """One option: the forms on which it has an effect.

    It applies if the input's form is in `inputs`, or the output's form is in `outputs`.
    """

    name: str
    flag: str
    inputs: frozenset[Form]
    outputs: frozenset[Form]
    effect: str


#: Keyword of the Python functions -> row.
OPTIONS: Final = {
    row.name: row
    for row in (
        OptionRow(
            "func",
            "--func",
            _MLIR | _MODEL,
            _NONE,
            "selects a function of an MLIR module, or a signature of a TFLite model",
        ),
        OptionRow("names", "--names", _MLIR, _MLIR, "concerns names in MLIR, read or written"),
        OptionRow(
            "context",
            "",
            _NONE,
            frozenset({"module"}),
            "is the context in which a module is built",
        ),
        OptionRow(
            "full_paths", "--full-paths", _MLIR | _MODEL, _NONE, "concerns locations of MLIR"
        ),
        OptionRow(
            "narrow",
            "--narrow",
            _MLIR | _MODEL,
            _NONE,
            "converts element types while MLIR is read",
        ),
        OptionRow("via", "--via", _MODEL, _NONE, "chooses another route from a framework's model"),
        OptionRow(
            "python", "--python", _MODEL, _NONE, "names the Python that has a model's framework"
        ),
        OptionRow(
            "timeout", "--timeout", _MODEL, _NONE, "bounds the time of a framework's converter"
        ),
        OptionRow(
            "check", "--check", _MODEL, _NONE, "compares a model's framework with the program"
        ),
        OptionRow(
            "partial",
            "--partial",
            _MODEL,
            _NONE,
            "cuts out the operators of a model that do not lower",
        ),
        OptionRow("arrays", "--input", _MODEL, _NONE, "names inputs of --check"),
        OptionRow("random", "--random", _MODEL, _NONE, "is the seed of the inputs of --check"),
        OptionRow(
            "pass_captured",
            "--pass-captured",
            _MLIR,
            _NONE,
            "passes values that regions of MLIR capture",
        ),
        OptionRow("input_shapes", "--input-shape", _NOT_GRAPH, _NONE, "sets shapes of arguments"),
        OptionRow(
            "accept_changed_weights",
            "--accept-changed-weights",
            frozenset({"tosa", "json"}),
            _NONE,
            "concerns .npy weights beside a .tosa or .json file",
        ),
        OptionRow("copy", "", _FILES, _NONE, "concerns files and buffers"),
        OptionRow("constants", "", _NONE, frozenset({"module"}), "concerns constants of a module"),
        OptionRow(
            "bytecode_version",
            "--bytecode-version",
            _NONE,
            frozenset({"mlirbc"}),
            "chooses the version of the MLIR bytecode that is written",
        ),
        OptionRow(
            "dialect",
            "",
            frozenset({"mlir", "mlirbc"}),
            frozenset({"mlir", "mlirbc", "tosa"}),
            "is the month of an older MLIR, or the version of an older .tosa file",
        ),
        OptionRow("generic", "--generic", _NONE, _MLIR_TEXT, "chooses a syntax of MLIR text"),
        OptionRow(
            "locations",
            "--no-locations",
            _NONE,
            _MLIR_TEXT,
            "says whether MLIR text has locations",
        ),
        OptionRow("elide", "--elide", _NONE, _MLIR_TEXT, "leaves constants out of MLIR text"),
        OptionRow("weights", "--weights", _NONE, _FILES, "says where constants are stored"),
        OptionRow("verify", "--verify", _NONE, _FILES, "reads the result back"),
        OptionRow(
            "validate",
            "--no-validate",
            _NONE,
            _PROGRAMS,
            "concerns programs that are written as .tosa or MLIR, which are validated",
        ),
        OptionRow("tosa_version", "--tosa-version", _ALL, _ALL, "sets the version of the program"),
        OptionRow("input_names", "--input-names", _ALL, _ALL, "renames arguments"),
        OptionRow("output_names", "--output-names", _ALL, _ALL, "renames results"),
        OptionRow(
            "consumer",
            "--for",
            _NONE,
            frozenset({"tosa", "mlir", "mlirbc"}),
            "chooses the form of a .tosa or MLIR file for the program that opens it",
        ),
        OptionRow("limits", "--limit", _ALL, _ALL, "bounds the resources that are used"),
    )
}

#: Format of the output -> where its constants can be stored, and why nowhere else.
WEIGHTS_OF: Final[dict[Format, tuple[tuple[Weights, ...], str]]] = {
    "tosa": (("auto", "embedded", "offset", "npy"), ""),
    "json": (("auto", "embedded", "npy"), "nothing can be appended to it"),
    "mlir": (("auto", "embedded"), "MLIR stores its constants inside"),
    "mlirbc": (("auto", "embedded"), "MLIR stores its constants inside"),
}


def refuse_inapplicable(
    given: Collection[str],
    where: str,
    *,
    read_from: Form | None = None,
    written_as: Form | None = None,
) -> None:
    """Refuse the given options that have no effect on this input and output, all of them at once.

    Args:
        given: keywords of the options whose value is not the default.
        where: the file that the message begins with.
        read_from: the input's form; None if nothing is read.
        written_as: the output's form; None if nothing is written.

    Raises:
        TosaConvertError: "option-conflict", with a finding for each such option.
    """
    findings = [
        Finding(
            "option-conflict",
            where,
            f"the option {_shown(row)} does not apply to {_direction(read_from, written_as)}",
            f"it {row.effect}; leave it out",
        )
        for row in OPTIONS.values()
        if row.name in given and read_from not in row.inputs and written_as not in row.outputs
    ]
    if findings:
        raise TosaConvertError(findings)


def refuse_weights(file_format: Format, weights: Weights) -> None:
    """Refuse a storage of constants that the format does not have.

    Raises:
        TosaConvertError: "option-conflict".
    """
    choices, reason = WEIGHTS_OF[file_format]
    if weights not in choices:
        raise fail(
            "option-conflict",
            "weights",
            f'weights="{weights}" does not apply to {FORMATS[file_format]}: {reason}',
            "use " + " or ".join(choices),
        )


def _shown(row: OptionRow) -> str:
    return f"{row.name} ({row.flag})" if row.flag else row.name


def _direction(read_from: Form | None, written_as: Form | None) -> str:
    if read_from is None or written_as is None:
        return FORMS[read_from or written_as or "graph"]
    return f"{FORMS[read_from]} -> {FORMS[written_as]}"
