"""Backends, frontends, rewrites and CUSTOM operators that other packages add, as entry points.

Nothing is looked for, and no foreign code runs, unless the user names an extension: `extension:NAME`.
What an extension has is read from its source, so that a backend and a frontend run in processes of
their own.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from tosa_convert.errors import TosaConvertError, fail, near_match, suggest

if TYPE_CHECKING:
    import ast
    from pathlib import Path

Kind = Literal["backends", "custom", "frontends", "rewrites"]

#: The version of the protocol, which a module states as `TOSA_PROTOCOL`.
PROTOCOL: Final = 1
#: What precedes the name of an extension where a backend, a route or a rewrite is named.
PREFIX: Final = "extension:"
#: Kind of an extension -> what its module has to define.
DEFINES: Final[dict[Kind, tuple[str, ...]]] = {
    "backends": ("run",),
    "custom": ("CUSTOM",),
    "frontends": ("convert",),
    "rewrites": ("OPERATORS", "rewrite"),
}


@dataclass(frozen=True, slots=True)
class Extension:
    """An installed extension: its name with the prefix, its module, and the module's source."""

    name: str
    module: str
    source: Path


def is_extension(text: str) -> bool:
    """Return whether a name is that of an extension.

    Example:
        >>> is_extension("extension:simulator"), is_extension("simulator")
        (True, False)
    """
    return text.startswith(PREFIX)


def group_of(kind: Kind) -> str:
    """Return the group of entry points of a kind.

    Example:
        >>> group_of("backends")
        'tosa_convert.backends'
    """
    return f"tosa_convert.{kind}"


def find_extension(kind: Kind, text: str) -> Extension:
    """Find an installed extension by its prefixed name, unimported; refuse what cannot be used."""
    # Takes longer to import than the rest of this module.
    from importlib import metadata

    group, name = group_of(kind), text.removeprefix(PREFIX)
    rows = metadata.entry_points(group=group)
    found = {row.value: row for row in rows if row.name == name}
    if not found:
        known = sorted({row.name for row in rows})
        have = f"those that are installed: {', '.join(known)}" if known else "none is installed"
        message = f"no installed package has it as an entry point of {group}; {have}"
        raise fail("option-conflict", text, message, suggest(name, known))
    if len(found) > 1:
        message = f"several packages have it: {', '.join(sorted(found))}"
        raise fail("option-conflict", text, message, "uninstall all but one")
    (module,) = found
    source = _source_of(module)
    if source is None:
        message = f"the module {module} of its entry point does not exist in Python's source"
        raise broken(text, message)
    _require_protocol(text, source, DEFINES[kind])
    return Extension(text, module, source)


def near_extension(kind: Kind, name: str) -> str:
    """Return the installed extension that a name without the prefix may mean, or "".

    Example:
        >>> near_extension("backends", "simulator")
        ''
    """
    from importlib import metadata

    near = near_match(name, {row.name for row in metadata.entry_points(group=group_of(kind))})
    return f"{PREFIX}{near}" if near else ""


@dataclass(frozen=True, slots=True)
class Installed:
    """An entry point of an installed package.

    name: what names it where it is used, such as "extension:example".
    package: the distribution and its version, or "" if its metadata do not say.
    problem: why it cannot be used, or "".
    """

    kind: Kind
    name: str
    module: str
    package: str
    problem: str


def installed_extensions() -> list[Installed]:
    """Return all extensions of this Python, and why one cannot be used; none is imported.

    Example:
        >>> installed_extensions()
        []
    """
    from importlib import metadata

    found = []
    for kind in DEFINES:
        for row in metadata.entry_points(group=group_of(kind)):
            package = f"{row.dist.name} {row.dist.version}" if row.dist else ""
            name = f"{PREFIX}{row.name}"
            found.append(Installed(kind, name, row.value, package, _problem(kind, name)))
    return sorted(found, key=lambda row: (row.name, row.kind, row.module))


def _problem(kind: Kind, name: str) -> str:
    """Return why an extension cannot be used, or ""."""
    try:
        find_extension(kind, name)
    except TosaConvertError as error:
        return error.findings[0].message
    return ""


def broken(name: str, message: str) -> TosaConvertError:
    """Return the error for an extension that cannot be used, for the caller to raise."""
    return fail("option-conflict", name, message, "tell those who publish the extension")


def failed(extension: Extension, doing: str, error: BaseException) -> TosaConvertError:
    """Return the error for an extension's exception. doing: what failed: "it failed on ABS"."""
    import traceback

    said = f"{type(error).__name__}: {error}"
    if isinstance(error, SystemExit):
        said = f"it ends the process: sys.exit({error.code!r})"
    folder = extension.source.parent if "." in extension.module else extension.source
    own = [
        f"{frame.filename}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename.startswith(os.fspath(folder))
    ]
    return broken(extension.name, f"{doing}: {said}" + (f" ({own[-1]})" if own else ""))


def _source_of(module: str) -> Path | None:
    """Return the file of a module; its packages are not imported."""
    import importlib.util
    from pathlib import Path

    top, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except ValueError:  # the text is not a name
        return None
    if spec is None:
        return None
    if not rest:
        candidates = [Path(spec.origin or "")]
    else:
        folders = [Path(folder, *rest) for folder in spec.submodule_search_locations or ()]
        candidates = [one for path in folders for one in (Path(f"{path}.py"), path / "__init__.py")]
    return next((path for path in candidates if path.suffix == ".py" and path.is_file()), None)


def _require_protocol(name: str, source: Path, defines: tuple[str, ...]) -> None:
    """Refuse a module for another version of the protocol, or that lacks a definition."""
    import ast

    try:
        tree = ast.parse(source.read_bytes(), str(source))
    except (OSError, SyntaxError, ValueError) as error:
        raise broken(name, f"{source} cannot be read: {error}") from None
    values: dict[str, ast.expr | None] = {}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            values[node.name] = None
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            values.update({(row.asname or row.name): None for row in node.names})
        elif isinstance(node, ast.Assign):
            values.update({one.id: node.value for one in node.targets if isinstance(one, ast.Name)})
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            values[node.target.id] = node.value
    stated = values.get("TOSA_PROTOCOL")
    version = stated.value if isinstance(stated, ast.Constant) else None
    if version != PROTOCOL:
        states = "does not state one" if version is None else f"is for version {version!r}"
        message = f"expected TOSA_PROTOCOL = {PROTOCOL} in {source}, which {states}"
        raise fail(
            "option-conflict", name, message, "install releases of both that have the same version"
        )
    if missing := [one for one in defines if one not in values]:
        raise broken(name, f"{source} does not define {' and '.join(missing)}")
