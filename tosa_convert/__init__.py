"""tosa-convert: TOSA programs between MLIR, flatbuffers and JSON.

Everything public is imported when it is first used, because importing numpy alone takes longer than the
command-line tool needs to print its help.

`load`, `save`, `dumps`, export and import convert programs; `verify`, `validate`, `compare`, `diff`,
`extract`, `rename`, `rewrites.apply`, `edit.rewrite` and `summarize` work on graphs; `run`, `check`,
`bisect`, `reduce` and `generate` are those of `tosa_convert.golden`, whose `compare` is about arrays;
`reference` has each operator as a function of arrays.

Example:
    >>> import tosa_convert as tc
    >>> graph = tc.load("digits_cnn.tosa")
    >>> module = tc.to_module(graph)
    >>> tc.export_tosa_func_to_flatbuffer(module) == tc.dumps(graph)
    True
"""

from __future__ import annotations

from tosa_convert.version import __version__

TYPE_CHECKING = False  # typing takes as long to import as Python takes to start
if TYPE_CHECKING:
    from typing import Any

    from tosa_convert import frontends, golden, reference, rewrites
    from tosa_convert.api import (
        dumps,
        export_tosa_func_to_flatbuffer,
        export_weights,
        from_module,
        import_tosa_func_from_flatbuffer,
        import_weights,
        load,
        save,
        strip_weights,
        to_module,
    )
    from tosa_convert.builder import edit
    from tosa_convert.consumers.validate import validate
    from tosa_convert.errors import Finding, TosaConvertError
    from tosa_convert.golden import bisect, check, generate, reduce, run
    from tosa_convert.graph.compare import compare
    from tosa_convert.graph.derived import extract, rename
    from tosa_convert.graph.model import Graph
    from tosa_convert.graph.opset import Custom
    from tosa_convert.graph.verify import verify
    from tosa_convert.io.options import Limits
    from tosa_convert.views.inspection.summary import summarize
    from tosa_convert.views.pictures.report import report
    from tosa_convert.views.structural_diff.changes import Diff
    from tosa_convert.views.structural_diff.diff import diff

__all__ = [
    "Custom",
    "Diff",
    "Finding",
    "Graph",
    "Limits",
    "TosaConvertError",
    "__version__",
    "bisect",
    "check",
    "compare",
    "diff",
    "dumps",
    "edit",
    "export_tosa_func_to_flatbuffer",
    "export_weights",
    "extract",
    "from_module",
    "frontends",
    "generate",
    "golden",
    "import_tosa_func_from_flatbuffer",
    "import_weights",
    "load",
    "reduce",
    "reference",
    "rename",
    "report",
    "rewrites",
    "run",
    "save",
    "strip_weights",
    "summarize",
    "to_module",
    "validate",
    "verify",
]

#: Module -> the public names that it defines.
_PUBLIC = {
    "tosa_convert.api": (
        *("dumps", "load", "save", "from_module", "to_module"),
        *("export_tosa_func_to_flatbuffer", "import_tosa_func_from_flatbuffer"),
        *("export_weights", "import_weights", "strip_weights"),
    ),
    "tosa_convert.errors": ("Finding", "TosaConvertError"),
    "tosa_convert.golden": ("bisect", "check", "generate", "reduce", "run"),
    "tosa_convert.graph.compare": ("compare",),
    "tosa_convert.graph.model": ("Graph",),
    "tosa_convert.graph.opset": ("Custom",),
    "tosa_convert.graph.derived": ("extract", "rename"),
    "tosa_convert.graph.verify": ("verify",),
    "tosa_convert.views.inspection.summary": ("summarize",),
    "tosa_convert.io.options": ("Limits",),
    "tosa_convert.views.pictures.report": ("report",),
    "tosa_convert.consumers.validate": ("validate",),
    "tosa_convert.views.structural_diff.changes": ("Diff",),
    "tosa_convert.views.structural_diff.diff": ("diff",),
}
#: Public names that are modules.
_PACKAGES = {
    "edit": "tosa_convert.builder.edit",
    "frontends": "tosa_convert.frontends",
    "golden": "tosa_convert.golden",
    "reference": "tosa_convert.reference",
    "rewrites": "tosa_convert.rewrites",
}
_MODULES = {name: module for module, names in _PUBLIC.items() for name in names}


def __getattr__(name: str) -> Any:
    import importlib

    module = _MODULES.get(name)
    if name in _PACKAGES:
        return importlib.import_module(_PACKAGES[name])
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
