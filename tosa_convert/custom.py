"""The meaning of CUSTOM operators, which Python files, installed packages or callers give."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import ModuleType

from tosa_convert.errors import fail
from tosa_convert.extensions import failed, find_extension, is_extension
from tosa_convert.graph.model import Block, Graph, Region
from tosa_convert.graph.opset import Custom, OperatorSpec, operator, with_meaning

_PLAIN = operator("CUSTOM")


def give_meaning(graph: Graph, given: Iterable[str | os.PathLike[str] | Custom]) -> Graph:
    """Return the graph whose CUSTOM operators mean what operators, files or extensions say."""
    specs: dict[tuple[object, object], OperatorSpec] = {}
    for row in _rows(given):
        if (row.domain, row.name) in specs:
            message = f"the operator {row.name!r} of domain {row.domain!r} has two meanings"
            raise fail("option-conflict", "custom", message, "leave one of them out")
        specs[row.domain, row.name] = with_meaning(row)

    def known(block: Block) -> Block:
        operators = list(block.operators)
        for index, op in enumerate(operators):
            if op.spec is _PLAIN:
                key = op.attributes["domain_name"], op.attributes["operator_name"]
                operators[index] = replace(op, spec=specs.get(key, _PLAIN))
        return replace(block, operators=operators)

    regions = [Region(one.name, [known(block) for block in one.blocks]) for one in graph.regions]
    return replace(graph, regions=regions)


def has_meaning(graph: Graph) -> bool:
    """Return whether the meaning of a CUSTOM operator of a graph is known."""
    return any(op.spec.meaning for _, block in graph.blocks() for op in block.operators)


def _rows(given: Iterable[str | os.PathLike[str] | Custom]) -> Iterator[Custom]:
    for one in given:
        if isinstance(one, Custom):
            yield one
            continue
        text = os.fspath(one)
        module = _of_extension(text) if is_extension(text) else _of_file(text)
        rows = getattr(module, "CUSTOM", None)
        if not isinstance(rows, (list, tuple)) or not all(isinstance(row, Custom) for row in rows):
            message = f"CUSTOM is {rows!r:.200}, expected a list of tosa_convert.Custom(...)"
            raise fail("option-conflict", text, message)
        yield from rows


def _of_extension(name: str) -> ModuleType:
    extension = find_extension("custom", name)
    try:
        return importlib.import_module(extension.module)
    except (Exception, SystemExit) as error:
        raise failed(extension, f"{extension.module} was not loaded", error) from error


def _of_file(path: str) -> ModuleType:
    """Run a Python file, which can import what is beside it."""
    module = ModuleType(os.path.basename(path).removesuffix(".py"))
    module.__file__ = path
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        with open(path, "rb") as file:
            exec(compile(file.read(), path, "exec"), vars(module))
    except OSError as error:
        raise fail("file-error", path, error.strerror or str(error)) from None
    except (Exception, SystemExit) as error:
        lines = [
            row.lineno for row in traceback.extract_tb(error.__traceback__) if row.filename == path
        ]
        where = f"{path}:{lines[-1]}" if lines else path
        raise fail("option-conflict", where, f"{type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    return module
