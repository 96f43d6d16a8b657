"""Every option that a message, a help text or a docstring of the package names exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click

from tosa_convert.cli.main import VERBS, verb

PACKAGE = Path(__file__).resolve().parents[2] / "tosa_convert"
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9]")
#: Options of other programs, which commands, messages and docstrings name.
_REFERENCE_MODEL = (
    "--test --tosa --ofm --imp --ref --bnd --flatbuffer --terminate --loglevel --debugmask"
)
_OPT = (
    "--emit-bytecode-version --mlir-print-op-generic --shape-inference --tosa-validate"
    " --convert-onnx-to-tosa --tfl-to-tosa-pipeline --tf-to-tosa-pipeline"
    " --torch-backend-to-tosa-backend-pipeline"
)
_OF_CHILDREN = "--serve"
_OTHERS = (
    "--logfile --model --validate --strict-json --raw-binary"
    " --iree-llvmcpu-target-cpu --iree-llvmcpu-stack-allocation-limit --output-format --tosa-serialize"
    " --tosa-deserialize --emit-bytecode --output-dir"
    " --accelerator-config --require-static-shape --custom-op-domain-to-opcode --bytecode"
    " --iree-input-type"
)
#: Options that the plugin adds to pytest, and a variable of a stylesheet.
_ELSEWHERE = "--tosa-against --tosa-no-edges --tosa-seeds --tosa-xfail --hue"


def of(command: click.Command) -> Iterator[str]:
    """Yield the options of a command and of its commands, with their earlier spellings."""
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield from (*parameter.opts, *parameter.secondary_opts, *getattr(parameter, "old", ()))
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from of(inner)


def named() -> Iterator[tuple[str, str]]:
    """Yield each option that a string of the package names, with its place."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for option in _OPTION.findall(node.value):
                    yield f"{path.relative_to(PACKAGE)}:{node.lineno}", option


def test_every_option_that_is_named_exists() -> None:
    others = f"{_REFERENCE_MODEL} {_OPT} {_OTHERS} {_OF_CHILDREN} {_ELSEWHERE}"
    known = {"--help", "--version", *others.split()}
    known.update(*(of(verb(name)) for name in VERBS))
    found = list(named())
    assert len(found) > 100
    assert [row for row in found if row[1] not in known] == []
