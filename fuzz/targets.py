"""The targets of a campaign: they do with a mutant what a user of the library does with a file.

A target has seeds, a way to make input number `i` of a campaign's seed (the same in every run and on
every machine), and `run`, which returns the code of the first refusal or "accepted". Any other
exception is a defect.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import shutil
import zlib
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from mutate_bytes import mutate_bytes
from mutate_flatbuffer import Map, mutate_flatbuffer
from mutate_text import mutate_text, tokens_of

from tosa_convert import api
from tosa_convert.errors import CODES, TosaConvertError, fail
from tosa_convert.formats.bindings.packages import Bindings, default_bindings
from tosa_convert.formats.mlir.bytecode.format import NEWEST_VERSION
from tosa_convert.formats.mlir.text.parse.module import parse
from tosa_convert.formats.read import open_input, read_upgraded
from tosa_convert.formats.read import programs as programs_in
from tosa_convert.graph.compare import compare
from tosa_convert.graph.model import Graph
from tosa_convert.io.options import WEIGHT_FORMS, ReadOptions

VGF_FILES: Final = Path(__file__).parents[1] / "tests" / "unit" / "formats" / "vgf"
OLD_PROGRAMS: Final = Path(__file__).parents[1] / "tests" / "old_programs"
CORPUS: Final = Path(__file__).parent / "corpus"
ACCEPTED: Final = "accepted"
#: Larger flatbuffers are not seeds: they make each input slow and find no more.
LARGEST_SEED: Final = 8192
BINDINGS: Final = {"torch": "torch_mlir", "iree": "iree.compiler"}


#: Constants of a program that targets write, in bytes.
MOST_CONSTANT_BYTES: Final = 4 << 20


class Target:
    """One format, with one package of MLIR bindings or with none."""

    #: What `run` returns.
    outcomes: tuple[str, ...] = (ACCEPTED, *sorted(CODES))
    #: The kinds of files of which an input has several; a campaign counts them.
    kinds: tuple[str, ...] = ()
    #: Seconds of processor time after which an input hangs.
    hang_after = 5.0

    def __init__(self, name: str, folders: list[Path], scratch: Path) -> None:
        self.name = name
        self.scratch = scratch
        self.bindings = BINDINGS.get(name.rpartition("-")[2], "")
        self.seeds = self.read_seeds(folders)
        if not self.seeds:
            raise SystemExit(f"{name}: no seeds below {', '.join(map(str, folders))}")
        self.prepared: dict[int, Any] = {}

    def read_seeds(self, folders: list[Path]) -> list[Any]:
        """Return the programs of the flatbuffers in the folders, in this format."""
        seeds = []
        for data in programs(folders):
            # A program that this format or these bindings refuse is not a seed.
            with contextlib.suppress(TosaConvertError):
                seeds.append(self.seed_of(data))
        return seeds

    def seed_of(self, data: bytes) -> Any:
        """Return a flatbuffer's program in this format."""
        return data

    def input(self, seed: int, index: int) -> Any:
        """Mutant number `index` of a campaign's seed."""
        random = Random(zlib.crc32(f"{seed}/{self.name}/{index}".encode()))
        which = random.randrange(len(self.seeds))
        if which not in self.prepared:
            if len(self.prepared) >= 64:
                self.prepared.clear()
            self.prepared[which] = self.prepare(self.seeds[which])
        return self.mutant(self.prepared[which], random)

    def sound(self) -> Any:
        """Return an input without a mutation."""
        return self.seeds[0]

    def prepare(self, seed: bytes) -> Any:
        return seed

    def mutant(self, prepared: Any, random: Random) -> Any:
        data = bytearray(prepared)
        mutate_bytes(data, random, random.choice((1, 1, 2, 4, 8)))
        return bytes(data)

    def kinds_of(self, data: Any) -> Iterable[str]:
        """Return the kinds of an input's files, as often as it has them."""
        return ()

    def size(self, data: Any) -> int:
        """Return bytes of an input."""
        return len(data)

    def save(self, data: Any, path: Path) -> None:
        """Save an input, so that a defect can be reproduced."""
        path.write_bytes(data)

    def run(self, data: Any) -> str:
        """Run all steps; return the code of a refusal, or ACCEPTED."""
        try:
            self.use(data)
        except TosaConvertError as error:
            # The message must be printable.
            str(error).encode("utf-8", "backslashreplace")
            return error.code
        return ACCEPTED

    def use(self, data: Any) -> None:
        raise NotImplementedError


class Flatbuffer(Target):
    """Read, verify, and write again as flatbuffer and JSON."""

    def prepare(self, seed: bytes) -> Map:
        return Map(seed)

    def mutant(self, prepared: Map, random: Random) -> bytes:
        return mutate_flatbuffer(prepared, random)

    def use(self, data: bytes) -> None:
        graph = api.load(data)
        written = drain(api.render(graph, "tosa", weights="embedded"))
        drain(api.render(graph, "json", weights="embedded"))
        again = drain(api.render(api.load(written), "tosa", weights="embedded"))
        if again != written:
            raise AssertionError("the written file reads back as another program")


class Import(Flatbuffer):
    """Read, build a module of MLIR, print it, and export it again."""

    def use(self, data: bytes) -> None:
        graph = api.load(data)
        drain(api.render(graph, "mlirbc"))
        text = drain(api.render(graph, "mlir", generic=bool(len(data) % 2)))
        found = api.load(text)
        drain(api.render(found, "tosa", weights="embedded"))


class Json(Target):
    """Read, verify, and write again as JSON and flatbuffer."""

    def seed_of(self, data: bytes) -> bytes:
        return drain(api.render(api.load(data), "json", weights="embedded"))

    def prepare(self, seed: bytes) -> list[bytes]:
        return tokens_of(seed)

    def mutant(self, prepared: list[bytes], random: Random) -> bytes:
        return mutate_text(prepared, random, mlir=False)

    def use(self, data: bytes) -> None:
        graph = api.load(data)
        drain(api.render(graph, "tosa", weights="embedded"))
        written = drain(api.render(graph, "json", weights="embedded"))
        if drain(api.render(api.load(written), "json", weights="embedded")) != written:
            raise AssertionError("the written file reads back as another program")


class Text(Target):
    """Parse text, and write it as a flatbuffer."""

    def seed_of(self, data: bytes) -> bytes:
        return drain(api.render(api.load(data), "mlir"))

    def prepare(self, seed: bytes) -> list[bytes]:
        return tokens_of(seed)

    def mutant(self, prepared: list[bytes], random: Random) -> bytes:
        return mutate_text(prepared, random, mlir=True)

    def use(self, data: bytes) -> None:
        graph = api.load(data)
        if fits_in_memory(graph):
            drain(api.render(graph, "tosa", weights="embedded"))


class Bytecode(Target):
    """Bytecode that these bindings wrote, in every version of the format: read, and written again.

    No MLIR reads the mutants, so that nothing may crash.
    """

    def read_seeds(self, folders: list[Path]) -> list[bytes]:
        bindings = default_bindings(self.bindings)
        return [
            written
            for seed in super().read_seeds(folders)
            for written in every_version(seed, bindings)
        ]

    def seed_of(self, data: bytes) -> bytes:
        return drain(api.render(api.load(data), "mlirbc"))

    def use(self, data: bytes) -> None:
        graph = api.load(data)
        if not fits_in_memory(graph):
            return
        written = drain(api.render(graph, "tosa", weights="embedded"))
        again = drain(api.render(api.load(written), "tosa", weights="embedded"))
        if again != written:
            raise AssertionError("the written file reads back as another program")
        version = len(data) % (NEWEST_VERSION + 1)
        # A function of MLIR has a name: one without gets this one.
        graph.regions[0].name = graph.regions[0].name or "main"
        bytecode = drain(api.render(graph, "mlirbc", bytecode_version=version))
        if compare(graph, api.load(bytecode), names=True) is not None:
            raise AssertionError("the written bytecode reads back as another program")


class OldPrograms(Target):
    """Programs of older releases in every format: read as `upgrade` does, and written."""

    def read_seeds(self, folders: list[Path]) -> list[bytes]:
        seeds = []
        for path in sorted(OLD_PROGRAMS.glob("*.mlir")):
            text = path.read_bytes().partition(b"// Today:")[0]
            bytecode = b"".join(bytes(piece) for piece in parse(memoryview(text)))
            seeds += [text, bytecode]
        return seeds + [path.read_bytes() for path in sorted(OLD_PROGRAMS.glob("*.tosa"))]

    def prepare(self, seed: bytes) -> list[bytes] | bytes:
        return tokens_of(seed) if seed.startswith(b"//") else seed

    def mutant(self, prepared: list[bytes] | bytes, random: Random) -> bytes:
        if isinstance(prepared, list):
            return mutate_text(prepared, random, mlir=True)
        data = bytearray(prepared)
        mutate_bytes(data, random, random.choice((1, 1, 2, 4)))
        return bytes(data)

    def use(self, data: bytes) -> None:
        graph, _ = read_upgraded(open_input(data), ReadOptions())
        if fits_in_memory(graph):
            drain(api.render(graph, "tosa", weights="embedded"))


def fits_in_memory(graph: Graph) -> bool:
    """Return whether a target may hold the program's flatbuffer, which has every element of a splat.

    In MLIR a splat of any size takes a few bytes, so that a small mutant can be a program of gigabytes.
    """
    return sum(constant.nbytes for _, constant in graph.constants()) <= MOST_CONSTANT_BYTES


def every_version(bytecode: bytes, bindings: Bindings) -> list[bytes]:
    """Return the module as these bindings write it in each version of the format that they can write."""
    module = bindings.ir.Module.parse(bytecode, bindings.new_context())
    files = []
    for version in range(NEWEST_VERSION + 1):
        sink = io.BytesIO()
        # A writer refuses a version in which it cannot express the module.
        with contextlib.suppress(bindings.ir.MLIRError, ValueError):
            module.operation.write_bytecode(sink, version)
            files.append(sink.getvalue())
    return files


def programs(folders: list[Path]) -> list[bytes]:
    """Return the small flatbuffers below the folders, the smallest first, without duplicates."""
    found = {
        path.read_bytes()
        for folder in folders
        for path in folder.rglob("*.tosa")
        if path.stat().st_size <= LARGEST_SEED
    }
    return sorted(found, key=lambda data: (len(data), data))


class Weights(Target):
    """Read a program with its constants in a folder: manifest and arrays changed or missing."""

    def __init__(self, name: str, folders: list[Path], scratch: Path) -> None:
        super().__init__(name, folders, scratch)
        self.folder = scratch / "weights"

    def seed_of(self, data: bytes) -> tuple[bytes, dict[str, bytes]]:
        """Return the program without its constants, and the files of its folder."""
        into = self.scratch / "seed"
        shutil.rmtree(into, ignore_errors=True)
        into.mkdir(parents=True)
        graph = api.load(data)
        api.save(graph, into / "m.tosa", weights="npy")
        files = {p.name: p.read_bytes() for p in sorted((into / "m.weights").iterdir())}
        if len(files) < 2:
            raise fail("missing-data", "", "a program without constants is not a seed")
        return (into / "m.tosa").read_bytes(), files

    def sound(self) -> Any:
        return (*self.seeds[0], {}, False)

    def mutant(self, prepared: Any, random: Random) -> Any:
        program, files = prepared[0], dict(prepared[1])
        arrays = [name for name in files if name != "manifest.json"]
        special: dict[str, str] = {}
        for _ in range(random.choice((1, 1, 1, 2, 3))):
            match random.randrange(8):
                case 0 | 1 | 2:
                    tokens = tokens_of(files["manifest.json"])
                    files["manifest.json"] = mutate_text(tokens, random, mlir=False)
                case 3 | 4:
                    name = random.choice(arrays)
                    data = bytearray(files.get(name, b""))
                    head = bytearray(data[:128])
                    mutate_bytes(head, random, random.choice((1, 2)))
                    files[name] = bytes(head) + bytes(data[128:])
                case 5:
                    name = random.choice(arrays)
                    data = bytearray(files.get(name, b""))
                    mutate_bytes(data, random, random.choice((1, 2)))
                    files[name] = bytes(data)
                case 6:
                    files.pop(random.choice(list(files)), None)
                    files.setdefault("manifest.json", b"")
                case _:
                    special[random.choice(list(files))] = random.choice(("link", "folder", "fifo"))
        accept = random.random() < 0.6
        return program, files, special, accept

    def size(self, data: Any) -> int:
        return len(data[0]) + sum(map(len, data[1].values()))

    def save(self, data: Any, path: Path) -> None:
        self.lay_out(data, path)

    def lay_out(self, data: Any, folder: Path) -> None:
        program, files, special, _ = data
        shutil.rmtree(folder, ignore_errors=True)
        weights = folder / "m.weights"
        weights.mkdir(parents=True)
        (folder / "m.tosa").write_bytes(program)
        for name, content in files.items():
            path = weights / name
            match special.get(name):
                case "link":
                    path.symlink_to("/etc/passwd")
                case "folder":
                    path.mkdir()
                case "fifo":
                    os.mkfifo(path)
                case _:
                    path.write_bytes(content)

    def use(self, data: Any) -> None:
        self.lay_out(data, self.folder)
        graph = api.load(self.folder / "m.tosa", accept_changed_weights=data[3])
        drain(api.render(graph, "tosa", weights="embedded"))


class Archive(Target):
    """Read a program with its constants in one file, whose table or elements are changed."""

    def read_seeds(self, folders: list[Path]) -> list[Any]:
        """Return each program in each form."""
        seeds = []
        for data in programs(folders):
            for form in WEIGHT_FORMS[1:]:
                path = self.scratch / f"seed.{form}"
                graph = api.load(data)
                if api.export_weights(graph, path) > 0:
                    seeds.append((data, path.read_bytes()))
        return seeds

    def mutant(self, prepared: Any, random: Random) -> Any:
        data = bytearray(prepared[1])
        head = bytearray(data[: random.choice((128, 512, len(data)))])
        tail = data[len(head) :]
        mutate_bytes(head, random, random.choice((1, 1, 2, 4)))
        return prepared[0], bytes(head + tail), {}, random.random() < 0.6

    def save(self, data: Any, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        (path / "m.tosa").write_bytes(data[0])
        (path / "w").write_bytes(data[1])

    def size(self, data: Any) -> int:
        return len(data[0]) + len(data[1])

    def sound(self) -> Any:
        return (*self.seeds[0], {}, False)

    def use(self, data: Any) -> None:
        program, archive, _, accept = data
        path = self.scratch / "w"
        path.write_bytes(archive)
        graph = api.import_weights(api.load(program), path, accept_changed_weights=accept)
        drain(api.render(graph, "tosa", weights="embedded"))


class Vgf(Target):
    """Files that Arm's model converter wrote: read, and written as flatbuffers."""

    def read_seeds(self, folders: list[Path]) -> list[bytes]:
        """Return the files that the tests have."""
        return [path.read_bytes() for path in sorted(VGF_FILES.glob("*.vgf"))]

    def use(self, data: bytes) -> None:
        names, _ = programs_in(open_input(data))
        for name in names or [""]:
            graph = api.load(data, func=name or None)
            if fits_in_memory(graph):
                drain(api.render(graph, "tosa", weights="embedded"))


class Gguf(Archive):
    """Read a program with its constants in a GGUF file, whose table or elements are changed."""

    def read_seeds(self, folders: list[Path]) -> list[Any]:
        """Return the programs whose constants GGUF has types for."""
        gguf = importlib.import_module("gguf")
        seeds = []
        for data in programs(folders):
            graph, path = api.load(data), self.scratch / "seed.gguf"
            writer = gguf.GGUFWriter(path, "test")
            for name, constant in dict(graph.constants()).items():
                if constant.dtype.name in ("FP32", "FP16", "INT8", "INT16", "INT32"):
                    writer.add_tensor(name, constant.numpy())
            for write in ("write_header_to_file", "write_kv_data_to_file", "write_tensors_to_file"):
                getattr(writer, write)()
            writer.close()
            with contextlib.suppress(TosaConvertError):
                api.import_weights(graph, path)
                seeds.append((data, path.read_bytes()))
        return seeds


def drain(pieces: Any) -> bytes:
    """Return the bytes of the pieces that `render` returns."""
    return b"".join(bytes(piece) for piece in pieces)


class Row(NamedTuple):
    """A target: its class, and its shares of a campaign's time and of its inputs."""

    make: type[Target]
    seconds: float
    inputs: float


#: Name -> target.
TARGETS: Final[dict[str, Row]] = {
    "tosa": Row(Flatbuffer, 4.0, 400_000),
    "json": Row(Json, 3.0, 414_000),
    "old": Row(OldPrograms, 2.0, 100_000),
    "weights": Row(Weights, 2.0, 100_000),
    "archive": Row(Archive, 1.0, 100_000),
    "gguf": Row(Gguf, 1.0, 100_000),
    "vgf": Row(Vgf, 1.0, 100_000),
    **{f"import-{short}": Row(Import, 1.5, 20_000) for short in BINDINGS},
    **{f"mlir-{short}": Row(Text, 1.0, 20_000) for short in BINDINGS},
    **{f"mlirbc-{short}": Row(Bytecode, 2.0, 200_000) for short in BINDINGS},
}


def available() -> list[str]:
    """Return the targets whose bindings are installed."""
    found = []
    for name in TARGETS:
        package = BINDINGS.get(name.rpartition("-")[2])
        needed = f"{package}.ir" if package else ("gguf" if name == "gguf" else "json")
        try:
            importlib.import_module(needed)
        except ImportError:
            continue
        found.append(name)
    return found


def make(name: str, folders: list[Path], scratch: Path) -> Target:
    """Return the target called `name`."""
    scratch.mkdir(parents=True, exist_ok=True)
    return TARGETS[name].make(name, folders, scratch)


def described(data: Any) -> str:
    """Return an input that is not one file, for a report."""
    if hasattr(data, "described"):
        return str(data.described())
    return json.dumps({"special": data[2], "accept": data[3]}) if isinstance(data, tuple) else ""
