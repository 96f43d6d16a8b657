"""A model of a framework is lowered: by its converter in a process of its own, and then by `finish`."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tosa_convert.errors import fail
from tosa_convert.frontends.process.request import (
    PROGRAM_FILE,
    Interface,
    Request,
    numeric_shapes,
    say_stage,
    stages,
)
from tosa_convert.frontends.process.run import TIMEOUT, run_converter
from tosa_convert.frontends.table import LIBRARIES, Recognised, on_route, refuse_func
from tosa_convert.io import log
from tosa_convert.io.files import file_error
from tosa_convert.io.options import DEFAULT_LIMITS, ReadOptions, refuse_time_limit
from tosa_convert.process.child import temporary_folder
from tosa_convert.process.workers import import_of_this_package

if TYPE_CHECKING:
    from tosa_convert.frontends.partial import Parts
    from tosa_convert.graph.model import Graph
    from tosa_convert.process.workers import KeptProcess


# -- example arguments of a factory in a Python file, which its program can be run on --------------
# A converter writes them if it is asked to, since only it has them.

EXAMPLES_FILE: Final = "examples.npz"
#: The option of a request that asks for them.
WANTED: Final[Mapping[str, str]] = {"examples": "wanted"}


def write_examples(request: Request, folder: Path, arrays: list[Any]) -> None:
    """Write the examples of inputs if the request asks for them. arrays: None for one without."""
    if request.options.get("examples") != WANTED["examples"]:
        return
    # In the child, after its converter: until then it needs the standard library only.
    import numpy as np

    named = {str(index): array for index, array in enumerate(arrays) if array is not None}
    np.savez(folder / EXAMPLES_FILE, **named)


def write_program(graph: Graph, folder: Path) -> None:
    """Write a lowered program for the parent."""
    from tosa_convert.formats.write import save

    say_stage(folder, "writing the program")
    save(graph, folder / PROGRAM_FILE, "mlirbc")


#: The file with the weights of a model that a function in a Python file makes.
WEIGHTS_FILE: Final = "weights.npz"


def write_original(
    interface: Interface,
    folder: Path,
    kind: str,
    path: str,
    *,
    func: str = "",
    member: str = "",
    users: str = "",
) -> None:
    """Say what `--check` runs of a Keras or TensorFlow model, in the order of the program."""
    inputs, outputs = (
        [values[place].name for place in places or range(len(values))]
        for values, places in (
            (interface.inputs, interface.input_order),
            (interface.outputs, interface.output_order),
        )
    )
    row = {"kind": kind, "path": path, "func": func, "member": member, "folder": users}
    text = json.dumps({**row, "weights": WEIGHTS_FILE, "inputs": inputs, "outputs": outputs})
    interface.original = "original.json"
    (folder / interface.original).write_text(text, encoding="utf-8")


def read_examples(folder: Path, inputs: list[str]) -> dict[str, Any]:
    """Read the examples that a converter wrote, by the names of the program's inputs."""
    path = folder / EXAMPLES_FILE
    if not path.exists():
        return {}
    import zipfile

    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as stored:
            return {inputs[int(key)]: stored[key] for key in stored.files}
    except (OSError, ValueError, IndexError, zipfile.BadZipFile) as error:
        message = f"the example arguments cannot be read: {error}"
        raise fail("frontend-failed", EXAMPLES_FILE, message, "please report it") from None


_READ_OPTIONS = ReadOptions()
#: Seconds between two looks at what a converter does.
_WATCH_EVERY: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontendOptions:
    """How a model is lowered, whatever its framework.

    python: the Python that has the framework; by default this one.
    timeout: seconds that the converter may take.
    read: `func`, `input_shapes`, `narrow`, `full_paths` and `limits` apply.
    options: what only one frontend knows.
    via: another route than the usual one, by its name in the table.
    random_weights: make a model that is named by its library without its trained weights.
    server: the process for many models of this frontend and this Python, if there is one.
    progress: called while the converter runs with what it does, and at its end with nothing.
    """

    python: str = ""
    timeout: float = TIMEOUT
    read: ReadOptions = _READ_OPTIONS
    options: Mapping[str, str] = field(default_factory=dict)
    via: str = ""
    random_weights: bool = False
    server: KeptProcess | None = None
    progress: Callable[[str], object] | None = None

    def __post_init__(self) -> None:
        refuse_time_limit(self.timeout)


_OPTIONS = FrontendOptions()
#: Frontends whose operators cannot be left to the caller -> what to do.
_NOT_CUT: Final = {
    "jax": "split the function in Python, and convert its parts",
    "keras": "convert what tensorflow.lite.TFLiteConverter.from_keras_model(model) makes of it",
}


class Lowered(NamedTuple):
    """A program, and what its converter says of it.

    model: what a runtime of the framework runs: a file, or `file.py:NAME`.
    examples: the example arguments of a factory by input, if the options ask for them.
    """

    graph: Graph
    interface: Interface
    model: str
    examples: Mapping[str, Any]


@contextlib.contextmanager
def lowered(model: Recognised, options: FrontendOptions = _OPTIONS) -> Iterator[Lowered]:
    """Lower a model to its program. Files that the converter made exist inside the block only."""
    with _scratch() as folder:
        model = _with_factory(model, options, folder)
        interface = _converted(_request(model, options), folder, options, _memory(model, options))
        from tosa_convert.frontends.read_result import finish

        graph = finish(_request(model, options), interface, folder, options.read)
        runs = f"{model.path}:{model.member}" if model.member else model.path
        if own := interface.original or interface.model:
            runs = str(folder / own)
        yield Lowered(graph, interface, runs, read_examples(folder, graph.main.inputs))


def lowered_in_parts(model: Recognised, options: FrontendOptions = _OPTIONS) -> Graph | Parts:
    """Lower a model to its program; or to its parts, if operators do not lower."""
    if hint := _NOT_CUT.get(model.frontend):
        message = f"operators are not cut out of models for {model.frontend}"
        raise fail("option-conflict", "--partial", message, hint)
    with _scratch() as scratch:
        model = _with_factory(model, options, scratch)
        request = replace(_request(model, options), partial=True)
        interface = _converted(request, scratch, options, _memory(model, options))
        from tosa_convert.frontends.read_result import finish

        graph = finish(request, interface, scratch, options.read)
        if interface.cut is None:
            return graph
        from tosa_convert.frontends.partial import parts_of

        return parts_of(graph, interface.cut, model.shown)


def _with_factory(model: Recognised, options: FrontendOptions, folder: Path) -> Recognised:
    """Return a model of a library as one that a Python file makes; other models as they are."""
    if model.library:
        shapes = numeric_shapes(options.read.input_shapes)
        allowed = options.read.limits.converter_memory
        return write_factory(
            model,
            shapes,
            folder,
            random_weights=options.random_weights,
            memory=0 if allowed == DEFAULT_LIMITS.converter_memory else allowed,
        )
    if options.random_weights:
        message = "the option --random-weights is for models that are named by their library"
        hint = f"such as timm:resnet50; libraries: {', '.join(LIBRARIES)}"
        raise fail("option-conflict", model.shown, message, hint)
    return model


def _request(model: Recognised, options: FrontendOptions) -> Request:
    refuse_func(model.frontend, options.read.func, model.shown)
    return Request(
        frontend=on_route(model.frontend, options.via).name,
        source=model.path,
        shown=model.shown,
        users_folder=os.getcwd() if model.member else "",
        member=model.member,
        # What makes the model of a library has used them.
        input_shapes={} if model.library else numeric_shapes(options.read.input_shapes),
        func=options.read.func or "",
        narrow=options.read.narrow,
        options=options.options,
    )


def _memory(model: Recognised, options: FrontendOptions) -> int:
    """Return the bytes that the converter may take; 0 for any number, since Python code has no size."""
    limits = options.read.limits
    if model.member and limits.converter_memory == DEFAULT_LIMITS.converter_memory:
        return 0
    return limits.converter_memory + limits.converter_memory_per_byte * _size(model)


def _size(model: Recognised) -> int:
    """Return the bytes of a model; of ONNX with the files beside it, which may hold its weights."""
    path = Path(model.path)
    files = [path]
    if path.is_dir():
        files = list(path.rglob("*"))
    elif model.frontend == "onnx":
        files = [one for one in path.parent.iterdir() if one == path or one.suffix != path.suffix]
    size = 0
    for one in files:
        with contextlib.suppress(OSError):
            size += one.stat().st_size if one.is_file() else 0
    return size


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    try:
        with temporary_folder("tosa-frontend-") as name:
            yield Path(name)
    except OSError as error:
        hint = "set TMPDIR to a folder on a disk with enough space"
        (finding,) = file_error(error.filename or "TMPDIR", error, "written").findings
        raise fail(finding.code, finding.where, finding.message, hint) from None


def _converted(request: Request, folder: Path, options: FrontendOptions, memory: int) -> Interface:
    """Run the converter; what reads its result is imported meanwhile, on another processor."""
    importing = threading.Thread(target=_import_finish, daemon=True)
    with _watched(folder, options.progress):
        interface = run_converter(
            request,
            folder,
            python=options.python,
            timeout=options.timeout,
            memory=memory,
            when_started=importing.start,
            server=options.server,
        )
    if importing.ident is not None:  # It started: a server runs already.
        importing.join()
    return interface


@contextlib.contextmanager
def _watched(folder: Path, progress: Callable[[str], object] | None) -> Iterator[None]:
    """Report what the converter of a folder does inside the block, and with --verbose its times."""
    begin = time.time()
    if progress is None:
        yield
        return
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_WATCH_EVERY):
            if begun := stages(folder):
                progress(begun[-1][1])

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        progress("")
        begun = [(begin, "starting the converter"), *stages(folder), (time.time(), "")]
        for (start, what), (end, _) in itertools.pairwise(begun):
            log.info("%s took %.2f s", what, end - start)


def _import_finish() -> None:
    """Import what reads the result of a converter; numpy is most of it."""
    from tosa_convert.frontends import read_result  # noqa: F401


# -- writes the Python file that makes the model of a library --------------------------------------
# It is one like a user's: every route converts it, and `--check` runs it in the framework.

_MEMBER: Final = "make"
_CODE: Final = """
from tosa_convert.frontends.named.from_{library} import make_model
from tosa_convert.frontends.named.wanted import Wanted

def {member}():
    return make_model(Wanted({library!r}, {name!r}, {shapes!r}, {random_weights!r}, {memory!r}))
"""


def write_factory(
    model: Recognised,
    shapes: Mapping[str, tuple[int, ...]],
    folder: Path,
    *,
    random_weights: bool,
    memory: int = 0,
) -> Recognised:
    """Write the file into a folder; return the model as one that it makes."""
    path = folder / f"{model.library}_model.py"
    code = _CODE.format(
        library=model.library,
        member=_MEMBER,
        name=model.path,
        shapes=dict(shapes),
        random_weights=random_weights,
        memory=memory,
    )
    path.write_text(import_of_this_package() + code, encoding="utf-8")
    return model._replace(path=str(path), member=_MEMBER)
