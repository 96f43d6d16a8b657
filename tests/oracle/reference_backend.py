"""The reference model as a backend, which can be made to change one element of its results.

`serve` gives a command for `suite --against`. The command is a small client of a thread of this process,
so that a case costs a run of the model and not the imports of Python. `changed_model.py` is the same
backend as a system under test of the official runner.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
import socketserver
import sys
import tempfile
import threading
import traceback
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

import tosa_convert as tc
from tosa_convert.golden.arrays import Array, load_npy, load_npz, match, save_npy, save_npz
from tosa_convert.golden.running.programs import input_slots, output_slots
from tosa_convert.golden.running.run_graph import execute, file_name
from tosa_convert.golden.running.run_options import RunOptions

#: Bits that change in an element, chosen by the bytes of the program: some changes are within a rule.
CHANGES = (1, 3, 40, 128)
#: Stands for every operator.
ALL = "all"

_CLIENT = r"""
import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
connection.sendall("\n".join(sys.argv[2:]).encode())
connection.shutdown(socket.SHUT_WR)
problem = connection.makefile().read()
sys.stderr.write(problem)
sys.exit(bool(problem))
"""


def perturb(model: Path, results: Iterable[Path], operator: str) -> None:
    """Change an element in each file of results if the main block has the operator.

    operator: the name of one, ALL, or "" for none.
    """
    if not operator:
        return
    if operator == ALL or operator in {op.spec.name for op in tc.load(model).main.operators}:
        bits = CHANGES[zlib.crc32(model.read_bytes()) % len(CHANGES)]
        for path in results:
            change_element(path, bits)


def change_element(path: Path, bits: int) -> None:
    """Change bits of the element in the middle of an `.npy` file."""
    array = np.load(path)
    if not array.size:
        return
    data = bytearray(path.read_bytes())
    start = 10 + int.from_bytes(data[8:10], "little") + array.size // 2 * array.dtype.itemsize
    data[start] ^= 1 if array.dtype == np.bool_ else bits
    path.unlink()  # it may be a link
    path.write_bytes(bytes(data))


def run_model(model: Path, given: Mapping[str, Array], operator: str = "") -> dict[str, Array]:
    """Return the outputs of a program, changed as `perturb` changes them."""
    graph = tc.load(model)
    ins, outs = input_slots(graph), output_slots(graph)
    arrays = match(ins, given)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(model, folder / "model.tosa")
        for slot in ins:
            save_npy(folder / file_name(ins, slot), slot, arrays[slot.key])
        execute(graph, folder, RunOptions(level="8k", timeout=60.0))
        values = [slot for slot in outs if slot.key == slot.tensor]
        perturb(model, [folder / file_name(outs, slot, "out") for slot in values], operator)
        files = {slot.key: folder / file_name(outs, slot, "out") for slot in outs}
        # INT4 as it is in the file: a change can give a value that INT4 does not have.
        return {
            slot.key: np.load(files[slot.key])
            if slot.dtype.name == "INT4"
            else load_npy(files[slot.key], slot)
            for slot in outs
        }


@contextlib.contextmanager
def serve(operator: str = "") -> Iterator[str]:
    """Yield the reference model as the words of `--against`, until the end of the `with` block."""

    class Request(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            model, inputs, outputs = self.rfile.read().decode().split("\n")
            try:
                save_npz(outputs, run_model(Path(model), load_npz(inputs), operator))
            except Exception:
                self.wfile.write(traceback.format_exc().encode())

    with tempfile.TemporaryDirectory() as folder:
        address = str(Path(folder, "socket"))
        with socketserver.ThreadingUnixStreamServer(address, Request) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            client = [sys.executable, "-I", "-S", "-c", _CLIENT, address]
            yield f"{shlex.join(client)} {{model}} {{inputs}} {{outputs}}"
            server.shutdown()
