"""Targets of a campaign: models of frameworks, on the whole way to a file.

The converter runs in a fork of a process that has imported it, as in a suite. Seeds are the models below
the folders of the corpus: `python fuzz/make_models.py FOLDER` writes some.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import tempfile
from pathlib import Path
from random import Random
from typing import Any, Final

from mutate_bytes import mutate_bytes
from mutate_flatbuffer import Map, mutate_flatbuffer
from mutate_model import members, mutate_archive, mutate_protobuf, tflite_map
from targets import Row, Target

from tosa_convert import api
from tosa_convert.errors import TosaConvertError
from tosa_convert.frontends.lower_model import FrontendOptions, lowered
from tosa_convert.frontends.process.run import server_of
from tosa_convert.frontends.table import FRONTENDS, recognize

#: Larger models are not seeds: they make each input slow and find no more.
LARGEST_MODEL: Final = 64 << 10
#: Seconds that a converter may take for one input.
TIMEOUT: Final = 20.0
#: What a message must not repeat.
_DUMPS: Final = re.compile(r"Traceback \(most recent|Stack dump|PLEASE submit|please report it")
_LONGEST_MESSAGE: Final = 64 << 10


class Model(Target):
    """A model: recognised, lowered, and written; whatever happens, nothing else is left."""

    def __init__(self, name: str, folders: list[Path], scratch: Path) -> None:
        super().__init__(name, folders, scratch)
        frontend = ROWS[name][0]
        self.server = server_of(frontend)
        self.options = FrontendOptions(timeout=TIMEOUT, server=self.server)
        self.folder = scratch / "model"
        self.temporary = scratch / "temporary"
        self.temporary.mkdir()
        # Of this process, and of those that it starts.
        tempfile.tempdir = os.environ["TMPDIR"] = str(self.temporary)

    def read_seeds(self, folders: list[Path]) -> list[Any]:
        """Return the small models below the folders, the smallest first."""
        extension = ROWS[self.name][1]
        found = {
            path.read_bytes()
            for folder in folders
            for path in folder.rglob(f"*{extension}")
            if path.stat().st_size <= LARGEST_MODEL
        }
        return [self.seed_of(data) for data in sorted(found, key=lambda data: (len(data), data))]

    def use(self, data: bytes) -> None:
        """Convert the model as the command does.

        Raises AssertionError if a message has what it must not have, or if something is left.
        """
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        path = self.folder / f"model{ROWS[self.name][1]}"
        path.write_bytes(data)
        output = self.folder / "model.tosa"
        expected = {path.name}
        try:
            model = recognize(str(path))
            if model is None:
                api.load(path)
                return
            with lowered(model, self.options) as found:
                api.save(found.graph, output)
            expected.add(output.name)
        except TosaConvertError as error:
            text = str(error)
            if _DUMPS.search(text) or len(text) > _LONGEST_MESSAGE:
                raise AssertionError(f"the message: {text[:5000]}") from None
            raise
        finally:
            left = {one.name for one in self.folder.iterdir()} ^ expected
            # The server has a folder of its own there.
            left |= {one.name for one in list(self.temporary.iterdir())[1:]}
            if left or self._processes():
                raise AssertionError(f"what is left: {left}, processes {self._processes()}")

    def _processes(self) -> list[str]:
        """Return the processes that the server has not ended."""
        if self.server is None or self.server.process is None:
            return []
        number = self.server.process.pid
        try:
            return Path(f"/proc/{number}/task/{number}/children").read_text().split()
        except OSError:
            return []


class Tflite(Model):
    """A TFLite model."""

    def prepare(self, seed: bytes) -> Map:
        return tflite_map(seed)

    def mutant(self, prepared: Map, random: Random) -> bytes:
        if random.random() < 0.1:
            data = bytearray(prepared.data)
            mutate_bytes(data, random, random.choice((1, 2, 4)))
            return bytes(data)
        return mutate_flatbuffer(prepared, random)


class Onnx(Model):
    """An ONNX model."""

    def mutant(self, prepared: bytes, random: Random) -> bytes:
        return mutate_protobuf(prepared, random)


class Archive(Model):
    """A program of torch.export."""

    def prepare(self, seed: bytes) -> dict[str, bytes]:
        return members(seed)

    def mutant(self, prepared: dict[str, bytes], random: Random) -> bytes:
        return mutate_archive(prepared, random)


#: Target -> its frontend, and the extension of its models.
ROWS: Final = {"tflite": ("tflite", ".tflite"), "onnx": ("onnx", ".onnx"), "pt2": ("torch", ".pt2")}
#: Name -> target. A part of the campaigns whose corpus has models.
MODEL_TARGETS: Final[dict[str, Row]] = {
    "tflite": Row(Tflite, 2.0, 20_000),
    "onnx": Row(Onnx, 2.0, 5_000),
    "pt2": Row(Archive, 2.0, 1_000),
}


def is_available(name: str, folders: list[Path]) -> bool:
    """Return whether the packages of a target are installed, and there are models to begin with."""
    frontend, extension = ROWS[name]
    packages = FRONTENDS[frontend].packages
    return all(map(importlib.util.find_spec, packages)) and any(
        path for folder in folders for path in folder.rglob(f"*{extension}")
    )
