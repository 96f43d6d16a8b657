"""What existing programs read, found by experiment, and how users name these programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from tosa_convert.errors import fail, refuse_unknown, suggest
from tosa_convert.io.formats import FORMATS, MLIR_FORMATS, Format
from tosa_convert.io.options import Weights, WriteOptions

Form = Literal["embedded", "offset", "npy", "safetensors", "irpa"]


class Consumer(NamedTuple):
    """A program that reads TOSA programs.

    release: the package and its release that the facts were proved with; if nothing was, the date of
        the document.
    formats: the formats that it reads (`formats.Format`), the preferred one first.
    weights: the forms of weights in a `.tosa` file that it reads, the preferred one first.
    otherwise: what it does with a file of another form.
    variant: the accelerator, or the option, that the facts are of; `READER:VARIANT` names it.
    options: those of its command line that the facts were proved with.
    types: element types that it does not read.
    operators: operators that it does not read, such as "COND_IF"; with a type, as "REDUCE_MAX INT32",
        those with this first operand, as "CAST FP32->BOOL" also with this result, as
        "CONV2D BF16->BF16 acc BF16" also with this `acc_type`, and as "MATMUL BF16*FP16" with these
        first two operands.
    only: if it reads but a few operators: "" -> these, and the element type of a first operand -> those
        that it reads of that type.
    by_option: operator -> the option of its command line without which it does not read the operator.
    newest: the TOSA version of the newest operators that it reads.
    constants: of the operands that must be constants unless a target has EXT-DYNAMIC, those that must be
        constants in a `.tosa` file: "all" of them, only "zero points", or none.
    further_constants: operands that must be constants, too, such as "PAD pad_const", or
        "TABLE table INT16" for one element type.
    static: it reads only tensors of known rank and sizes. ranked: only tensors of known rank.
    single_rows: it reads ROW_GATHER only for one row, which is a GATHER.
    static_operators: operators that it reads only with known sizes, unless they change nothing.
    max_rank: the most dimensions of a tensor that it reads.
    unused: it does not look at inputs that no operator uses.
    initial: variables have an initial value.
    computed: an output must not be an input. least: what a program has at least.
    shape_outputs: an output may be a shape.
    entry: it reads only functions with `tf.entry_function`, which no file of TOSA has.
    rewrites: by which programs are changed that it would not read, and compute the same afterwards.
    limits: the hardware or program whose sizes, strides and ranks `consumers.unread` knows.
    lenient: it reads programs that TOSA forbids, too.
    generic_text: it reads MLIR text with attributes only in generic form.
    old_variables: it reads bytecode with variables only up to version 4.
    dialect: the month of the TOSA dialect of its MLIR, if that is older than today's.
    every_form: it reads text in custom form and each version of bytecode, though its dialect is older.
    tosa: the older version of `.tosa` files that is all it reads, such as "0.80".
    stamped: the newest version of a `.tosa` file that it reads, whatever operators are in it.
    old_tosa: it reads `.tosa` files of TOSA 0.80, too.
    source: what is documented and was not tried, and where.
    """

    name: str
    weights: tuple[Form, ...]
    otherwise: str
    release: str
    formats: tuple[Format, ...] = ("tosa",)
    variant: str = ""
    options: str = ""
    types: frozenset[str] = frozenset()
    operators: frozenset[str] = frozenset()
    only: Mapping[str, frozenset[str]] = MappingProxyType({})
    by_option: Mapping[str, str] = MappingProxyType({})
    newest: tuple[int, int] = (1, 1)
    constants: Literal["", "zero points", "all"] = ""
    further_constants: frozenset[str] = frozenset()
    static: bool = False
    static_operators: frozenset[str] = frozenset()
    ranked: bool = False
    single_rows: bool = False
    max_rank: int = 64
    computed: bool = False
    unused: bool = False
    initial: bool = False
    least: Literal["", "a value", "an output"] = ""
    shape_outputs: bool = True
    entry: bool = False
    rewrites: tuple[str, ...] = ()
    limits: Literal["", "ethos-u55", "iree", "torq", "soda-opt"] = ""
    lenient: bool = False
    generic_text: bool = False
    old_variables: bool = False
    dialect: str = ""
    every_form: bool = False
    tosa: str = ""
    stamped: tuple[int, int] = (1, 1)
    old_tosa: bool = False
    source: str = ""

    @property
    def spelling(self) -> str:
        """Return what `--for` calls it."""
        return f"{self.name}:{self.variant}" if self.variant else self.name


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FLOATS: Final = ("FP32", "FP16", "BF16", "FP8E4M3", "FP8E5M2")
_ETHOS_U85: Final = Consumer(
    "vela",
    ("embedded",),
    "refuses the file: constants are missing",
    "ethos-u-vela 5.2.0",
    variant="ethos-u85",
    options="--accelerator-config ethos-u85-256",
    types=_names("FP32 FP16 BF16 FP8E4M3 FP8E5M2 FP4E2M1 FP6E2M3 FP6E3M2 FP8UE8M0 MXINT8 INT64"),
    operators=frozenset(("CUSTOM", "SCATTER BOOL")),
    newest=(1, 0),
    constants="all",
    further_constants=frozenset(
        (
            *("PAD pad_const", "TABLE table INT16", "COND_IF condition"),
            *("CONV3D weight", "CONV3D bias"),
            *("TRANSPOSE_CONV2D weight", "TRANSPOSE_CONV2D bias"),
        )
    ),
    # It takes an unknown size for 4294967295, and compiles that or crashes.
    static=True,
    max_rank=6,
    computed=True,
    unused=True,
    least="an output",
    shape_outputs=False,
)
#: Without --accelerator-config Vela compiles for an Ethos-U55.
_ETHOS_U55: Final = _ETHOS_U85._replace(
    variant="ethos-u55",
    options="--accelerator-config ethos-u55-256",
    types=_ETHOS_U85.types | {"BOOL"},
    operators=_ETHOS_U85.operators
    | _names(
        "BITWISE_AND BITWISE_NOT BITWISE_OR BITWISE_XOR COND_IF GATHER INTDIV LOGICAL_RIGHT_SHIFT "
        "SCATTER WHILE_LOOP"
    )
    | {
        *("ARGMAX INT16", "ARITHMETIC_RIGHT_SHIFT INT8", "ARITHMETIC_RIGHT_SHIFT INT16"),
        *("LOGICAL_LEFT_SHIFT INT8", "LOGICAL_LEFT_SHIFT INT16", "MATMUL INT16"),
        *("REDUCE_MAX INT32", "REDUCE_MIN INT32", "TRANSPOSE_CONV2D INT16"),
    },
    further_constants=_ETHOS_U85.further_constants
    | {"CONV2D weight", "CONV2D bias", "DEPTHWISE_CONV2D weight", "DEPTHWISE_CONV2D bias"},
    rewrites=("reduce-before-rescale",),
    limits="ethos-u55",
)
_MODEL_CONVERTER: Final = Consumer(
    "model-converter",
    ("embedded", "offset"),
    "finds no data",
    "ai-ml-sdk-model-converter 0.11.0",
    formats=("tosa", "mlirbc", "mlir"),
    types=_names("FP4E2M1 FP6E2M3 FP6E3M2 FP8UE8M0 MXINT8"),
    operators=_names(
        "COND_IF WHILE_LOOP VARIABLE_READ VARIABLE_WRITE ASSERT_EQUAL_SHAPE MATMUL_T "
        "CAST_FROM_BLOCK_SCALED CAST_TO_BLOCK_SCALED CONV2D_BLOCK_SCALED "
        "MATMUL_T_BLOCK_SCALED RESHAPE_BLOCK_SCALED ROW_GATHER_BLOCK_SCALED"
    )
    | frozenset(
        (
            *("ARGMAX INT32", "GATHER BOOL", "SCATTER BOOL", "RESIZE FP8E4M3", "RESIZE FP8E5M2"),
            *("CAST FP32->BOOL", "MATMUL FP8E4M3->FP32", "MATMUL FP8E5M2->FP32"),
            *("MATMUL FP8E4M3*FP8E5M2", "MATMUL FP8E5M2*FP8E4M3", "CONV2D FP8E4M3*FP8E5M2"),
            *("CONV2D FP8E5M2*FP8E4M3", "CONV2D FP8E5M2*BF16"),
        )
    ),
    by_option=MappingProxyType({"CUSTOM": "--custom-op-domain-to-opcode DOMAIN:OPCODE"}),
    constants="zero points",
    least="an output",
    shape_outputs=False,
    single_rows=True,
    static_operators=_names("RESHAPE TRANSPOSE"),
    ranked=True,
    max_rank=6,
)


#: Convolutions whose mixed types of TOSA 1.1 the reference model does not have yet, and these types.
_UNMIXED: Final = ("CONV3D", "TRANSPOSE_CONV2D")
_MIXED: Final = (
    *(f"{one}*{two}" for one, two in permutations(_FLOATS, 2)),
    *("BF16->FP32", "FP16->FP32", "FP8E4M3->BF16", "FP8E5M2->BF16", "BF16->BF16 acc BF16"),
    *("FP8E4M3->FP16 acc FP32", "FP8E5M2->FP16 acc FP32"),
)

CONSUMERS: Final = {
    row.name: row
    for row in (
        Consumer(
            "reference-model",
            ("embedded", "offset"),
            "finds no data",
            "tosa-tools 2026.8.0",
            formats=("tosa", "json"),
            operators=frozenset(
                (
                    *("GATHER INT64*INT32", "SCATTER INT64*INT32"),
                    *(f"{name} {types}" for name in _UNMIXED for types in _MIXED),
                )
            ),
            static=True,
            max_rank=6,
        ),
        Consumer(
            "tosa-opt",
            ("embedded", "offset"),
            "finds no data",
            "tosa-tools 2026.8.0",
            formats=("tosa", "mlirbc", "mlir"),
            constants="zero points",
            initial=True,
        ),
        _MODEL_CONVERTER,
        _ETHOS_U55,
        Consumer(
            "model-explorer",
            ("embedded",),
            "shows the graph without the values of constants",
            "tosa-adapter-model-explorer 0.1.0",
            least="a value",
            lenient=True,
        ),
        Consumer(
            "flatc",
            ("embedded",),
            "silently drops the weights",
            "tosa-tools 2026.8.0",
            formats=("tosa", "json"),
            lenient=True,
        ),
    )
}

#: Further programs, for which there is no form of a `.tosa` file to choose.
OTHER_CONSUMERS: Final = {
    row.name: row
    for row in (
        Consumer("torch-mlir", (), "", "torch-mlir 20261001", formats=("mlirbc", "mlir")),
        Consumer(
            "iree",
            (),
            "",
            "iree-base-compiler 3.13.0",
            formats=("mlirbc", "mlir"),
            types=_names("FP8UE8M0"),
            operators=_names(
                "ASSERT_EQUAL_SHAPE CUSTOM MATMUL_T MATMUL_T_BLOCK_SCALED CONV2D_BLOCK_SCALED "
                "CAST_FROM_BLOCK_SCALED CAST_TO_BLOCK_SCALED RESHAPE_BLOCK_SCALED "
                "ROW_GATHER_BLOCK_SCALED"
            ),
            ranked=True,
            shape_outputs=False,
            limits="iree",
            generic_text=True,
            old_variables=True,
        ),
        Consumer(
            "netron",
            ("embedded", "offset", "npy"),
            "",
            "netron 9.3.3",
            types=_names("FP4E2M1 FP6E2M3 FP6E3M2 FP8UE8M0 MXINT8"),
            formats=("tosa", "json", "mlirbc", "mlir"),
            newest=(1, 0),
            lenient=True,
            old_tosa=True,
        ),
        Consumer(
            "torq",
            (),
            "",
            "torq-compiler 2.3.0",
            formats=("mlirbc", "mlir"),
            options="--iree-input-type=tosa-torq",
            dialect="2026-01",
            every_form=True,
            operators=_names(
                "CAST_FROM_BLOCK_SCALED CAST_TO_BLOCK_SCALED COND_IF CUSTOM MATMUL_T_BLOCK_SCALED "
                "WHILE_LOOP"
            )
            | frozenset(
                (
                    *("MAX_POOL2D FP8E4M3", "MAX_POOL2D FP8E5M2"),
                    *(
                        "RESIZE FP8E4M3",
                        "RESIZE FP8E5M2",
                        "CAST INT64->BOOL",
                    ),
                    *(f"{name} {types}" for name in ("CONV2D", *_UNMIXED) for types in _MIXED),
                )
            ),
            static=True,
            max_rank=6,
            shape_outputs=False,
            limits="torq",
        ),
        Consumer(
            "soda-opt",
            (),
            "",
            "mlir-opt 19.1.7",
            formats=("mlirbc", "mlir"),
            dialect="2024-07",
            operators=_names(
                "COND_IF CUSTOM SCATTER TRANSPOSE_CONV2D VARIABLE_READ VARIABLE_WRITE WHILE_LOOP"
            )
            | {"MAX_POOL2D FP8E4M3", "MAX_POOL2D FP8E5M2"},
            ranked=True,
            limits="soda-opt",
            source="soda-opt has the MLIR of LLVM 19.1.5: "
            "https://github.com/pnnl/soda-opt/pull/11 of 2025-03-05",
        ),
        # What one of its backends runs.
        Consumer(
            "virtio-accel",
            ("embedded", "offset"),
            "",
            "virtio-accel 2026-09-17",
            types=_names("INT4 INT16 INT48 INT64 FP4E2M1 FP6E2M3 FP6E3M2 FP8UE8M0 MXINT8"),
            operators=frozenset(
                f"CAST {one}->{two}"
                for one, two in permutations(("BOOL", "INT8", "INT32", "FP16", "BF16", "FP32"), 2)
            ),
            only=MappingProxyType(
                {
                    "": _names(
                        "ABS ADD ARGMAX CAST CEIL CLAMP CONCAT CONST CONST_SHAPE COS EQUAL ERF EXP "
                        "FLOOR GREATER GREATER_EQUAL IDENTITY LOG LOGICAL_AND LOGICAL_NOT LOGICAL_OR "
                        "LOGICAL_XOR MATMUL MAXIMUM MAX_POOL2D MINIMUM MUL NEGATE POW RECIPROCAL "
                        "REDUCE_MAX REDUCE_MIN REDUCE_PRODUCT REDUCE_SUM RESHAPE REVERSE RSQRT SELECT "
                        "SIGMOID SIN SUB TANH TRANSPOSE"
                    ),
                    "INT8": _names("CAST CONST IDENTITY MATMUL"),
                    "INT32": _names("CAST CONCAT CONST IDENTITY RESHAPE REVERSE TRANSPOSE"),
                    "BF16": _names("CAST CONST IDENTITY MATMUL MAX_POOL2D"),
                }
            ),
            newest=(1, 0),
            constants="all",
            static=True,
            max_rank=6,
            stamped=(1, 0),
            source="README.md and crates/*/README.md of https://github.com/MicroPerceptron/virtio-accel",
        ),
    )
}

#: All programs, by name.
READERS: Final = CONSUMERS | OTHER_CONSUMERS

#: Programs whose accelerator or option matters -> their rows; the first is what runs without an option.
VARIANTS: Final = {
    "vela": (
        _ETHOS_U55,
        _ETHOS_U55._replace(variant="ethos-u65", options="--accelerator-config ethos-u65-256"),
        _ETHOS_U85,
    ),
    "model-converter": (
        _MODEL_CONVERTER,
        _MODEL_CONVERTER._replace(
            variant="require-static-shape", options="--require-static-shape", entry=True
        ),
    ),
}

#: Program -> its older releases that the facts were proved with -> the month of the TOSA dialect, oldest
#: first. Those of IREE that are dates are of the package iree-compiler.
_DIALECTS: Final[dict[str, dict[str, str]]] = {
    "tosa-opt": {"2026.2.0": "2026-02", "2026.2.1": "2026-02", "2026.5.0": "2026-05"},
    "iree": {
        "20220523.147": "2022-05",
        "20220714.204": "2022-07",
        "20220930.282": "2022-09",
        "20230209.425": "2023-02",
        "20230524.529": "2023-05",
        "20230815.614": "2023-08",
        "20231004.665": "2023-10",
        "20231113.707": "2023-11",
        "20240129.785": "2024-01",
        "20240724.964": "2024-07",
        "3.0.0": "2024-07",
        "3.1.0": "2025-01",
        "3.2.0": "2025-02",
        "3.3.0": "2025-03",
        "3.4.0": "2025-04",
        "3.5.0": "2025-06",
        "3.6.0": "2025-06",
        "3.7.1": "2025-09",
        "3.8.0": "2025-10",
        "3.9.0": "2025-11",
        "3.10.0": "2026-01",
        "3.11.0": "2026-02",
    },
}
#: Older releases of Vela -> the version of the `.tosa` files that they read, if it is not 1.0.
_VELA: Final = {
    **dict.fromkeys(("4.0.1", "4.1.0", "4.2.0", "4.3.0"), "0.80"),
    **dict.fromkeys(("4.4.0", "4.4.1", "4.5.0", "5.0.0", "5.1.0"), ""),
}
_CONTROL_FLOW: Final = _names("COND_IF WHILE_LOOP")
#: Operators that the first releases of Vela read, which have another reader of `.tosa` files.
_IN_FIRST_VELA: Final = _names(
    "ADD ARITHMETIC_RIGHT_SHIFT AVG_POOL2D CLAMP CONCAT CONST CONST_SHAPE CONV2D DEPTHWISE_CONV2D "
    "IDENTITY MAX_POOL2D MUL RESCALE RESHAPE SLICE SUB TABLE TRANSPOSE"
)


def releases(row: Consumer) -> dict[str, Consumer]:
    """Return a program by its releases, oldest first."""
    package, newest = row.release.split()
    found = {}
    for version, month in _DIALECTS.get(row.name, {}).items():
        of_dates = row.name == "iree" and not version.startswith("3.")
        release = f"{'iree-compiler' if of_dates else package} {version}"
        # tosa-opt 2026.2 refuses .tosa files that a newer release of the schema is stamped on.
        formats = row.formats if version not in ("2026.2.0", "2026.2.1") else ("mlirbc", "mlir")
        found[version] = row._replace(release=release, dialect=month, formats=formats)
    if row.name == "vela":
        for version, tosa in _VELA.items():
            first = version < "4.2"
            release = f"{package} {version}"
            stamped = (1, 0) if version < "5.1" else row.stamped
            found[version] = row._replace(
                release=release,
                tosa=tosa,
                operators=row.operators | _CONTROL_FLOW,
                only={"": _IN_FIRST_VELA} if first else {},
                stamped=stamped,
            )
    return found | {newest: row}


def listed_formats(row: Consumer) -> str:
    *first, last = (FORMATS[name] for name in row.formats)
    return f"{', '.join(first)} and {last}" if first else last


def options_for(row: Consumer, file_format: Format, options: WriteOptions) -> WriteOptions:
    """Return the options that write a file in a form that a program reads."""
    if file_format not in row.formats:
        message = f"{row.name} reads {listed_formats(row)}, not {FORMATS[file_format]}"
        raise fail("option-conflict", "for", message, "choose another format or release")
    if file_format in MLIR_FORMATS:
        is_generic = row.generic_text and file_format == "mlir"
        return replace(options, dialect=row.dialect, generic=options.generic or is_generic)
    if row.name in CONSUMERS:
        weights = weights_for(row.name, options.weights)
        return replace(options, dialect=row.tosa, weights=weights)
    return options


def weights_for(consumer: str, weights: Weights) -> Weights:
    """Return the form of the weights for a program.

    Example:
        >>> weights_for("vela", "auto"), weights_for("tosa-opt", "auto")
        ('embedded', 'auto')
    """
    refuse_unknown("for", consumer, CONSUMERS)
    row = CONSUMERS[consumer]
    if weights == "auto":
        # "auto" could choose another form for a large file, so the only form is requested by name.
        return row.weights[0] if len(row.weights) == 1 else "auto"
    if weights not in row.weights:
        message = f'weights="{weights}" for {consumer}: it {row.otherwise}'
        raise fail("option-conflict", "for", message, f"use {' or '.join(row.weights)}")
    return weights


# -- how users name programs that read files: `vela`, `vela:ethos-u85-512`, `iree==3.2` ------------

#: Accelerator -> its sizes, in multipliers, which Vela's `--accelerator-config` appends. The facts were
#: proved with 256; by experiment Vela reads the same operators for each.
MAC_COUNTS: Final = {
    "ethos-u55": ("32", "64", "128", "256"),
    "ethos-u65": ("256", "512"),
    "ethos-u85": ("128", "256", "512", "1024", "2048"),
}


def every_reader() -> list[str]:
    return [
        row.spelling
        for name in READERS
        for row in VARIANTS.get(name, (READERS[name],))
        if not row.entry
    ]


def accelerators(*, sizes: bool = True) -> list[str]:
    """Return the names of programs with an accelerator or an option. sizes: also those with its size."""
    return [
        text
        for rows in VARIANTS.values()
        for row in rows
        if row.variant
        for text in (
            row.spelling,
            *(f"{row.spelling}-{size}" for size in MAC_COUNTS.get(row.variant, ()) if sizes),
        )
    ]


def _of_part(name: str) -> str:
    """Return the hint for an accelerator without its program, such as "u55"; "" for other names."""
    if len(name) < 3:
        return ""
    near = [text for text in accelerators() if text.endswith((f":{name}", f"-{name}"))]
    return f"did you mean {near[0]}?" if near else ""


def other_variants(row: Consumer) -> list[Consumer]:
    """Return the rows of the same release for other accelerators and options."""
    version = row.release.split()[1]
    others = (other for other in VARIANTS.get(row.name, ()) if other.variant != row.variant)
    return [releases(other)[version] for other in others]


def reader_named(text: str, option: str = "for") -> Consumer:
    """Return the newest release of a program by name and, perhaps, version: "iree==3.2"."""
    asked, given, version = text.partition("==")
    name, colon, variant = asked.partition(":")
    if name not in READERS:
        message = (
            f"found {name!r}, expected one of {', '.join((*READERS, *accelerators(sizes=False)))}"
        )
        raise fail("option-conflict", option, message, suggest(name, READERS, _of_part(name)))
    row = READERS[name]
    if colon:
        rows = {one.variant: one for one in VARIANTS.get(name, ()) if one.variant}
        chosen, _, size = variant.rpartition("-")
        if chosen in rows and size in MAC_COUNTS.get(chosen, ()):
            variant = chosen  # What is read does not depend on it.
        if not rows:
            message = f"found {text!r}, and {name} has no accelerators or options to choose"
            raise fail("option-conflict", option, message, f"did you mean {name}?")
        if variant not in rows:
            given_names = [text.partition(":")[2] for text in accelerators() if f"{name}:" in text]
            refuse_unknown(f"{option} {name}", variant, given_names)
        row = rows[variant]
    if not given:
        return row
    known = releases(row)
    matching = [key for key in known if f"{key}.".startswith(f"{version.rstrip('.')}.")]
    if not matching or not version:
        refuse_unknown(f"{option} {name}", version, known)
    return known[matching[-1]]
