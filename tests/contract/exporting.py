"""Helpers for tests of exports with options."""

from __future__ import annotations

from typing import Any

import tosa_convert as tc
from tosa_convert.formats.bindings.packages import Bindings


def export(bindings: Bindings, text: str, **options: Any) -> tc.Graph:
    module = bindings.ir.Module.parse(text, bindings.new_context())
    before = str(module)
    graph = tc.load(tc.export_tosa_func_to_flatbuffer(module, **options))
    assert str(module) == before, "the caller's module was changed"
    return graph


def shapes(graph: tc.Graph) -> dict[str, Any]:
    return {name: tensor.shape for name, tensor in graph.main.tensors.items()}
