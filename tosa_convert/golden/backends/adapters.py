"""Consumers of TOSA programs that `--against` knows by name: a row says how each is run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tosa_convert.errors import fail
from tosa_convert.golden.backends.isolated import Passes, ProgramCommand
from tosa_convert.golden.backends.process import Machine
from tosa_convert.golden.running.commands import program_path
from tosa_convert.records import dataclass


@dataclass(frozen=True, slots=True)
class Adapter:
    """How a consumer is run.

    package: what PyPI calls it. words: of its command, with `{model}`, `{mlir}`, `{tflite}` and
    `{program}` as `ProgramCommand` has them; without `{program}` it only reads.
    pipeline: passes of MLIR that its bindings run. refusal: what its command says on stderr of a program
    that it does not take, as a regular expression.
    """

    package: str
    words: tuple[str, ...] = ()
    pipeline: str = ""
    refusal: str = ""


_SERIALIZER: Final = "filename={program}"
#: The second one is of a zero point that is no constant, of EXT-DYNAMIC.
_MLIR_REFUSAL: Final = r"(?<!LLVM )[Ee]rror: |ERROR: cannot retrieve the zero points"
_VELA_REFUSAL: Final = (
    "Validation error:|could not run on NPU|Compilation failed: TOSA (builder|FB Reader) error"
)


def _tosa_opt(*words: str) -> Adapter:
    return Adapter("tosa-tools", ("tosa-opt", *words), refusal=_MLIR_REFUSAL)


def _vela(accelerator: str) -> Adapter:
    words = ("vela", "--accelerator-config", accelerator, "--output-format", "raw")
    return Adapter(
        "ethos-u-vela", (*words, "--output-dir", "{folder}", "{model}"), refusal=_VELA_REFUSAL
    )


def _torch_mlir(*passes: str) -> Adapter:
    functions = [f"func.func({name})" if name.startswith("tosa-") else name for name in passes]
    return Adapter("torch-mlir", pipeline=f"builtin.module({','.join(functions)})")


#: Consumers by the name that `--against` takes.
ADAPTERS: Final[Mapping[str, Adapter]] = {
    "tosa-opt": _tosa_opt("{mlir}", "-o", "{program}.mlir"),
    "tosa-opt:bytecode": _tosa_opt("{mlir}", "--emit-bytecode", "-o", "{program}.mlirbc"),
    "tosa-opt:serialize": _tosa_opt(
        "{mlir}", f"--tosa-serialize=tosa-flatbuffer-{_SERIALIZER}.tosa", "-o", os.devnull
    ),
    "tosa-opt:deserialize": _tosa_opt(
        "{mlir}", "--tosa-deserialize=tosa-flatbuffer-filename={model}", "-o", "{program}.mlir"
    ),
    "tosa-opt:validate": _tosa_opt("{mlir}", "--tosa-validate", "-o", "{program}.mlir"),
    "torch-mlir:canonicalize": _torch_mlir("canonicalize"),
    "torch-mlir:cse": _torch_mlir("cse"),
    "torch-mlir:sccp": _torch_mlir("sccp"),
    "torch-mlir:infer-shapes": _torch_mlir("tosa-infer-shapes"),
    "torch-mlir:constant-fold": _torch_mlir("tosa-layerwise-constant-fold"),
    "torch-mlir:constant-fold-aggressive": _torch_mlir(
        "tosa-layerwise-constant-fold{aggressive-reduce-constant=true}"
    ),
    "torch-mlir:reduce-transposes": _torch_mlir("tosa-reduce-transposes"),
    "torch-mlir:make-broadcastable": _torch_mlir("tosa-make-broadcastable"),
    "torch-mlir:decompositions": _torch_mlir("tosa-optional-decompositions"),
    "torch-mlir:narrow-i64": _torch_mlir("tosa-narrow-i64-to-i32{aggressive-rewrite=false}"),
    "torch-mlir:downgrade": _torch_mlir("tosa-downgrade-1-1-to-1-0"),
    "torch-mlir:all": _torch_mlir(
        "tosa-infer-shapes",
        "tosa-make-broadcastable",
        "tosa-optional-decompositions",
        "canonicalize",
        "tosa-layerwise-constant-fold",
        "tosa-reduce-transposes",
        "canonicalize",
        "cse",
    ),
    "torch-mlir": Adapter("torch-mlir", pipeline="run"),
    "vela:ethos-u55": _vela("ethos-u55-128"),
    "vela:ethos-u65": _vela("ethos-u65-256"),
    "vela:ethos-u85": _vela("ethos-u85-256"),
    "model-converter": Adapter(
        "ai-ml-sdk-model-converter",
        ("model-converter", "--input", "{model}", "--output", "{program}.vgf"),
        refusal=_MLIR_REFUSAL,
    ),
    # From a TFLite model of the program's operators.
    "tflite-converter": Adapter(
        "tosa-converter-for-tflite",
        ("tosa-converter-for-tflite", "{tflite}", "--bytecode", "-o", "{program}.mlirbc"),
        refusal="failed to legalize",
    ),
}


def find_adapter(text: str) -> Adapter | None:
    """Return the row of a name; of Vela also by a size of its accelerator, or without one as `--for`.

    Example:
        >>> find_adapter("vela:ethos-u85-512").words[2], find_adapter("vela").words[2]
        ('ethos-u85-512', 'ethos-u55-128')
    """
    if text == "vela":
        return ADAPTERS["vela:ethos-u55"]
    chosen, _, size = text.rpartition("-")
    if size.isdecimal() and chosen in ADAPTERS and chosen.startswith("vela:"):
        return _vela(text.removeprefix("vela:"))
    return ADAPTERS.get(text)


def open_adapter(name: str, machine: Machine, keep: Path | None) -> ProgramCommand | Passes:
    """Return the backend of a row. Raises TosaConvertError("missing-backend") if it is not installed."""
    row = find_adapter(name)
    assert row is not None
    if row.pipeline:
        return Passes(name, row.pipeline, machine, keep)
    program = program_path(row.words[0], machine.python)
    if program is None:
        message = f"{row.words[0]} is not on PATH, nor beside {machine.python}"
        raise fail("missing-backend", f"--against {name}", message, f"pip install {row.package}")
    backend = ProgramCommand([program, *row.words[1:]], machine, keep, row.refusal)
    backend.name = backend.text = name
    return backend
