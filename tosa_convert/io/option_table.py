"""The options of all verbs, once each: parsers, help and refusals are made of this table."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, Final, Literal

from tosa_convert.errors import Findings, fail
from tosa_convert.io.formats import FORMATS, WRITTEN, Format
from tosa_convert.io.options import (
    BYTECODE_VERSIONS,
    FUNCTION_OPERATIONS,
    LIMIT_NAMES,
    MOST_SECONDS,
    NAMES,
    WEIGHTS,
    ReadOptions,
    Weights,
    WriteOptions,
)

# A line with the names of an option, and in any order:
#   what follows it: flag (nothing, which means yes) or no, text, read or write (a file, or -), file (a
#       text that may have the name of a file in it), folder, arrays ([NAME=]FILE), whole (a number), 0..
#       (a number from 0 up), real:1<.. (one above 1, perhaps with a fraction), one|of|these, a name of
#       CHOICES, or value:V, if several flags set one parameter
#   <METAVAR>  =DEFAULT
#   name:PARAMETER, if that is not the first flag
#   many: its values add up. distinct:X: no two of them may be equal before X. folded: in any case
#   parsed: `cli.option` makes something else of its text
#   excludes:, needs:, old: options that contradict it, of which one must be given, too, and earlier
#       spellings, which are still accepted and not shown
# Below it the help, + what a verb may say otherwise, and | INPUTS -> OUTPUTS: its effect. It applies to
# an input or an output of these.
_TABLE: Final = """
## Output
--output -o write
    The file or folder to write; - is standard output.
--to FORMATS
    Format of the output; by default what its extension says.
    + Standard output has that of the input.
--export-to-flatbuffer flag excludes:--import-from-flatbuffer
    MLIR in, a flatbuffer out; for pipes.
--import-from-flatbuffer flag
    A flatbuffer in, MLIR out; for pipes.
--count 1.. <N> excludes:--to
    Write N cases into the folder -o, for SEED, SEED + 1, ...
--verify flag
    Read the result back and compare it bit for bit.
    | -> files: reads the result back
--no-validate no name:validate
    Also write a program that TOSA forbids, which `tosa-flatbuffer validate` reports.
    | -> MLIR tosa: concerns programs that are written as .tosa or MLIR, which are validated
--save-inputs write <NPZ>
    Write the inputs that were used.
--save-variables write <NPZ>
    Write the states after the run.
--bounds write <NPZ>
    Write accuracy bounds (implies --precise).
--intermediates write <DIR|NPZ>
    Write every computed tensor, with its operator and location.
--inside 0.. <N> =0 needs:--intermediates
    Also write the tensors of the branch that COND_IF takes, and of the first N iterations of
    WHILE_LOOP.
--until text <GLOB> many
    Run only what tensors whose name matches depend on, and give them as the outputs.
--print text <GLOB> many
    Print the values of tensors whose name matches, with the operators that compute them. In regions
    tensors have names such as y/then/t and y/body[0]/t.
--precise flag
    Compute floating point in FP64.
--work folder <DIR>
    Keep answers in this folder; the same command continues an interrupted run.
--resume flag needs:--work
    Keep the answers of a complete run, too, which by default begins anew.
--depends file <FILE> many needs:--work
    A file that a backend runs or reads and no option names, such as the program in a shell script: kept
    answers count only while it stays the same. May be repeated.
## Selection
--outputs text <NAMES> many
    Tensors that become outputs, separated by commas.
--inputs text <NAMES> many
    Tensors that become inputs.
--seed whole <SEED>
    The same seed gives the same programs.
--size 1.. <N> name:operators =20
    Operators in each program, constants not counted; 20 by default.
--only text <NAMES> many parsed
    Take only these, separated by commas.
--like file <MODEL> many
    Programs are parts of this model. They are tried beside random ones; may be repeated.
--pattern text <GLOB> many
    Only tensors whose name matches. May be repeated.
--max-tensors 1.. <N> =250
    Change at most N tensors, spread evenly; 250 by default.
--list flag name:list_only excludes:--output
    List the rewrites and end.
--operators flag
    List the operators: a line each.
--tensors flag
    List the tensors and shapes: a row each.
--constants flag old:--weights
    List the constants with their range, mean, zeros and histogram. Reads all of them.
--grep text <REGEX> needs:--operators,--tensors,--constants,--hex
    List only what matches: operators, tensors and constants by their names, by the operators that
    compute or read them, or by location; bytes by their field.
--hex flag name:as_hex excludes:--operators,--tensors,--constants,--json,--func
    Show every byte of a .tosa file with the field that it belongs to.
--all-bytes flag needs:--hex
    With --hex: also show the bytes of large data in full.
--as text <TYPE> name:element_type parsed
    The element type of arrays that hold bits, such as BF16: opaque bytes, or unsigned integers of its
    width.
--scopes auto|names|locations|none =auto
    Where groups of operators come from: folders in the names of tensors, or in the names of locations.
    By default whichever has more.
--errors read <JSON>
    Show a result as colour: the JSON that check, bisect, chain, suite or power wrote.
## Comparison
--against file <BACKEND>
    The backend: numpy, iree, tflite:MODEL, torch:MODEL, onnxruntime:MODEL, jax:FILE.py:NAME, a .py file
    with a function run, extension:NAME of an installed package, a consumer by name such as tosa-opt, a
    folder or .npz file of results, another model with the same tensor names, or a command with {model}
    {inputs} {outputs}.
--reference file <BACKEND>
    Compare with another backend instead of the reference model, within the tolerances.
--frontends text <NAMES> many parsed
    Lower models of frameworks instead, and compare each with its framework: names of `tosa-flatbuffer
    frontends`, such as torch,onnx,tflite.
--through tosa|mlir|mlirbc|json name:via excludes:--against,--frontends old:--via
    Format that each file is converted into before it becomes a flatbuffer again; tosa by default.
--original file <FILE> =
    The original model, where BACKEND does not name it: a .tflite or .onnx file, or for torch
    FILE.py:NAME or an exported program.
--atol text <[NAME:]VALUE> many distinct::
    Absolute tolerance, for all floating point or the tensors whose name matches NAME.
--rtol text <[NAME:]VALUE> many distinct::
    Relative tolerance, for all floating point or the tensors whose name matches NAME.
--official flag
    Let TOSA's rule alone decide about a sum; else it fails if it errs far more than ordinary
    implementations do.
--strict flag
    Fail a tensor of low precision, which may err by more than 1 % of its values.
--widen flag
    Run the program with FP32 in place of FP16, BF16 and FP8 on both sides, so that smaller faults are
    seen.
--repeat 1.. <N> =1
    Run the backend N times on the same inputs; its results must be equal bit for bit.
--compare-names flag old:--names
    Also compare the names of regions, blocks and values.
--compare-locations flag old:--locations
    Also compare the locations of operators.
--ignore-order flag
    Do not report operators that are the same at another place. Reads and writes of a variable keep
    their order.
--max-cases 1.. <N> name:limit
    Run at most N cases.
--seconds real:0.. <N> =600.0
    Try new programs for so long; 600 by default. Then what fails is reduced, in about as long again,
    but at least 120 seconds; what is left then waits for the same command.
## Failures
--command text <CMD> old:--check
    The command; {model} and {inputs} are replaced by the candidate's files. Any exit code but 0 means
    failure.
--expect-exit whole <N>
    Only this exit code of CMD means failure.
--expect-text text <TEXT> =
    Only a failure that prints TEXT counts, on stdout or stderr.
--max-runs 1.. <N> =1000
    Run CMD at most N times; the same command continues later.
--xfail read <FILE>
    Expected failures: a pattern of case names and a reason in each line. A case that passes although it
    is listed fails the run.
--refused skip|fail
    What a program means that the backend refuses: skip counts it as not run, fail as a failure. By
    default skip.
--baseline read <FILE>
    An earlier result of --json-report: print what changed since, also in the time and memory of the
    backend.
--slowdown real:1<.. <TIMES> needs:--baseline
    Report a case whose backend takes more than TIMES the time or memory of the baseline; 2 by default.
    Differences below 0.1 s or 16 MiB do not count.
--fail-slowdown flag needs:--baseline
    Let such a case fail the run. By default it is only reported.
--case folder <DIR>
    Write the operator, its inputs and both results into a folder.
--known folder <DIR> many
    Findings of this folder are not reported again; may be repeated.
--keep folder <DIR>
    Keep the program, inputs and results of each failure below this folder.
--reduce flag needs:--keep
    Keep the smallest inputs on which a result is still wrong; needs up to 60 further runs of such a
    case.
## Reports
--json flag name:as_json
    Print the result as JSON.
--sarif flag name:as_sarif excludes:--json,--least
    Report as SARIF 2.1.0, for code scanning.
--json-report write <FILE> name:json_file
    Also write the result as JSON; - is standard output.
--junit write <FILE>
    Also write the result as JUnit XML; - is standard output.
--html write <FILE> needs:--against,--frontends
    Also write the result as one HTML file; - is standard output.
    + It has a table.
--svg value:svg name:to
    Write an SVG picture instead.
--dot value:dot name:to
    Write a graph for Graphviz instead.
--model-explorer value:model-explorer name:to
    Write node data for Model Explorer instead: the errors, or the multiply-accumulates.
--stat flag excludes:--json,--all,--color
    Print only how many operators of each name differ.
--context -U 0.. <N> =1
    How many operators to print around one that differs; 1 by default.
--all flag name:everything
    Report every difference, not only the first.
--color auto|always|never
    When to print in colour; by default (auto) on a terminal, unless $NO_COLOR is set.
--save folder <DIR>
    Save the model and, of each run, the inputs, both results and the comparison.
## MLIR input
--func text <NAME>
    The function of an MLIR module or the signature of a TFLite model, if it has several.
    | MLIR vgf model: selects a function of a module or a TFLite model, or a part of a .vgf, .spv or
    | .pte file
--split-input-file flag
    Convert each part of an MLIR text between lines of // ----- as a module of its own, into NAME.0.tosa
    and so on. A part that fails does not stop the others.
    | text: separates modules in MLIR text
--input-shape text <NAME=1x2x3> name:input_shapes many parsed
    Sizes of an argument with dynamic dimensions; the other shapes are inferred. NAME may be its
    position, arg0, arg1, ..., or its name in MLIR text, such as %x. A size may be ?, which stays open,
    or a symbol such as B, which is the same size everywhere and may be set with B=8. May be repeated.
    | files module model: sets shapes of arguments
--narrow text <TYPES> = many parsed
    Element types to convert, separated by commas: i64 to i32, f64 to f32, f32 to f16, quant (quantised
    types) to the integers that they are stored as. Each tensor that is narrowed is reported.
    | MLIR model: converts element types while MLIR is read
--custom file <FILE.py> many
    What CUSTOM operators compute: a Python file, or extension:NAME of an installed package, with a list
    CUSTOM of tosa_convert.Custom. numpy computes the reference. May be repeated.
    | files module: says what CUSTOM operators compute
--pass-captured flag
    Pass values that a region of MLIR uses from outside as operands of its control-flow operator, and
    copy constants into the region. Both are reported.
    | MLIR: passes values that regions of MLIR capture
--full-paths flag
    Keep the folders of file names in locations.
    | MLIR model: concerns locations of MLIR
## MLIR output
--bytecode-version BYTECODE <N> parsed
    Version of the MLIR bytecode to write, 0 to 6. Every MLIR reads version 1, the default; attributes
    are properties since version 5.
    | -> bytecode: chooses the version of the MLIR bytecode that is written
--function-op FUNCTIONS
    The operation of MLIR that holds the program; func.func unless another is asked for. With
    ml_program.func variables are globals of ml_program. A subgraph has no order of operations, and so
    no variables.
    | -> text bytecode: chooses the operation of MLIR that holds the program
--generic flag
    Write MLIR text in generic form.
    | -> text: chooses a syntax of MLIR text
--no-locations no name:locations
    Write MLIR text without locations.
    | -> text: says whether MLIR text has locations
--elide 0.. <N>
    Leave constants of more than N elements out of MLIR text, which then cannot be read back.
    | -> text: leaves constants out of MLIR text
## Names
--names NAMES
    Keep the names that the module carries and generate the others (retain, the default), or generate
    all, as tosa-opt does.
    | MLIR -> MLIR: concerns names in MLIR, read or written
--input-names text <NAMES> many parsed
    Names for all arguments, in order: separated by commas, or one for each use of the option.
    | all -> all: renames arguments
--output-names text <NAMES> many parsed
    Names for all results, in the same way.
    | all -> all: renames results
## Weights
--weights WEIGHTS
    Where constants are stored. embedded: in the flatbuffer; offset: appended after it; npy,
    safetensors, irpa: files beside it; auto (the default): embedded up to 2 GiB.
    | -> files: says where constants are stored
--accept-changed-weights flag
    Accept weights that were edited.
    | tosa json: concerns weights beside a .tosa or .json file
--larger-than 0.. <BYTES> =0
    Leave smaller constants out.
--parameters flag old:--all
    Also replace zero points, shifts, multipliers and padding values.
## Target
--for text <READER> name:consumer parsed
    The program that is to read the file, such as iree, vela:ethos-u85 or iree==3.2.
    | -> text bytecode tosa: chooses the form of a .tosa or MLIR file for the program that opens it
--tosa-version 1.0|1.1|1.1-2026-08|1.1-2026-09
    Version to stamp; by default the lowest that expresses the function, and for a flatbuffer the one it
    has. 1.1-2026-09 is the draft of a month: what it does not have is refused.
    | all -> all: sets the version of the program
--spec-version 1.0|1.1|1.1-2026-08|1.1-2026-09
    The TOSA version of the target; operators, types and unknown sizes that it does not have are
    findings.
--profile text <NAMES> many parsed
    The profiles and extensions that the target has, such as PRO-INT,EXT-INT16.
--types text <NAMES> many parsed
    Element types of inputs and of what operators compute, such as INT8,INT32; by default all. Constants
    have the types that their operator needs.
--scaled flag
    Tensors may be block-scaled and hold their scales (MX). The reference model does not run all
    operators on them.
--level 8k|none folded
    The level of the target, which limits ranks and sizes.
--least flag
    Also print the least TOSA version, profiles, extensions and level that each program needs. JSON
    always has them.
## Framework models
--via text <ROUTE> =
    Another route to TOSA than the usual one. Quantised torch programs have integer arithmetic by way of
    executorch. extension:NAME is a frontend of another package, for any file.
    | model: chooses another route from a framework's model
--exact flag
    Keep every rounding of the model: no normalisation becomes part of the convolution before it.
    | model: chooses how a framework's model is simplified
--random-weights flag
    Make a model that is named by its library, such as timm:resnet50, from its configuration, without
    its trained weights and without a download.
    | model: concerns models of libraries, by name
--partial flag
    If operators do not lower, write the rest as several programs, NAME.0.tosa and so on, and NAME.json,
    which says how they and the operators belong together.
    | model: cuts out the operators of a model that do not lower
--check flag
    Run the model in its framework and the program on the reference model, and compare the outputs. Exit
    code 1 if they differ.
    | model: compares a model's framework with the program
## Values of inputs
--input -i arrays <[NAME=]FILE> name:arrays many
    Values of inputs: an .npz file with an array for each name, or NAME=FILE.npy. May be repeated; - is
    standard input.
    | model: names inputs of --check
--random 0.. <SEED>
    Random values for the other inputs, in a range for each element type.
    | model: is the seed of the inputs of --check
--range text <NAME=LOW:HIGH> name:ranges many distinct:=
    Another range for the random values of the inputs whose name matches NAME.
--edges flag
    Edge inputs instead of random ones, from the same seed: zeros, ties, limits of types, NaN,
    infinities, subnormal numbers, the first and the last index.
--no-edges flag excludes:--edges
    Random inputs alone. By default edge inputs of the same seed follow them.
--seeds 1.. <N>
    Use random inputs of N seeds.
--calibration read <NPZ> excludes:--seeds,--random,--range,--edges
    Use each sample of a file: arrays by input with a further first dimension.
--in-a-row flag needs:--calibration
    The samples are calls in a row: variables keep their states from one to the next.
--perplexity text <INPUT> =
    Print how well each source predicts the tokens of INPUT from those before them.
--variables read <NPZ>
    Initial states of variables, by name.
## Processes and limits
--jobs -j 0.. <N> =0
    Number of processes that work side by side; by default as many as make it fastest.
--engine auto|numpy|reference-model =auto
    What computes the reference: the TOSA reference model, or numpy; auto takes the model if it is
    installed.
    | model: computes the program of --check
--python file <PROGRAM> =
    The Python that has the packages of the framework or backend; by default this one.
    | model: names the Python that has a model's framework
--scheduler text <ADDRESS>
    Run on the Dask cluster of this scheduler.
--timeout real:0<..MOST_SECONDS <SECONDS> =600.0
    Limit for one run of another program: the reference model, a backend, a converter.
    + 600 by default.
    | model: bounds the time of a framework's converter
--limit text <NAME=N> name:limits many parsed distinct:=
    Set a resource limit: LIMIT_NAMES. May be repeated.
    | all -> all: bounds the resources that are used
--batch-mib 1.. <N> =256
    MiB of tensors that one run computes, 256 by default.
## Help and messages
--quiet -q flag excludes:--verbose
    Leave out summaries, notes and warnings.
--verbose -v flag
    Also say what was recognised, and how long each step took.
"""

#: The form of an input or output: a file's format, an `ir.Module`, a Graph, or a framework's model.
Form = Literal["mlir", "mlirbc", "tosa", "json", "vgf", "spv", "pte", "module", "graph", "model"]

FORMS: Final[Mapping[Form, str]] = {
    "module": "MLIR module",
    "graph": "Graph",
    "model": "a model of a framework",
    **{name: FORMATS[name] for name in FORMATS},
}
#: What the table calls several forms.
_GROUPS: Final[Mapping[str, frozenset[Form]]] = {
    "all": frozenset(FORMS),
    "files": frozenset(FORMATS),
    "MLIR": frozenset(("mlir", "mlirbc", "module")),
    "text": frozenset(("mlir",)),
    "bytecode": frozenset(("mlirbc",)),
    "vgf": frozenset(("vgf", "spv", "pte")),
}
#: What the table calls choices that are known elsewhere.
CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "FORMATS": tuple(WRITTEN),
    "WEIGHTS": WEIGHTS,
    "NAMES": NAMES,
    "FUNCTIONS": FUNCTION_OPERATIONS,
    "BYTECODE": tuple(map(str, BYTECODE_VERSIONS)),
}
#: Keywords that no verb has.
_OF_PYTHON: Final = {
    "context": "-> module: is the context in which a module is built",
    "copy": "files: concerns files and buffers",
    "constants": "-> module: concerns constants of a module",
    "dialect": "text bytecode -> text bytecode tosa: "
    "is the month of an older MLIR, or the version of an older .tosa file",
}
_DEFAULTS: Final = {
    row.name: {} if row.default is MISSING else row.default
    for options in (ReadOptions, WriteOptions)
    for row in fields(options)
}


class Row:
    """An option: what `_TABLE` says of it.

    text: its lines. name: the parameter. kind, choices: what follows it. default: as text, if there is
    one.
    """

    __slots__ = (
        *("choices", "default", "distinct", "excludes", "flags", "kind", "metavar", "name"),
        *("needs", "old", "section", "text", "words"),
    )

    def __init__(self, text: str, section: str = "") -> None:
        self.text, self.section = text, section
        self.flags: list[str] = []
        self.words: set[str] = set()
        self.kind, self.name = "flag", ""
        self.metavar: str | None = None
        self.default: str | None = None
        self.distinct: str | None = None
        self.excludes: tuple[str, ...] = ()
        self.needs: tuple[str, ...] = ()
        self.old: tuple[str, ...] = ()
        for word in text.partition("\n")[0].split():
            key, _, rest = word.partition(":")
            if word[0] == "-":
                self.flags.append(word)
            elif word[0] == "<":
                self.metavar = word[1:-1]
            elif word[0] == "=":
                self.default = word[1:]
            elif word in ("many", "parsed", "folded"):
                self.words.add(word)
            elif key in ("name", "distinct"):
                setattr(self, key, rest)
            elif key in ("excludes", "needs", "old"):
                setattr(self, key, tuple(rest.split(",")))
            else:
                self.kind = word
        self.name = self.name or self.flags[0][2:].replace("-", "_")
        is_list = "|" in self.kind
        self.choices = tuple(self.kind.split("|")) if is_list else CHOICES.get(self.kind, ())

    @property
    def flag(self) -> str:
        return self.flags[0]

    @property
    def help(self) -> str:
        lines = self.text.splitlines()[1:]
        text = " ".join(line.strip() for line in lines if line[4] not in "+|")
        return text.replace("LIMIT_NAMES", ", ".join(LIMIT_NAMES))

    @property
    def more(self) -> str:
        return self._after("+")

    @property
    def effect(self) -> str:
        return self._after("|").partition(": ")[2]

    def _after(self, mark: str) -> str:
        return " ".join(line[6:] for line in self.text.splitlines() if line[4:5] == mark)

    def applies_to(self, read_from: Form | None, written_as: Form | None) -> bool:
        inputs, _, outputs = self._after("|").partition(": ")[0].partition("->")
        return any(
            form is not None and form in {*words.split()} | _named(words)
            for form, words in ((read_from, inputs), (written_as, outputs))
        )

    def absent(self) -> Any:
        """Return what a verb gets without the option."""
        if self.default is not None:
            is_number = ".." in self.kind
            whole = int if not self.kind.startswith("real:") else float
            return whole(self.default) if is_number else self.default
        if self.kind in ("flag", "no"):
            return self.kind == "no"
        return _DEFAULTS.get(self.name, () if self.words == {"many"} else None)


def _named(words: str) -> frozenset[Form]:
    return frozenset().union(*(_GROUPS.get(word, frozenset()) for word in words.split()))


#: Flag -> its heading and its lines, in the order of the help.
_TEXTS: Final = {
    f"--{lines.split(None, 1)[0]}": (section.partition("\n")[0], f"--{lines}")
    for section in _TABLE.replace("MOST_SECONDS", str(MOST_SECONDS)).split("## ")[1:]
    for lines in section.rstrip().split("\n--")[1:]
}
FLAGS: Final = tuple(_TEXTS)
#: The last heading of the help, of the options that all verbs have.
MESSAGES: Final = "Help and messages"


@cache
def row_of(flag: str) -> Row:
    """Return the row of an option: a small job reads few of them."""
    section, text = _TEXTS[flag]
    return Row(text, section)


@cache
def applicable() -> dict[str, Row]:
    """Map keywords of the Python functions to the rows with the formats on which they have an effect."""
    rows = [row for row in map(row_of, FLAGS) if row.effect]
    rows += [Row(f"name:{name}\n    | {effect}") for name, effect in _OF_PYTHON.items()]
    return {row.name: row for row in rows}


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
    if not given:
        return
    findings = Findings(len(applicable()) + 1)
    for row in applicable().values():
        if row.name in given and not row.applies_to(read_from, written_as):
            option = f"{row.name} ({row.flag})" if row.flags else row.name
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
