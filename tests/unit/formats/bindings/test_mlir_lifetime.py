"""Ownership of memory: modules, contexts, graphs and buffers; conversions do not change them."""

from __future__ import annotations

import gc
import mmap
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unit.building import encode, example, graph, op, tensor

import tosa_convert as tc
from tosa_convert.formats.bindings.modules import read, write
from tosa_convert.formats.bindings.packages import Bindings
from tosa_convert.graph import Constant, Graph, compare, dtype

COUNT = 50_000


def weights() -> Graph:
    """Return constants of each form: small, splat, large."""
    large = np.arange(COUNT, dtype="<f4")
    return graph(
        "",
        "large",
        [
            tensor("small", shape=(3,), data=np.array([1, 2, 3], "<f4").tobytes()),
            tensor("splat", shape=(COUNT,), data=np.full(COUNT, 7, "<f4").tobytes()),
            tensor("large", shape=(COUNT,), data=large.tobytes()),
            tensor("nibbles", "INT4", (COUNT,), bytes([0x21]) * (COUNT // 2)),
        ],
        [op("CONST", "", name) for name in ("small", "splat", "large", "nibbles")],
    )


def churn() -> None:
    """Collect garbage, and reuse the memory that was freed."""
    gc.collect()
    keep = [np.full(COUNT, 0xAA, np.uint8) for _ in range(200)]
    del keep


@pytest.mark.slow
@pytest.mark.parametrize("form", ["auto", "dense", "resource"])
def test_constants_of_a_graph_outlive_the_module_and_its_context(
    bindings: Bindings, form: Any
) -> None:
    context = bindings.new_context()
    module = write(weights(), bindings, context, constants=form)
    found = read(module)
    del module, context
    churn()
    assert compare(weights(), found) is None
    churn()
    assert compare(weights(), found) is None


@pytest.mark.parametrize("how", ["text", "bytecode", "file"])
def test_constants_of_a_parsed_module_outlive_it(
    bindings: Bindings, how: str, tmp_path: Path
) -> None:
    module = write(weights(), bindings, bindings.new_context())
    context = bindings.new_context()
    path = tmp_path / "m.mlirbc"
    with path.open("wb") as file:
        module.operation.write_bytecode(file)
    if how == "text":
        parsed = bindings.ir.Module.parse(str(module), context)
    elif how == "bytecode":
        parsed = bindings.ir.Module.parse(path.read_bytes(), context)
    else:
        parsed = bindings.ir.Module.parseFile(str(path), context)
    found = read(parsed)
    del module, parsed, context
    path.unlink()
    churn()
    assert compare(weights(), found) is None


@pytest.mark.slow
def test_the_module_is_freed_once_its_bytes_are_written(bindings: Bindings) -> None:
    context = bindings.new_context()
    module = write(weights(), bindings, context)
    before = sys.getrefcount(context)
    tc.export_tosa_func_to_flatbuffer(module)
    gc.collect()
    assert sys.getrefcount(context) <= before


@pytest.mark.slow
def test_a_buffer_lives_as_long_as_the_module_that_shares_it(bindings: Bindings) -> None:
    made = weights()
    module = write(made, bindings, bindings.new_context())
    del made
    churn()
    assert compare(weights(), read(module)) is None


@pytest.mark.slow
def test_a_mapped_file_stays_mapped_while_a_module_uses_it(
    bindings: Bindings, tmp_path: Path
) -> None:
    path = tmp_path / "m.tosa"
    tc.save(weights(), path)
    module = tc.import_tosa_func_from_flatbuffer(path, context=bindings.new_context())
    path.unlink()
    churn()
    assert compare(weights(), read(module)) is None


def test_importing_shares_the_pages_of_the_file(bindings: Bindings, tmp_path: Path) -> None:
    path = tmp_path / "m.tosa"
    path.write_bytes(encode(weights()))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as pages:
        graph_ = tc.load(path)
        large = graph_.main.tensors["large"].data
        assert large is not None
        where = pages.rfind(bytes(large.packed())[:400])
        module = write(graph_, bindings, bindings.new_context())
        # A change of the file is seen through the module: nothing was copied on the way.
        pages[where] ^= 0xFF
        found = read(module).main.tensors["large"].data
        assert found is not None
        assert bytes(found.packed())[0] == 0xFF


def test_exporting_twice_changes_nothing_and_gives_the_same_bytes(bindings: Bindings) -> None:
    context = bindings.new_context()
    module = write(example(), bindings, context)
    before = module.operation.get_asm(enable_debug_info=True)
    first = tc.export_tosa_func_to_flatbuffer(module)
    assert module.operation.get_asm(enable_debug_info=True) == before
    assert tc.export_tosa_func_to_flatbuffer(module) == first
    reparsed = bindings.ir.Module.parse(before, bindings.new_context())
    assert tc.export_tosa_func_to_flatbuffer(reparsed) == first
    assert module.operation.verify()


def test_importing_changes_neither_the_graph_nor_the_bytes(bindings: Bindings) -> None:
    made = weights()
    before = encode(made)
    for names in ("retain", "generate"):
        write(made, bindings, bindings.new_context(), names=names)
    assert encode(made) == before


@pytest.mark.slow
def test_all_bindings_give_the_same_bytes(root: Path) -> None:
    from tosa_convert.formats.bindings.packages import installed

    packages = [name for name in installed() if name in ("torch_mlir", "iree.compiler")]
    if len(packages) < 2:
        pytest.skip("only one distribution of MLIR's bindings is installed")
    script = (
        "import sys; sys.path.insert(0, 'tests')\n"
        "from unit.formats.bindings.test_mlir_lifetime import weights\n"
        "import tosa_convert as tc\n"
        "from tosa_convert.formats.bindings.packages import default_bindings\n"
        "from tosa_convert.formats.bindings.modules import write\n"
        "b = default_bindings(sys.argv[1])\n"
        "module = write(weights(), b, b.new_context())\n"
        "sys.stdout.buffer.write(tc.export_tosa_func_to_flatbuffer(module))\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script, package], cwd=root, capture_output=True, check=True
        ).stdout
        for package in packages
    }
    assert len(outputs) == 1


def test_objects_of_two_bindings_coexist() -> None:
    from tosa_convert.formats.bindings.packages import default_bindings, installed

    packages = [name for name in installed() if name in ("torch_mlir", "iree.compiler")]
    if len(packages) < 2:
        pytest.skip("only one distribution of MLIR's bindings is installed")
    one, other = map(default_bindings, packages)
    module = write(example(), one, one.new_context())
    moved = tc.import_tosa_func_from_flatbuffer(
        tc.export_tosa_func_to_flatbuffer(module), context=other.new_context()
    )
    assert isinstance(moved, other.ir.Module)
    assert tc.export_tosa_func_to_flatbuffer(moved) == tc.export_tosa_func_to_flatbuffer(module)


def test_read_only_and_writable_buffers_are_accepted(bindings: Bindings) -> None:
    for buffer in (bytes(range(250)) * 16, bytearray(range(250)) * 16, np.zeros(1000, "<f4")):
        made = graph("", "w", [tensor("w", shape=(1000,))], [op("CONST", "", "w")])
        made.main.tensors["w"].data = Constant(dtype("FP32"), 1000, buffer)
        assert compare(made, read(write(made, bindings, bindings.new_context()))) is None


@pytest.mark.parametrize("shift", range(1, 8))
def test_data_at_any_address_is_accepted(bindings: Bindings, shift: int) -> None:
    raw = np.arange(1000, dtype="<f4").tobytes()
    view = memoryview(bytes(shift) + raw)[shift:]
    made = graph("", "w", [tensor("w", shape=(1000,))], [op("CONST", "", "w")])
    made.main.tensors["w"].data = Constant(dtype("FP32"), 1000, view)
    module = write(made, bindings, bindings.new_context())
    assert compare(made, read(module)) is None

    # Bytecode cannot express every alignment; a wrong one would make a file that MLIR cannot parse.
    class Sink(bytearray):
        def write(self, piece: bytes) -> int:
            self.extend(piece)
            return len(piece)

    sink = Sink()
    module.operation.write_bytecode(sink)
    again = bindings.ir.Module.parse(bytes(sink), bindings.new_context())
    assert compare(made, read(again)) is None
