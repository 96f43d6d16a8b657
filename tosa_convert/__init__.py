"""tosa-convert: TOSA programs between MLIR, flatbuffers and JSON.

import tosa_convert as tc
data = tc.export_tosa_func_to_flatbuffer(module_or_func)
module = tc.import_tosa_func_from_flatbuffer("m.tosa", context=context)
graph = tc.load("m.tosa"); tc.save(graph, "copy.tosa")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tosa_convert.version import __version__

if TYPE_CHECKING:
    from tosa_convert.api import (
        export_tosa_func_to_flatbuffer,
        import_tosa_func_from_flatbuffer,
        load,
        save,
    )
    from tosa_convert.errors import Finding, TosaConvertError
    from tosa_convert.graph import Graph, compare, verify

__all__ = [
    "Finding",
    "Graph",
    "TosaConvertError",
    "__version__",
    "compare",
    "export_tosa_func_to_flatbuffer",
    "import_tosa_func_from_flatbuffer",
    "load",
    "save",
    "verify",
]

#: Name -> the module that has it. Imported when first used: numpy alone takes longer to import than
#: the command-line tool needs to print its help.
_HOMES = {
    "Finding": "tosa_convert.errors",
    "Graph": "tosa_convert.graph.model",
    "TosaConvertError": "tosa_convert.errors",
    "compare": "tosa_convert.graph.compare",
    "export_tosa_func_to_flatbuffer": "tosa_convert.api",
    "import_tosa_func_from_flatbuffer": "tosa_convert.api",
    "load": "tosa_convert.api",
    "save": "tosa_convert.api",
    "verify": "tosa_convert.graph.verify",
}


def __getattr__(name: str) -> Any:
    import importlib

    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
