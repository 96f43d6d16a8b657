"""tosa-convert: TOSA programs between MLIR, flatbuffers and JSON.

import tosa_convert as tc
data = tc.export_tosa_func_to_flatbuffer(module_or_func)
module = tc.import_tosa_func_from_flatbuffer("m.tosa", context=context)
graph = tc.load("m.tosa"); tc.save(graph, "copy.tosa")
"""

from tosa_convert.api import (
    export_tosa_func_to_flatbuffer,
    import_tosa_func_from_flatbuffer,
    load,
    save,
)
from tosa_convert.errors import Finding, TosaConvertError
from tosa_convert.graph import Graph, compare, verify
from tosa_convert.version import __version__

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
