"""The package of MLIR's bindings to use: that of an object, the current one, or a default."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

from tosa_convert.errors import Finding, TosaConvertError, fail
from tosa_convert.formats.mlir.locations import plain_location
from tosa_convert.installation import install_command

#: Packages that are tried, in this order, if nothing else determines which bindings to use.
DEFAULT_ORDER: Final = ("torch_mlir", "mlir", "iree.compiler")

#: The extension module in which every distribution defines its IR classes.
_EXTENSION: Final = "._mlir_libs._mlir"

#: Distributions on PyPI, for the version in messages.
_DISTRIBUTIONS: Final = {"torch_mlir": "torch-mlir", "iree.compiler": "iree-base-compiler"}


class Bindings:
    """One copy of MLIR's Python bindings. There is one instance for each package."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.ir: Any = importlib.import_module(f"{package}.ir")

    def __repr__(self) -> str:
        return f"{self.package} {self.version}".strip()

    @cached_property
    def version(self) -> str:
        """Return the distribution's version, or "" if it is unknown."""
        import importlib.metadata  # takes as long as converting a small file

        name = _DISTRIBUTIONS.get(self.package, self.package)
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return ""

    @cached_property
    def libraries(self) -> list[Path]:
        """Return the shared libraries that may export MLIR's C API, the most likely one first."""
        extension = importlib.import_module(f"{self.package}{_EXTENSION}")
        folder = Path(str(extension.__file__)).parent
        paths = [
            path
            for pattern in ("*.so", "*.so.*", "*.dylib", "*.dll")
            for path in folder.glob(pattern)
            if "nanobind" not in path.name
        ]
        return sorted(paths, key=lambda path: ("CAPI" not in path.name, path.name.startswith("_")))

    def new_context(self) -> Any:
        return self.ir.Context()


@cache
def _bindings(package: str) -> Bindings:
    return Bindings(package)


def bindings_of(thing: object) -> Bindings:
    """Return the bindings of an object: a context, module, operation, type, ..., or refuse it."""
    for base in type(thing).__mro__:
        package, is_extension, _ = base.__module__.partition(_EXTENSION)
        if is_extension:
            return _bindings(package)
    raise fail(
        "not-an-mlir-object",
        "",
        f"found {type(thing).__module__}.{type(thing).__qualname__}, "
        "expected a module, function or context of MLIR's Python bindings",
        "pass an ir.Module, a func.FuncOp or an ir.Operation",
    )


def context_of(thing: Any) -> Any:
    """Return the context of an object: an insertion point, block, operation, type, ..., or refuse it."""
    ir = bindings_of(thing).ir
    owner = thing
    if isinstance(owner, ir.InsertionPoint):
        owner = owner.block
    if isinstance(owner, (ir.Block, ir.Region)):
        owner = owner.owner
    context = owner if isinstance(owner, ir.Context) else getattr(owner, "context", None)
    if not isinstance(context, ir.Context):
        message = f"found a {type(thing).__name__}, which does not have a context"
        hint = "pass an ir.Context or an ir.InsertionPoint"
        raise fail("not-an-mlir-object", "", message, hint)
    return context


def current_context() -> Any | None:
    """Return the context entered in one of the imported packages, or None; refuse several."""
    contexts = {}
    for name in list(sys.modules):
        package, is_extension, submodule = name.partition(_EXTENSION)
        if is_extension and not submodule:
            # Without a current context, older bindings raise ValueError and newer ones return None.
            with suppress(ValueError):
                context = _bindings(package).ir.Context.current
                if context is not None:
                    contexts[package] = context
    if len(contexts) > 1:
        message = f"{' and '.join(sorted(contexts))} each have a current context"
        hint = "pass context= to say which to use"
        raise fail("option-conflict", "context", message, hint)
    return next(iter(contexts.values()), None)


def installed() -> Iterator[str]:
    """Iterate over the packages of DEFAULT_ORDER that can be imported. This does not import them."""
    for package in DEFAULT_ORDER:
        top, _, below = package.partition(".")
        # find_spec of a submodule would import its parents, and so load a whole copy of MLIR.
        spec = importlib.util.find_spec(top)
        folders = (spec.submodule_search_locations or ()) if spec is not None else ()
        if any(Path(folder, *below.split("."), "_mlir_libs").is_dir() for folder in folders):
            yield package


def default_bindings(name: str = "") -> Bindings:
    """Return the bindings of the package `name`, or the first of DEFAULT_ORDER that is installed."""
    chosen = next((package for package in installed() if name in ("", package)), None)
    if chosen is None:
        message = (
            f"no MLIR Python bindings{f' called {name}' if name else ''} are installed; "
            f"looked for {', '.join([name] if name else DEFAULT_ORDER)}"
        )
        raise fail("missing-bindings", "", message, install_command("mlir"))
    return _bindings(chosen)


# -- errors that MLIR and its bindings report, as findings -----------------------------------------

#: What MLIR reports for an operator that the bindings do not define.
_UNKNOWN_OPERATOR: Final = re.compile(r"unregistered operation '(tosa\.[^']+)' found in dialect")


def diagnostics(bindings: Bindings, error: Exception, where: str) -> TosaConvertError:
    """Return MLIR's error as ours, with one finding for each diagnostic."""
    reported = getattr(error, "error_diagnostics", None) or []
    rows = [(plain_location(str(row.location)), str(row.message)) for row in reported]
    return TosaConvertError(
        Finding("malformed-mlir", place, message, _hint(bindings, message))
        for place, message in rows or [(where, str(error).strip())]
    )


def _hint(bindings: Bindings, message: str) -> str:
    operator = _UNKNOWN_OPERATOR.search(message)
    if operator is not None:
        return (
            f"{bindings} does not define {operator[1]}: "
            "use other bindings, or decompose the operator first"
        )
    return f"reported by {bindings}"


# -- what the bindings cannot convert to Python -----------------------------------------------------

#: Part of the bindings' RuntimeError for a string that is not UTF-8.
_NOT_UTF8: Final = "str_from_cstr"
#: Part of their TypeError for an attribute that is a location: they choose a class for it whose
#: constructor takes something else.
_LOCATION_ATTRIBUTE: Final = re.compile(r"\(\w+: [\w.]*\.Location, /\) -> ")


@contextlib.contextmanager
def refused_by_bindings() -> Iterator[None]:
    """Report what the bindings cannot convert to Python as a finding."""
    try:
        yield
    except RuntimeError as error:
        if _NOT_UTF8 not in str(error):
            raise
        message = "a name, location or message of the module is not UTF-8"
        hint = "the bytecode is damaged; write it again"
        raise fail("malformed-mlir", "", message, hint) from None
    except TypeError as error:
        if not _LOCATION_ATTRIBUTE.search(str(error)):
            raise
        raise fail(
            "unsupported-attribute",
            "",
            "the value of an attribute is a location, which the bindings cannot convert to Python",
            "remove the attribute, or give it another value",
        ) from None
