"""Which MLIR Python bindings an object belongs to, and how to reach their pieces.

Every distribution of MLIR's bindings is a package with a copy of its own: `torch_mlir`,
`iree.compiler`, upstream's `mlir`, a vendor's. Objects of one cannot be given to another. The object
tells which it belongs to; only where there is none is a default chosen.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

from tosa_convert.errors import fail

#: Packages tried in this order where nothing tells which bindings to use.
DEFAULT_ORDER: Final = ("torch_mlir", "mlir", "iree.compiler")

#: The extension module in which every distribution defines its IR classes.
_EXTENSION: Final = "._mlir_libs._mlir"

#: Distributions on PyPI, for the version in messages.
_DISTRIBUTIONS: Final = {"torch_mlir": "torch-mlir", "iree.compiler": "iree-base-compiler"}


class Bindings:
    """One copy of MLIR's Python bindings. Singletons for each package."""

    def __init__(self, package: str) -> None:
        self.package = package
        #: The package's `ir` module: Context, Module, Operation and the rest.
        self.ir: Any = importlib.import_module(f"{package}.ir")

    def __repr__(self) -> str:
        return f"{self.package} {self.version}".strip()

    @cached_property
    def version(self) -> str:
        """The distribution's version, or "" where it does not tell."""
        import importlib.metadata  # costs as much as a small file takes to convert

        name = _DISTRIBUTIONS.get(self.package, self.package)
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return ""

    @cached_property
    def libraries(self) -> list[Path]:
        """The shared libraries that may export MLIR's C API, the likeliest first."""
        extension = importlib.import_module(f"{self.package}{_EXTENSION}")
        folder = Path(str(extension.__file__)).parent
        found = [
            path
            for pattern in ("*.so", "*.so.*", "*.dylib", "*.dll")
            for path in folder.glob(pattern)
            if "nanobind" not in path.name
        ]
        return sorted(found, key=lambda path: ("CAPI" not in path.name, path.name.startswith("_")))

    def new_context(self) -> Any:
        """A context that knows the TOSA dialect."""
        return self.ir.Context()


@cache
def _bindings(package: str) -> Bindings:
    return Bindings(package)


def bindings_of(thing: object) -> Bindings:
    """The bindings that `thing`, any object of theirs, belongs to.

    Raises TosaConvertError("not-an-mlir-object") if it belongs to none.
    """
    for kind in type(thing).__mro__:
        package, found, _ = kind.__module__.partition(_EXTENSION)
        if found:
            return _bindings(package)
    raise fail(
        "not-an-mlir-object",
        "",
        f"found {type(thing).__module__}.{type(thing).__qualname__}, "
        "expected a module, function or context of MLIR's Python bindings",
        "give an ir.Module, a func.FuncOp or an ir.Operation",
    )


def context_of(thing: Any) -> Any:
    """The context that `thing` is or belongs to: an insertion point, a block, an operation, a type.

    Raises TosaConvertError("not-an-mlir-object") if there is none.
    """
    ir = bindings_of(thing).ir
    found = thing
    if isinstance(found, ir.InsertionPoint):
        found = found.block
    if isinstance(found, (ir.Block, ir.Region)):
        found = found.owner
    if not isinstance(found, ir.Context):
        found = getattr(found, "context", None)
    if not isinstance(found, ir.Context):
        raise fail(
            "not-an-mlir-object",
            "",
            f"found a {type(thing).__name__}, which belongs to no context",
            "give an ir.Context or an ir.InsertionPoint",
        )
    return found


def current_context() -> Any | None:
    """The context that the caller entered with `with context:`, or None if there is none.

    This is the context that MLIR's own `Module.parse` would use. Only bindings that are already imported
    are asked: no others can have a current context.

    Raises TosaConvertError("option-conflict") if several packages of bindings have a current context:
    each package has its own stack, so the innermost cannot be determined.
    """
    contexts = {}
    for name in list(sys.modules):
        package, found, rest = name.partition(_EXTENSION)
        if found and not rest:
            # Without a current context, older bindings raise ValueError and newer ones return None.
            with suppress(ValueError):
                context = _bindings(package).ir.Context.current
                if context is not None:
                    contexts[package] = context
    if len(contexts) > 1:
        raise fail(
            "option-conflict",
            "context",
            f"{' and '.join(sorted(contexts))} each have a current context",
            "pass context= to say which to use",
        )
    return next(iter(contexts.values()), None)


def installed() -> Iterator[str]:
    """The packages of DEFAULT_ORDER that can be imported; none of them is."""
    for package in DEFAULT_ORDER:
        top, _, below = package.partition(".")
        # Asking for a submodule would import its parents, which loads a whole copy of MLIR.
        spec = importlib.util.find_spec(top)
        folders = (spec.submodule_search_locations or ()) if spec is not None else ()
        if any(Path(folder, *below.split("."), "_mlir_libs").is_dir() for folder in folders):
            yield package


def default_bindings(name: str = "") -> Bindings:
    """The bindings called `name`, or the first installed of DEFAULT_ORDER.

    Raises TosaConvertError("missing-bindings") if there are none.
    """
    found = next((package for package in installed() if name in ("", package)), None)
    if found is None:
        raise fail(
            "missing-bindings",
            "",
            f"found no MLIR Python bindings{f' called {name}' if name else ''}; "
            f"looked for {', '.join([name] if name else DEFAULT_ORDER)}",
            "pip install 'tosa-convert[mlir]'",
        )
    return _bindings(found)
