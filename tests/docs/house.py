"""The structure of the package as data: which part imports which, and why some modules may do more."""

from __future__ import annotations

from tosa_convert.frontends.table import FRONTENDS

ADAPTERS = (
    "formats.flatbuffer",
    "formats.json",
    "formats.mlir",
    "formats.pte",
    "formats.vgf",
    "formats.weights",
)

#: Part of the package -> the parts it may import, besides itself. A module belongs to the part with the
#: longest name that it begins with.
ARROWS: dict[str, set[str]] = {
    "remedies": set(),
    "exit_codes": set(),
    "errors": set(),
    "version": set(),
    "installation": set(),
    "extensions": {"errors"},
    "custom": {"errors", "extensions", "graph"},
    "process": set(),
    "io": {"errors", "process"},
    "graph": {"errors", "version"},
    "eras": {"errors", "graph", "rules", "builder"},
    "rules": {"errors", "graph"},
    "consumers": {"errors", "io", "graph", "eras", "rules", "rewrites"},
    "reference": {"errors", "graph"},
    "builder": {"errors", "graph", "rules"},
    "rewrites": {"errors", "extensions", "io", "graph", "rules", "reference", "builder"},
    "views": set(),
    "views.inspection": {"errors", "graph", "rules"},
    "views.structural_diff": {"errors", "graph", "version"},
    "views.pictures": {"errors", "io", "graph", "rules", "installation", "views.inspection"},
    "formats": set(),
    "formats.wire": {"graph"},
    "formats.flatbuffer": {"errors", "io", "graph", "eras", "formats.wire"},
    "formats.json": {"errors", "io", "graph", "formats.wire"},
    "formats.pte": {"errors", "io"},
    "formats.vgf": {"errors", "io", "graph"},
    "formats.weights": {"errors", "io", "graph"},
    "formats.mlir": {"errors", "io", "graph", "eras", "rules"},
    "formats.bindings": {"errors", "io", "graph", "process", "installation", "formats.mlir"},
    "formats.read": {"errors", "custom", "io", "graph", "eras", "rules", "formats.bindings"}
    | {*ADAPTERS},
    "formats.write": {"errors", "version", "io", "graph", "eras", "rules"}
    | {"formats.bindings", "formats.read", *ADAPTERS},
    "module_api": {"errors", "io", "graph", "formats.bindings", "formats.read", "formats.write"},
    "api": {"errors", "io", "graph", "module_api", "formats.read", "formats.write"}
    | {"formats.weights"},
    # Runs converters of frameworks in child processes, and reads what they write. A framework's folder
    # runs in the child: what is here imports only what reads the header of a file.
    "frontends": {
        "errors",
        "extensions",
        "installation",
        "process",
        "io",
        "graph",
        "rewrites",
        "rules",
    }
    | {"formats.read"},
    "frontends.tflite": {"errors", "io", "graph", "rules", "builder", "frontends"}
    | {"frontends.lowering", "frontends.tflite.read", "frontends.tflite.unlowered"},
    "frontends.tflite.read": {"errors", "io", "frontends"},
    "frontends.tflite.unlowered": {"frontends", "frontends.tflite.read"},
    "frontends.named": {"errors", "process", "frontends"},
    "frontends.keras": {"errors", "graph", "frontends", "frontends.jax", "frontends.lowering"},
    "frontends.tensorflow": {"errors", "frontends", "frontends.tflite"},
    "frontends.torch": {"errors", "io", "process", "graph", "builder", "frontends"}
    | {"frontends.lowering", "frontends.tflite", "formats.weights"},
    "frontends.onnx": {"errors", "io", "graph", "rules", "builder", "frontends"}
    | {"frontends.lowering", "frontends.onnx.header"},
    "frontends.onnx.header": {"frontends"},
    "frontends.torch.header": {"frontends"},
    # Operations on arrays, lowered for every framework; it imports none.
    "frontends.lowering": {"builder", "graph", "rules", "frontends"},
    "frontends.jax": {"errors", "io", "graph", "builder", "rewrites", "frontends"}
    | {"frontends.lowering", "frontends.tflite", "frontends.tflite.read"},
    "frontends.stablehlo": {"errors", "frontends", "frontends.jax", "frontends.lowering"},
    # Runs programs that the public functions read and write.
    "golden": {
        "errors",
        "custom",
        "extensions",
        "version",
        "installation",
        "process",
        "io",
        "graph",
        "rules",
        "reference",
        "builder",
        "api",
    }
    | {"formats.read"},
    # Joins the two: lowers models, and compares them with their frameworks.
    "golden.models": {"errors", "installation", "process", "io", "graph", "rules", "frontends"}
    | {"golden"}
    | {"formats.read", "formats.write"},
    # Qualification stands above the judge: it may import everything, and nothing below imports it.
    "qualify": set(),
    "cli": {
        "errors",
        "extensions",
        "version",
        "process",
        "io",
        "graph",
        "rules",
        "reference",
        "consumers",
        "rewrites",
        "api",
    }
    | {"views.inspection", "views.structural_diff", "views.pictures"}
    | {"frontends", "golden", "golden.models", "formats.read", "formats.write"},
    "__init__": {
        "errors",
        "version",
        "io",
        "graph",
        "builder",
        "consumers",
        "reference",
        "rewrites",
    }
    | {"views.inspection", "views.structural_diff", "views.pictures", "frontends", "golden", "api"},
    "__main__": {"cli"},
    # pytest loads it; it imports the others when a test needs them.
    "pytest_plugin": {"errors", "api", "consumers", "golden", "qualify"},
}
ARROWS["qualify"] = ARROWS.keys() - {"qualify", "pytest_plugin", "__init__", "__main__"}

#: Single modules that may import more, and why.
EXCEPTIONS: dict[str, tuple[set[str], str]] = {
    "frontends.model_summary": (
        {
            *("frontends.onnx.header", "frontends.torch.header"),
            *("frontends.tflite.read", "frontends.tflite.unlowered"),
        },
        "describes a file without its framework, by readers that bound what they take",
    ),
    "frontends.public": (
        {"frontends.jax", "frontends.keras", "frontends.torch"},
        "lowers functions and modules of this process, which are no files",
    ),
    "frontends.extension": ({"formats.write"}, "writes the program for the parent process"),
    "golden.backends.tflite_model": (
        {"frontends", "frontends.tflite.read"},
        "pairs the tensors of a TFLite file with those of a program",
    ),
    "golden.__init__": (
        {"qualify", "golden.models"},
        "offers published names of them, which it imports when they are used",
    ),
    "formats.bindings.passes": (
        {"api"},
        "an entry point, like the command line, inside an MLIR pass manager",
    ),
    "frontends.lower_model": ({"formats.write"}, "writes the program for the parent process"),
    "frontends.jax.source": ({"formats.mlir"}, "quotes locations as MLIR does"),
}


def _converters() -> dict[str, set[str]]:
    """Return the folder of each framework -> the packages that its converters need."""
    found: dict[str, set[str]] = {}
    for row in FRONTENDS.values():
        part = row.converter.removeprefix("tosa_convert.").rpartition(".")[0]
        found.setdefault(part, set()).update(row.packages)
    return found


#: What the folder of a framework may import, unless it has a row.
_FRAMEWORK = {"errors", "io", "graph", "rules", "builder", "frontends"}
ARROWS.update({part: _FRAMEWORK for part in _converters() if part not in ARROWS})

#: Part -> third-party packages that it may import.
OUTSIDE: dict[str, set[str]] = {
    "graph": {"numpy", "ml_dtypes"},
    "eras": {"numpy", "ml_dtypes"},
    "rules": {"numpy"},
    "reference": {"numpy", "ml_dtypes"},
    "builder": {"numpy"},
    "rewrites": {"numpy"},
    "views.inspection": {"numpy"},
    "views.structural_diff": {"numpy"},
    "views.pictures": {"fast_sugiyama"},
    "formats.wire": {"numpy"},
    "formats.bindings": {"numpy", "typing_extensions"},
    **{adapter: {"numpy"} for adapter in ADAPTERS},
    "golden": {"numpy", "ml_dtypes", "typing_extensions"},
    "qualify": {"numpy", "ml_dtypes", "click", "typing_extensions"},
    "golden.models": {"numpy", "ml_dtypes"},
    "frontends": {"numpy"},
    "frontends.lowering": {"numpy", "ml_dtypes"},
    "frontends.named": {"numpy", "torch", "timm", "torchvision", "transformers", "keras"},
    # What runs in the child imports the packages of the frameworks' table.
    **{part: {"numpy"} | packages for part, packages in _converters().items()},
    "cli": {"numpy", "click"},
    "pytest_plugin": {"numpy", "pytest"},
}

#: Single modules that may import more packages, and why.
OUTSIDE_EXCEPTIONS: dict[str, tuple[set[str], str]] = {
    **{
        name: ({"typing_extensions"}, "type checkers take Unpack from there on Python 3.10")
        for name in ("api", "frontends.public", "module_api")
    },
    "consumers.doctor": ({"packaging"}, "it compares releases as pip does"),
    "golden.backends.worker": ({"iree", "jax", "torch"}, "a script that another Python runs"),
    "golden.backends.tensorflow_model": (
        {"keras", "tensorflow"},
        "the script beside it imports it",
    ),
    "golden.backends.mlir_consumer": (
        {"torch_mlir", "torch_mlir.execution_engine", "torch_mlir.passmanager"},
        "a file that another Python runs",
    ),
    **{
        f"frontends.stablehlo.{name}": ({"jaxlib"}, "JAX has no public name for what it calls")
        for name in ("convert", "run_module")
    },
    "frontends.torch.archive": ({"sympy"}, "torch writes sizes with it, and brings it"),
    "frontends.onnx.convert": ({"google"}, "ONNX brings protobuf, whose errors it raises"),
    "frontends.onnx.rules.elementwise": ({"ml_dtypes"}, "numpy has the short types from there"),
    "frontends.tensorflow.convert": (
        {"google"},
        "TensorFlow brings protobuf, whose errors it raises",
    ),
}

#: Cycles that only imports for type checkers close, and why.
TYPING_CIRCLES: dict[tuple[str, ...], str] = {}


def part_of(name: str) -> str:
    """Return the part of a module, by its dotted name below the package."""
    words = name.removesuffix(".__init__").split(".")
    candidates = (".".join(words[:count]) for count in range(len(words), 0, -1))
    return next((part for part in candidates if part in ARROWS), words[0])


#: Parts that many others import; arrows to them would hide the rest of the picture.
_EVERYWHERE = {
    "errors",
    "extensions",
    "custom",
    "version",
    "remedies",
    "exit_codes",
    "installation",
    "io",
    "process",
    "graph",
}


def picture() -> str:
    """Return the picture of docs/architecture.md: folders, and imports that no longer path implies."""
    arrows: dict[str, set[str]] = {}
    for part, targets in ARROWS.items():
        folder = part.partition(".")[0]
        found = arrows.setdefault(folder, set())
        found |= {target.partition(".")[0] for target in targets} - {folder}
    shown = [folder for folder in arrows if folder not in _EVERYWHERE and "__" not in folder]

    def reachable(folder: str) -> set[str]:
        further = arrows[folder] - _EVERYWHERE
        return further.union(*(reachable(target) for target in further))

    lines = []
    for folder in shown:
        direct = arrows[folder] - _EVERYWHERE
        implied = set[str]().union(*(reachable(target) for target in direct))
        names = sorted(direct - implied) or ["hub"]
        lines.append(f"    {folder} --> {' & '.join(names)}")
    head = '    hub["graph, io, process"]'
    return "\n".join(["```mermaid", "flowchart TD", head, *lines, "```"]) + "\n"
