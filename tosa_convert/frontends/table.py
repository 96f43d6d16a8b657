"""The table of frontends, and which of them reads a model."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tosa_convert.errors import Finding, TosaConvertError, fail, near_match, refuse_unknown, suggest
from tosa_convert.extensions import find_extension, is_extension
from tosa_convert.installation import install_command
from tosa_convert.io.files import map_file
from tosa_convert.io.formats import is_saved_model, model_kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontend:
    """One way from a framework to TOSA.

    name: as in `tosa-flatbuffer frontends NAME`. reads: the models that it reads, for messages.
    extra: the extra of this package that installs what it needs.
    packages: name of a Python package to import -> the distribution that has it.
    converter: the module with its `lower`.
    imports: packages of which one is imported by a Python file that makes its models.
    runtime: the backend of `check` that runs its models; "" if there is none.
    route_of: the frontend whose models it lowers in another way, for those who ask with `--via NAME`; ""
        for the way that is taken by default.
    forks: whether the converter works in a fork of a process that has imported it.
    has_signatures: whether its models have signatures, of which `func` chooses one.
    reads_programs: whether the converter reads its program as we do, which needs `OWN_PACKAGES`.
    library: the prefix, without its colon, of the name of a model that a library makes, as in
        `timm:resnet50`; `frontends/named/from_LIBRARY.py` makes it. makes: the frontend whose models the
        library makes, if that is another row.
    """

    name: str
    reads: str
    extra: str
    packages: Mapping[str, str]
    converter: str
    imports: tuple[str, ...] = ()
    runtime: str = ""
    route_of: str = ""
    forks: bool = False
    reads_programs: bool = False
    has_signatures: bool = False
    library: str = ""
    makes: str = ""

    def install(self, python: str = "") -> str:
        """Return the command that installs what it needs, into another Python if one is given."""
        return install_command(self.extra, python)


#: What graphs need, as `packages` of a frontend.
OWN_PACKAGES: Final[Mapping[str, str]] = {"numpy": "numpy", "ml_dtypes": "ml_dtypes"}
#: Backend that runs models -> package to import -> its distribution. One of them is enough.
RUNTIMES: Final[Mapping[str, Mapping[str, str]]] = {
    "tflite": {"ai_edge_litert": "ai-edge-litert", "tensorflow": "tensorflow"},
    "tensorflow": {"tensorflow": "tensorflow"},
    "keras": {"keras": "keras"},
    "torch": {"torch": "torch"},
    "onnxruntime": {"onnxruntime": "onnxruntime"},
    "jax": {"jax": "jax"},
    "iree": {"iree": "iree-base-compiler iree-base-runtime"},
}
_TORCH: Final = {"torch": "torch"}


def _row(name: str, reads: str, packages: Mapping[str, str], **facts: Any) -> Frontend:
    """Return a row whose extra and converter have its name, if `facts` do not say otherwise."""
    facts.setdefault("extra", name)
    facts.setdefault("converter", f"tosa_convert.frontends.{name}.convert")
    return Frontend(name=name, reads=reads, packages=packages, **facts)


def _torch_library(name: str, package: str, forms: str) -> Frontend:
    reads, packages = f"models of {package} ({forms})", {**_TORCH, package: package}
    return _row(name, reads, packages, **_OF_TORCH, library=name, makes="torch")


#: What torch programs and the models of torch's libraries have in common.
_OF_TORCH: Final[Mapping[str, Any]] = {
    "converter": "tosa_convert.frontends.torch.convert",
    "runtime": "torch",
    "forks": True,
}

FRONTENDS: Final = {
    row.name: row
    for row in (
        _row(
            "tflite",
            "TFLite models (.tflite)",
            {},
            runtime="tflite",
            forks=True,
            has_signatures=True,
            reads_programs=True,
        ),
        _row(
            "keras",
            "Keras models (.keras, .h5, keras:NAME), and factories of models in Python files",
            {"keras": "keras", "jax": "jax"},
            imports=("keras",),
            runtime="keras",
            library="keras",
        ),
        _row(
            "tensorflow",
            "TensorFlow SavedModels (folders), and frozen GraphDefs (.pb)",
            {"tensorflow": "tensorflow"},
            runtime="tensorflow",
            has_signatures=True,
            reads_programs=True,
        ),
        _row(
            "jax",
            "functions of JAX (file.py:FACTORY)",
            {"jax": "jax"},
            imports=("jax", "flax"),
            runtime="jax",
        ),
        _row(
            "stablehlo",
            "modules of StableHLO (.mlir, .mlirbc, files of jax.export)",
            {"jax": "jax"},
            extra="jax",
            runtime="jax",
            has_signatures=True,
        ),
        _row(
            "torch-mlir",
            "modules of the torch dialect (.mlir, .mlirbc)",
            {**_TORCH, "torch_mlir": "torch-mlir"},
            converter="tosa_convert.frontends.torch.convert_module",
            runtime="iree",
            forks=True,
            has_signatures=True,
        ),
        _row(
            "torch",
            "programs of torch.export (.pt2), and factories of modules in Python files",
            _TORCH,
            **_OF_TORCH,
            imports=("torch",),
        ),
        _row("onnx", "ONNX models (.onnx)", {"onnx": "onnx"}, runtime="onnxruntime", forks=True),
        _torch_library("timm", "timm", "timm:NAME"),
        _torch_library("torchvision", "torchvision", "torchvision:NAME"),
        _torch_library("hf", "transformers", "hf:ORG/MODEL, hf:FOLDER, hf:TYPE, and :TASK"),
        _row(
            "executorch",
            "torch models through ExecuTorch's Arm backend (--via executorch)",
            {
                **_TORCH,
                "torchao": "torchao",
                "executorch": "executorch",
                "tosa_serializer": "tosa-tools",
            },
            converter="tosa_convert.frontends.torch.executorch",
            runtime="torch",
            route_of="torch",
        ),
    )
}


#: The prefix of a model's name, without its colon -> its frontend.
LIBRARIES: Final = {row.library: row.name for row in FRONTENDS.values() if row.library}
ROUTES: Final = tuple(row.name for row in FRONTENDS.values() if row.route_of)


def model_kinds() -> str:
    """Return the models that are recognised, for messages."""
    return "; ".join(row.reads for row in FRONTENDS.values() if not row.route_of)


def on_route(name: str, via: str = "") -> Frontend:
    """Return the frontend that lowers a model: the one that recognised it, or another route.

    Example:
        >>> on_route("torch", "executorch").extra
        'executorch'
    """
    if is_extension(via):
        return frontend(via)
    row = frontend(name)
    if not via:
        return row
    fitting = [other for other in ROUTES if FRONTENDS[other].route_of == (row.makes or name)]
    if via in fitting:
        return FRONTENDS[via]
    expected = f"expected {' or '.join(fitting)}" if fitting else "there is only one"
    message = f"{via!r} is not a route of models for {name}, {expected}"
    hint = suggest(via, fitting, "leave the option out for the usual route")
    raise fail("option-conflict", "--via", message, hint)


def refuse_func(name: str, func: str | None, where: str) -> None:
    """Refuse the choice of a signature for a frontend whose models have none.

    Example:
        >>> refuse_func("tflite", "serving_default", "m.tflite")
    """
    if func and not frontend(name).has_signatures:
        message = f"the option func (--func) does not apply to models for {name}"
        hint = "it chooses a signature of a TFLite model or SavedModel; leave it out"
        raise fail("option-conflict", where, message, hint)


def frontend(name: str) -> Frontend:
    """Return the frontend of a name, or that of an extension.

    Example:
        >>> frontend("tflite").extra
        'tflite'
    """
    if is_extension(name):
        find_extension("frontends", name)
        return Frontend(
            name=name,
            reads=f"models for {name}",
            extra="",
            packages={},
            converter="tosa_convert.frontends.extension",
        )
    refuse_unknown("frontend", name, FRONTENDS)
    return FRONTENDS[name]


def missing(row: Frontend, absent: list[str], python: str = "") -> list[Finding]:
    """Return the findings for packages of a frontend that are not installed."""
    return [
        Finding(
            "frontend-missing",
            row.name,
            f"{name} is not installed in {python or sys.executable}, and {row.reads} need it",
            f"{row.install(python)}, or --python PROGRAM for a Python that has it",
        )
        for name in absent
    ]


@dataclass(frozen=True, slots=True)
class Installed:
    """The packages of a frontend.

    versions: distribution -> its version, "" if it has none, None if it is not installed.
    missing_runtime: what would run its models for `--check`; "" if that is installed.
    """

    frontend: str
    versions: dict[str, str | None]
    missing_runtime: str = ""

    @property
    def missing(self) -> list[str]:
        return [name for name, version in self.versions.items() if version is None]


def absent(row: Frontend) -> list[str]:
    """Return the distributions of a frontend that are not installed in this Python."""
    packages = {**row.packages, **(OWN_PACKAGES if row.reads_programs else {})}
    return [name for package, name in packages.items() if not _is_there(package)]


def _is_there(package: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(package) is not None


def installed(row: Frontend) -> Installed:
    """Return the packages of a frontend in this Python. Nothing is imported."""
    found = {
        distribution: _version(package, distribution)
        for package, distribution in row.packages.items()
    }
    runtimes = RUNTIMES.get(row.runtime, {})
    runs = not runtimes or any(map(_is_there, runtimes))
    return Installed(row.name, found, "" if runs else next(iter(runtimes.values())))


def all_installed(names: Collection[str] = FRONTENDS) -> list[Installed]:
    return [installed(FRONTENDS[name]) for name in names]


def _version(package: str, distribution: str) -> str | None:
    if not _is_there(package):
        return None
    # Takes longer to import than all else that the child process needs before its converter.
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        # Such as tensorflow of tensorflow-cpu. The search reads the metadata of every distribution.
        others = metadata.packages_distributions().get(package)
        return metadata.version(others[0]) if others else ""


# -- which frontend reads a model, from the model's content. No framework is imported --------------

#: Package that a Python file imports -> the frontend of what it makes.
_BY_IMPORT: Final = {package: row.name for row in FRONTENDS.values() for package in row.imports}


class Recognised(NamedTuple):
    """A model: its frontend's name, and its absolute path, or its name in a library.

    shown: the model as the user named it, for messages.
    member: what the Python file at the path calls it; else "".
    library: the library that makes it, as in the table of frontends; else "".
    """

    frontend: str
    path: str
    shown: str
    member: str = ""
    library: str = ""


def is_file(model: Recognised) -> bool:
    """Return whether a model is all in one file, and not made by code."""
    return not model.member and not model.library and os.path.isfile(model.path)


def recognize(source: str) -> Recognised | None:
    """Return the model that a path names, or None if it is not one.

    Example:
        >>> recognize("examples/digits_cnn.mlirbc") is None
        True
        >>> recognize("timm:resnet50").path
        'resnet50'
    """
    path, colon, member = source.rpartition(":")
    if colon and path.endswith(".py") and os.path.isfile(path):
        return Recognised(_of_python(path), os.path.abspath(path), source, member)
    library, _, called = source.partition(":")
    if called and library in LIBRARIES and not os.path.exists(source):
        return Recognised(LIBRARIES[library], called, source, library=library)
    if library != source and not os.path.exists(source):
        near = near_match(library, LIBRARIES)
        if near:
            message = f"there is no file of this name, and no model of {library or near}"
            raise fail(
                "unrecognised-input", source, message, f"did you mean {near}:{called or 'NAME'}?"
            )
    name = ""
    if os.path.isdir(source):
        name = "tensorflow" if is_saved_model(source) else ""
    elif os.path.isfile(source):
        try:
            data = map_file(source)
        except TosaConvertError:
            return None  # The caller reports it, or reads the file by another way.
        name = model_kind(data)
    return Recognised(name, os.path.abspath(source), source) if name in FRONTENDS else None


def _of_python(path: str) -> str:
    import ast

    with open(path, "rb") as file:
        try:
            tree = ast.parse(file.read(), path)
        except SyntaxError as error:
            where = path if error.lineno is None else f"{path}:{error.lineno}"
            message = f"the Python file has a syntax error: {error.msg}"
            raise fail("unrecognised-input", where, message) from None
        except (ValueError, RecursionError, MemoryError) as error:
            raise fail("unrecognised-input", path, f"Python cannot read it: {error}") from None
    packages = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    found = {_BY_IMPORT[name] for name in packages & _BY_IMPORT.keys()}
    if len(found) != 1:
        problem = " and ".join(sorted(found)) or f"none of {', '.join(_BY_IMPORT)}"
        raise fail(
            "option-conflict",
            path,
            f"it imports {problem}, so that its framework is not known",
            "import one of them in the file, which decides",
        )
    return found.pop()
