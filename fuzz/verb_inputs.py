"""Files that the verbs take and their mutants: programs, arrays, reports, models, archive bombs."""

from __future__ import annotations

import contextlib
import io
import json
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import numpy as np
from mutate_bytes import mutate_bytes
from mutate_flatbuffer import Map, mutate_flatbuffer
from mutate_model import archive_of, members, mutate_archive, mutate_protobuf, tflite_map
from mutate_text import mutate_text, tokens_of
from targets import CORPUS, OLD_PROGRAMS, Weights, drain, programs

from tosa_convert import api
from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.mlir.text.parse.module import parse

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

#: Bytes that an archive of a few kilobytes unpacks to.
_BOMB: Final = 96 << 20
#: A test descriptor of the official suite, for the program `m.tosa` of one input and one output.
_DESCRIPTOR: Final = {
    "tosa_file": "m.tosa",
    "ifm_name": ["x"],
    "ifm_file": ["x.npy"],
    "ofm_name": ["y"],
    "ofm_file": ["y.npy"],
    "expected_failure": False,
    "test_details": {"operator": "ADD"},
    "meta": {"compliance": {"version": "0.1", "tensors": {"y": {"mode": "EXACT"}}}},
}
#: In a journal: the folder that the command runs in, which is not the same on every machine.
FOLDER: Final = b"@folder@"
#: The first line of the journal of `suite in`.
_HEADER: Final = {"folder": f"{FOLDER.decode()}/in", "via": "tosa"}
_ANSWER: Final = {"case": "a", "status": "pass", "message": "", "operator": "ADD", "types": "FP32"}
_ANSWER_ROW: Final = {**_ANSWER, "seconds": 0.5, "outputs": 1}


class Form(NamedTuple):
    """A kind of file: its extension, its seeds, how one becomes a sound file, and its mutation.

    prepare: what `mutate` takes, made once from a sound file.
    """

    extension: str
    seeds: Callable[[], list[bytes]]
    prepare: Callable[[bytes], Any]
    mutate: Callable[[Any, Random], bytes]
    make: Callable[[bytes], bytes] = bytes


def _programs() -> list[bytes]:
    return programs([CORPUS])


def _as_json(data: bytes) -> bytes:
    return drain(api.render(api.load(data), "json", weights="embedded"))


def _as_text(data: bytes) -> bytes:
    return drain(api.render(api.load(data), "mlir"))


def _as_bytecode(data: bytes) -> bytes:
    return drain(api.render(api.load(data), "mlirbc"))


def _old() -> list[bytes]:
    found = []
    for path in sorted(OLD_PROGRAMS.glob("*.mlir")):
        text = path.read_bytes().partition(b"// Today:")[0]
        found += [text, b"".join(bytes(piece) for piece in parse(memoryview(text)))]
    return found + [path.read_bytes() for path in sorted(OLD_PROGRAMS.glob("*.tosa"))]


def _arrays() -> list[bytes]:
    """Return the inputs of the corpus's example, and arrays of other types."""
    found = []
    for named in (
        {"x": np.ones((2, 3), np.float32)},
        {"x": np.ones((2, 3), np.float32), "y": np.zeros(3, np.float32)},
        {"a": np.arange(4, dtype=np.int8), "b": np.array([True, False]), "c": np.float16(1)},
    ):
        file = io.BytesIO()
        np.savez(file, **named)
        found.append(file.getvalue())
    return found


def _array() -> list[bytes]:
    found = []
    for array in (np.ones((2, 3), np.float32), np.zeros((1, 4), np.int8), np.array(True)):
        file = io.BytesIO()
        np.save(file, array)
        found.append(file.getvalue())
    return found


def _lines(*rows: object) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


def _reports() -> list[bytes]:
    """Return the JSON that `check` and `bisect` write, as far as others read it."""
    tensor = {"name": "y", "ok": False, "problem": "", "differing": 2, "elements": 3, "failing": 1}
    check = {"ok": False, "tensors": [{**tensor, "margin": 2.5, "rule": "exact"}]}
    operator = {"operator": "1 ADD", "index": 1}
    fault = {"kind": "alone", "operators": [operator], "comparison": check}
    bisect = {"outputs": check, "first": fault, "others": [None]}
    return [_lines(row) for row in (check, {"runs": [check]}, bisect)]


def _baselines() -> list[bytes]:
    """Return the JSON that `suite` writes, as far as --baseline reads it."""
    return [_lines({"cases": 1, "passed": 1, "ok": True, "answers": [_ANSWER_ROW]})]


def _journals() -> list[bytes]:
    """Return what `suite --work` keeps: an answer of a case that is there, and of one that is not."""
    answer = {**_ANSWER_ROW, "key": "0" * 64}
    return [_lines(_HEADER, answer, {**answer, "case": "gone"}), _lines(_HEADER)]


def _states() -> list[bytes]:
    """Return what `reduce --work` keeps."""
    return [_lines({"identity": "0" * 64, "answers": {"0" * 64: True}})]


def _tflite() -> list[bytes]:
    from frontends.tflite_operators.write import all_programs

    return [program.data() for _, program in zip(range(40), all_programs(), strict=False)]


def _onnx() -> list[bytes]:
    """Add of two vectors, as a message of ONNX: IR version 8, operators of version 17."""

    def field(number: int, data: bytes | int) -> bytes:
        if isinstance(data, int):
            return bytes([number << 3, data])
        return bytes([number << 3 | 2, len(data)]) + data

    kind = field(1, field(1, 1) + field(2, field(1, field(1, 3))))
    values = [field(1, name) + field(2, kind) for name in (b"x", b"y")]
    node = field(1, b"x") + field(1, b"x") + field(2, b"y") + field(3, b"n") + field(4, b"Add")
    graph = field(1, node) + field(2, b"g") + field(11, values[0]) + field(12, values[1])
    return [field(1, 8) + field(2, b"torch") + field(7, graph) + field(8, field(2, 17))]


def _keras() -> list[bytes]:
    layer = {"class_name": "InputLayer", "config": {"name": "x", "batch_shape": [1, 3]}}
    config = {"class_name": "Functional", "config": {"name": "m", "layers": [layer]}}
    files = {"metadata.json": _lines({"keras_version": "3.11.0"}), "config.json": _lines(config)}
    return [archive_of({**files, "model.weights.h5": b"\x89HDF\r\n\x1a\n" + bytes(64)})]


def _pt2() -> list[bytes]:
    files = {"archive_format": b"pt2", "version": b"0", "models/model.json": _lines({"graph": {}})}
    return [archive_of({f"m/{name}": data for name, data in files.items()})]


def _bomb(name: str) -> list[bytes]:
    """Return an archive whose member of zeros begins as an array, if its name is that of one."""
    words = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({_BOMB // 4},)}}\n".encode()
    head = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(words)) + words
    # A block that ends with a full flush can be repeated: compressing all of them would take seconds.
    zeros = bytes(1 << 20)
    packer = zlib.compressobj(9, wbits=-15)
    packed = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    packed += (packer.compress(zeros) + packer.flush(zlib.Z_FULL_FLUSH)) * (_BOMB >> 20)
    packed += packer.flush()
    check = zlib.crc32(head)
    for _ in range(_BOMB >> 20):
        check = zlib.crc32(zeros, check)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        entry = zipfile.ZipInfo(name)
        archive.writestr(entry, packed)
        entry.compress_type, entry.CRC = zipfile.ZIP_DEFLATED, check
        entry.file_size = len(head) + _BOMB
        archive.writestr("metadata.json", "{}")
        archive.writestr("m/archive_format", "pt2")
    return [file.getvalue()]


def _bytes(data: Any, random: Random) -> bytes:
    changed = bytearray(data)
    mutate_bytes(changed, random, random.choice((1, 1, 2, 4, 8)))
    return bytes(changed)


def _json(tokens: Any, random: Random) -> bytes:
    return mutate_text(tokens, random, mlir=False)


def _text(tokens: Any, random: Random) -> bytes:
    return mutate_text(tokens, random, mlir=True)


def _zip(files: Any, random: Random) -> bytes:
    return mutate_archive(files, random)


def _unchanged(data: bytes, random: Random) -> bytes:
    return data


def _prepared_old(data: bytes) -> Any:
    return tokens_of(data) if data.startswith(b"//") else data


def _mutated_old(data: Any, random: Random) -> bytes:
    return _text(data, random) if isinstance(data, list) else _bytes(data, random)


#: Kind of file -> how it is made.
FORMS: Final = {
    "tosa": Form(".tosa", _programs, Map, mutate_flatbuffer),
    "json": Form(".json", _programs, tokens_of, _json, _as_json),
    "mlir": Form(".mlir", _programs, tokens_of, _text, _as_text),
    "mlirbc": Form(".mlirbc", _programs, bytes, _bytes, _as_bytecode),
    "old": Form(".mlir", _old, _prepared_old, _mutated_old),
    "npz": Form(".npz", _arrays, members, _zip),
    "npy": Form(".npy", _array, bytes, _bytes),
    "desc": Form(".json", lambda: [_lines(_DESCRIPTOR)], tokens_of, _json),
    "report": Form(".json", _reports, tokens_of, _json),
    "baseline": Form(".json", _baselines, tokens_of, _json),
    "journal": Form(".jsonl", _journals, tokens_of, _json),
    "state": Form(".json", _states, tokens_of, _json),
    "xfail": Form(".txt", lambda: [b"# known\na/* rounds twice\nb no\n"], tokens_of, _text),
    "tflite": Form(".tflite", _tflite, tflite_map, mutate_flatbuffer),
    "onnx": Form(".onnx", _onnx, bytes, mutate_protobuf),
    "keras": Form(".keras", _keras, members, _zip),
    "pt2": Form(".pt2", _pt2, members, _zip),
    "npz-bomb": Form(".npz", lambda: _bomb("x.npy"), bytes, _unchanged),
    "keras-bomb": Form(".keras", lambda: _bomb("config.json"), bytes, _unchanged),
    "pt2-bomb": Form(".pt2", lambda: _bomb("m/models/model.json"), bytes, _unchanged),
}
#: The forms of a program that every verb reads, and those that it should refuse.
PROGRAMS: Final = ("tosa", "json", "mlir", "mlirbc", "old")
MODELS: Final = ("tflite", "onnx", "keras", "pt2", "keras-bomb", "pt2-bomb")


class _LazyWeights(Weights):
    """Programs with a folder of constants, which are written when they are first used."""

    def read_seeds(self, folders: list[Path]) -> list[Any]:
        return programs(folders)


class Files:
    """Makes mutants of each form; seeds are made when they are first used."""

    def __init__(self, scratch: Path) -> None:
        self._weights = _LazyWeights("weights", [CORPUS], scratch)
        self._seeds: dict[str, list[bytes]] = {}
        self._sound: dict[tuple[str, int], bytes] = {}
        self._prepared: dict[tuple[str, int], Any] = {}
        self._folders: dict[int, tuple[bytes, dict[str, bytes]] | None] = {}

    def sound(self, form: str, which: int = 0) -> bytes:
        """Return a sound file of a form."""
        if (form, which) not in self._sound:
            self._sound[form, which] = FORMS[form].make(self._of(form)[which])
        return self._sound[form, which]

    def mutant(self, form: str, random: Random) -> bytes:
        """Return a mutant of a form, of a small file more often; one of sixteen is sound."""
        which = int(len(self._of(form)) * random.random() ** 2)
        if random.random() < 1 / 16:
            return self.sound(form, which)
        if (form, which) not in self._prepared:
            self._prepared[form, which] = FORMS[form].prepare(self.sound(form, which))
        return FORMS[form].mutate(self._prepared[form, which], random)

    def beside_weights(self, random: Random) -> tuple[bytes, dict[str, bytes]]:
        """Return a program and the files of its folder of constants, some of them mutated."""
        while True:
            which = int(len(self._weights.seeds) * random.random() ** 2)
            if which not in self._folders:
                self._folders[which] = None
                # A program without constants is refused.
                with contextlib.suppress(TosaConvertError):
                    self._folders[which] = self._weights.seed_of(self._weights.seeds[which])
            found = self._folders[which]
            if found is not None:
                break
        if random.random() < 1 / 4:
            return found
        program, files, _, _ = self._weights.mutant(found, random)
        return program, files

    def _of(self, form: str) -> list[bytes]:
        if form not in self._seeds:
            self._seeds[form] = sorted(FORMS[form].seeds(), key=len)
        return self._seeds[form]
