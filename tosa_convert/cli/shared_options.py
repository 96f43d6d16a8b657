"""Options that several verbs have, with one meaning in all of them, and lists of names as values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import click

from tosa_convert.cli.messages import note
from tosa_convert.cli.option import (
    ArrayFile,
    Choices,
    Folder,
    NamesFile,
    Option,
    ReadPath,
    WritePath,
    complete_from,
    complete_functions,
    complete_tensors,
    tensors_of,
)
from tosa_convert.consumers.readers import every_reader, reader_named, releases
from tosa_convert.errors import refuse_unknown
from tosa_convert.extensions import is_extension
from tosa_convert.io.formats import WRITTEN
from tosa_convert.io.options import (
    LIMIT_NAMES,
    MOST_SECONDS,
    NARROW,
    WEIGHTS,
    limits_of,
    parse_limit,
)

#: The largest size of a dimension in a file.
_MAX_SIZE: Final = 2**31 - 1
#: A number, "?", or a symbol: "x" separates sizes, so that it is not a letter of symbols.
_SIZE: Final = "[0-9]{1,10}|[?]|[A-Za-wyz_][A-Za-wyz_0-9]{0,63}"


def parsed(given: Iterable[str]) -> dict[str, tuple[int | str, ...]]:
    """Parse the shapes that `NAME=1x2x3` texts give, by name.

    Example:
        >>> parsed(["x=Bx2x?", "a=b=4", "B=8"])
        {'x': ('B', 2, '?'), 'a=b': (4,), 'B': (8,)}
    """
    shapes: dict[str, tuple[int | str, ...]] = {}
    for text in given:
        # A name may contain any character, so the last = separates.
        name, _, sizes = text.rpartition("=")
        parts = sizes.split("x") if sizes else []
        if not name or not all(re.fullmatch(_SIZE, part) for part in parts):
            raise click.UsageError(
                f"--input-shape {text[:200]}: expected NAME=SIZExSIZE..., each size a number from 0, "
                "a symbol without the letter x, or ?"
            )
        sizes_given = tuple(int(part) if part.isdecimal() else part for part in parts)
        if any(isinstance(size, int) and size > _MAX_SIZE for size in sizes_given):
            raise click.UsageError(f"--input-shape {text}: a size is at most {_MAX_SIZE}")
        if name in shapes:
            raise click.UsageError(f"--input-shape {text}: {name} has a shape already")
        shapes[name] = sizes_given
    return shapes


#: What makes a command of a function, or adds a parameter to a command.
Decorator = Callable[[Any], Any]


def names_from(
    choices: Choices, absent: str | None = None, *, with_extensions: bool = False
) -> dict[str, Any]:
    """Return the attributes of an option whose values are lists of names; several lists add up.

    The verb gets one list with the names as `choices` writes them, or `absent`. Names of extensions stay
    as they are, if the option takes them.
    """

    def joined(ctx: click.Context, param: Option, texts: tuple[str, ...]) -> str | None:
        if not texts:
            return absent
        words = [word.strip() for text in texts for word in text.split(",") if word.strip()]
        by_fold = {name.lower(): name for name in choices()}
        if with_extensions:
            by_fold.update({word.lower(): word for word in words if is_extension(word)})
        for word in words:
            if word.lower() not in by_fold:
                refuse_unknown(param.flag, word, tuple(by_fold.values()))
        return ",".join(dict.fromkeys(by_fold[word.lower()] for word in words))

    return {"multiple": True, "callback": joined, "shell_complete": complete_from(choices)}


def _profiles() -> Iterable[str]:
    """Return the names of TOSA's profiles and extensions."""
    from tosa_convert.rules.profiles import CAPABILITIES

    return CAPABILITIES


def _reader_releases() -> list[str]:
    """Return what --for takes: programs, and each with a release."""
    return [
        text
        for name in every_reader()
        for text in (name, *(f"{name}=={release}" for release in releases(reader_named(name))))
    ]


def _checked_readers(ctx: click.Context, param: Option, value: Any) -> Any:
    """Refuse unknown readers before any work, and say which release counts if none is given."""
    for text in value if param.multiple else filter(None, [value]):
        row = reader_named(text, param.flag)
        # `doctor` prints the release of each program, and a completion nothing.
        if not ctx.resilient_parsing and ctx.command.name != "doctor" and "==" not in text:
            how = f" with {row.options}" if row.options and ":" not in text else ""
            note(f"--for {text}: {row.release}{how} counts, the newest known release")
    return value


def negated(ctx: click.Context, param: Option, value: bool) -> bool:
    """Return the value of the option that a flag such as --no-validate turns off."""
    return not value


def _limits(ctx: click.Context, param: Option, texts: tuple[str, ...]) -> Any:
    """Return the limits that the texts set."""
    given = dict(map(parse_limit, texts))
    for name in given:
        refuse_unknown(param.flag, name, LIMIT_NAMES)
    return limits_of(given)


def _row(flag: str, *names: str, **attributes: Any) -> tuple[str, dict[str, Any]]:
    return flag, {"names": names, **attributes}


#: Flag -> what it is in every verb that has it: further names, its values, and its meaning.
SHARED: Final[dict[str, dict[str, Any]]] = dict(
    (
        _row(
            "--output",
            "-o",
            type=WritePath(),
            help="The file or folder to write; - is standard output.",
        ),
        _row(
            "--to",
            type=click.Choice(WRITTEN),
            help="Format of the output; by default what its extension says.",
            more="Standard output has that of the input.",
        ),
        _row("--verify", is_flag=True, help="Read the result back and compare it bit for bit."),
        _row(
            "--no-validate",
            "validate",
            is_flag=True,
            callback=negated,
            help="Also write a program that TOSA forbids, which `tosa-flatbuffer validate` reports.",
        ),
        _row("--json", "as_json", is_flag=True, help="Print the result as JSON."),
        _row(
            "--json-report",
            "json_file",
            type=WritePath(),
            metavar="FILE",
            help="Also write the result as JSON; - is standard output.",
        ),
        _row(
            "--all", "everything", is_flag=True, help="Report every difference, not only the first."
        ),
        _row(
            "--keep",
            type=Folder(),
            metavar="DIR",
            help="Keep the program, inputs and results of each failure below this folder.",
        ),
        _row(
            "--func",
            metavar="NAME",
            shell_complete=complete_functions,
            help="The function of an MLIR module or the signature of a TFLite model, if it has several.",
        ),
        _row(
            "--input-shape",
            "input_shapes",
            multiple=True,
            metavar="NAME=1x2x3",
            callback=lambda ctx, param, texts: parsed(texts),
            shell_complete=complete_tensors(lambda graph: graph.main.inputs, "="),
            help="Sizes of an argument with dynamic dimensions; the other shapes are inferred. NAME may "
            "be its position, arg0, arg1, ..., or its name in MLIR text, such as %x. A size may be ?, "
            "which stays open, or a symbol such as B, which is the same size everywhere and may be set "
            "with B=8. May be repeated.",
        ),
        _row(
            "--narrow",
            metavar="TYPES",
            **names_from(lambda: NARROW, absent=""),
            help="Element types to convert, separated by commas: i64 to i32, f64 to f32, f32 to f16, "
            "quant (quantised types) to the integers that they are stored as. Each tensor that is "
            "narrowed is reported.",
        ),
        _row(
            "--custom",
            multiple=True,
            type=NamesFile(),
            metavar="FILE.py",
            help="What CUSTOM operators compute: a Python file, or extension:NAME of an installed "
            "package, with a list CUSTOM of tosa_convert.Custom. numpy computes the reference. May be "
            "repeated.",
        ),
        _row(
            "--pass-captured",
            is_flag=True,
            help="Pass values that a region of MLIR uses from outside as operands of its control-flow "
            "operator, and copy constants into the region. Both are reported.",
        ),
        _row(
            "--only",
            metavar="NAMES",
            help="Take only these, separated by commas.",
        ),
        _row(
            "--weights",
            type=click.Choice(list(WEIGHTS)),
            default="auto",
            help="Where constants are stored. embedded: in the flatbuffer; offset: appended after it; "
            "npy, safetensors, irpa: files beside it; auto (the default): embedded up to 2 GiB.",
        ),
        _row("--accept-changed-weights", is_flag=True, help="Accept weights that were edited."),
        _row(
            "--for",
            metavar="READER",
            callback=_checked_readers,
            shell_complete=complete_from(_reader_releases),
            help="The program that is to read the file, such as iree, vela:ethos-u85 or iree==3.2.",
        ),
        _row(
            "--profile",
            metavar="NAMES",
            **names_from(_profiles),
            help="The profiles and extensions that the target has, such as PRO-INT,EXT-INT16.",
        ),
        _row(
            "--level",
            type=click.Choice(["8k", "none"], case_sensitive=False),
            help="The level of the target, which limits ranks and sizes.",
        ),
        _row(
            "--input",
            "-i",
            "arrays",
            multiple=True,
            type=ArrayFile(),
            metavar="[NAME=]FILE",
            shell_complete=complete_tensors(lambda graph: graph.main.inputs, "="),
            help="Values of inputs: an .npz file with an array for each name, or NAME=FILE.npy. May be "
            "repeated; - is standard input.",
        ),
        _row(
            "--random",
            type=click.IntRange(0),
            metavar="SEED",
            help="Random values for the other inputs, in a range for each element type.",
        ),
        _row(
            "--range",
            "ranges",
            multiple=True,
            metavar="NAME=LOW:HIGH",
            shell_complete=complete_tensors(lambda graph: graph.main.inputs, "="),
            distinct=lambda text: text.rpartition("=")[0],
            help="Another range for the random values of the inputs whose name matches NAME.",
        ),
        _row(
            "--no-edges",
            is_flag=True,
            excludes=("--edges",),
            help="Random inputs alone. By default edge inputs of the same seed follow them.",
        ),
        _row(
            "--edges",
            is_flag=True,
            help="Edge inputs instead of random ones, from the same seed: zeros, ties, limits of types, "
            "NaN, infinities, subnormal numbers, the first and the last index.",
        ),
        _row(
            "--seeds",
            type=click.IntRange(1),
            metavar="N",
            help="Use random inputs of N seeds.",
        ),
        _row(
            "--calibration",
            excludes=("--seeds", "--random", "--range", "--edges"),
            type=ReadPath(),
            metavar="NPZ",
            help="Use each sample of a file: arrays by input with a further first dimension.",
        ),
        _row(
            "--pattern",
            multiple=True,
            metavar="GLOB",
            shell_complete=complete_tensors(tensors_of),
            help="Only tensors whose name matches. May be repeated.",
        ),
        _row(
            "--variables",
            type=ReadPath(),
            metavar="NPZ",
            help="Initial states of variables, by name.",
        ),
        _row(
            "--against",
            type=NamesFile(),
            metavar="BACKEND",
            help="The backend: numpy, iree, tflite:MODEL, torch:MODEL, onnxruntime:MODEL, "
            "jax:FILE.py:NAME, a .py file with a function run, extension:NAME of an installed package, "
            "a consumer by name such as tosa-opt, a folder or .npz file of results, another model with "
            "the same tensor names, or a command with {model} {inputs} {outputs}.",
        ),
        _row(
            "--original",
            default="",
            type=NamesFile(),
            metavar="FILE",
            help="The original model, where BACKEND does not name it: a .tflite or .onnx file, or for "
            "torch FILE.py:NAME or an exported program.",
        ),
        *(
            _row(
                flag,
                multiple=True,
                distinct=lambda text: text.rpartition(":")[0],
                metavar="[NAME:]VALUE",
                shell_complete=complete_tensors(lambda graph: graph.main.outputs, ":"),
                help=f"{kind} tolerance, for all floating point or the tensors whose name matches NAME.",
            )
            for flag, kind in (("--atol", "Absolute"), ("--rtol", "Relative"))
        ),
        _row(
            "--official",
            is_flag=True,
            help="Let TOSA's rule alone decide about a sum; else it fails if it errs far more than "
            "ordinary implementations do.",
        ),
        _row(
            "--widen",
            is_flag=True,
            help="Run the program with FP32 in place of FP16, BF16 and FP8 on both sides, so that "
            "smaller faults are seen.",
        ),
        _row(
            "--strict",
            is_flag=True,
            help="Fail a tensor of low precision, which may err by more than 1 % of its values.",
        ),
        _row(
            "--jobs",
            "-j",
            type=click.IntRange(min=0),
            default=0,
            metavar="N",
            help="Number of processes that work side by side; by default as many as make it fastest.",
        ),
        _row(
            "--seed",
            type=int,
            metavar="SEED",
            help="The same seed gives the same programs.",
        ),
        _row(
            "--max-cases",
            "limit",
            metavar="N",
            type=click.IntRange(1),
            help="Run at most N cases.",
        ),
        _row(
            "--refused",
            type=click.Choice(["skip", "fail"]),
            help="What a program means that the backend refuses: skip counts it as not run, fail as a "
            "failure. By default skip.",
        ),
        _row(
            "--python",
            default="",
            type=NamesFile(),
            metavar="PROGRAM",
            help="The Python that has the packages of the framework or backend; by default this one.",
        ),
        _row(
            "--engine",
            type=click.Choice(["auto", "numpy", "reference-model"]),
            default="auto",
            help="What computes the reference: the TOSA reference model, or numpy; auto takes the model "
            "if it is installed.",
        ),
        _row(
            "--timeout",
            type=click.FloatRange(min=0, max=MOST_SECONDS, min_open=True),
            default=600.0,
            metavar="SECONDS",
            help="Limit for one run of another program: the reference model, a backend, a converter.",
            more="600 by default.",
        ),
        _row(
            "--limit",
            "limits",
            metavar="NAME=N",
            multiple=True,
            distinct=lambda text: text.partition("=")[0],
            callback=_limits,
            shell_complete=complete_from(lambda: [f"{name}=" for name in LIMIT_NAMES]),
            help="Set a resource limit: " + ", ".join(LIMIT_NAMES) + ". May be repeated.",
        ),
        _row(
            "--batch-mib",
            type=click.IntRange(1),
            default=256,
            metavar="N",
            help="MiB of tensors that one run computes, 256 by default.",
        ),
        _row(
            "--work",
            type=Folder(),
            metavar="DIR",
            help="Keep answers in this folder; the same command continues an interrupted run.",
        ),
        _row(
            "--resume",
            is_flag=True,
            needs=("--work",),
            help="Keep the answers of a complete run, too, which by default begins anew.",
        ),
    )
)


def option(flag: str, *names: str, **attributes: Any) -> Decorator:
    """Return the decorator that gives a verb an option: one of `SHARED`, or one of its own.

    names: further names. attributes: those of `Option`, such as `required` and `multiple`; `more` is
    what the help of this verb adds to the meaning of a shared option.
    """
    row = {**SHARED.get(flag, {}), **attributes}
    shared_names = row.pop("names", ())
    row["help"] = " ".join(filter(None, (row["help"], row.pop("more", ""))))
    return click.option(flag, *(names or shared_names), cls=Option, **row)


def add_options(flags: str) -> Decorator:
    """Return the decorator that gives a verb some of `SHARED`, separated by blanks."""

    def add(command: Any) -> Any:
        for flag in flags.split():
            command = option(flag)(command)
        return command

    return add
