"""MLIR read in a process of its own: what kills that process is a finding, and nothing else changes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from unit.test_child_process import ends, wait_for

import tosa_convert as tc
from tosa_convert import api, isolation
from tosa_convert.graph import Graph
from tosa_convert.graph.compare import compare

pytest.importorskip("torch_mlir", reason="reads MLIR")

TEXT = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = tosa.exp %x : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""
F64 = TEXT.replace("f32", "f64")


def bytes_of(graph: Graph) -> bytes:
    return b"".join(bytes(piece) for piece in api.encode(graph))


def test_what_the_child_reads_is_what_this_process_reads(tmp_path: Path) -> None:
    path = tmp_path / "m.mlir"
    path.write_text(TEXT)
    mine, child = tc.load(path), tc.load(path, isolate=True)
    assert compare(mine, child) is None
    assert bytes_of(mine) == bytes_of(child)
    assert "m.mlir" in child.main.operators[0].location
    assert bytes_of(tc.load(TEXT.encode(), isolate=True)) == bytes_of(tc.load(TEXT.encode()))


def test_options_reach_the_child(tmp_path: Path) -> None:
    found = tc.load(F64.encode(), isolate=True, narrow=["f64"], names="generate")
    assert found.main.tensors[found.main.inputs[0]].dtype.name == "FP32"


def test_what_the_child_refuses_is_refused_in_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.mlir").write_text(F64)
    errors = []
    for isolate in (False, True):
        with pytest.raises(tc.TosaConvertError) as caught:
            tc.load("m.mlir", isolate=isolate)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]
    assert errors[0].startswith("m.mlir:2:1: error:")


def run_instead(monkeypatch: pytest.MonkeyPatch, folder: Path, code: str) -> None:
    """Let the child process run this code instead of its own."""
    script = folder / "child.py"
    script.write_text(code)
    monkeypatch.setattr(isolation, "CHILD", script)


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGKILL"])
def test_a_child_that_crashes_is_a_finding(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = int(getattr(signal, name))
    run_instead(monkeypatch, tmp_path, f"import os; os.kill(os.getpid(), {number})")
    with pytest.raises(
        tc.TosaConvertError, match=f"MLIR crashed while it read the file: {name}"
    ) as caught:
        tc.load(TEXT.encode(), isolate=True)
    assert caught.value.code == "malformed-mlir"


def test_bytecode_is_read_without_a_child(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = root / "examples" / "digits_cnn.mlirbc"
    expected = tc.load(path)
    run_instead(monkeypatch, tmp_path, "raise SystemExit(9)")
    assert compare(expected, tc.load(path, isolate=True)) is None


def test_a_child_that_waits_for_ever_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_instead(monkeypatch, tmp_path, "import time; time.sleep(60)")
    monkeypatch.setattr(isolation, "PATIENCE", -1.5)
    with pytest.raises(
        tc.TosaConvertError, match="did not read the file within 2 seconds"
    ) as caught:
        tc.load(TEXT.encode(), isolate=True, limits={"isolated-seconds": 1})
    assert caught.value.code == "malformed-mlir"


@pytest.mark.skipif(os.name != "posix", reason="a limit of POSIX")
def test_a_child_that_computes_for_ever_is_a_finding(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spin = (
        "from tosa_convert.child_process import limit_this_process as limit; limit(cpu_seconds=1)"
    )
    run_instead(
        monkeypatch,
        tmp_path,
        f"import sys; sys.path.append({str(root)!r})\n{spin}\nwhile True: pass",
    )
    with pytest.raises(tc.TosaConvertError, match="did not read the file within") as caught:
        tc.load(TEXT.encode(), isolate=True)
    assert caught.value.code == "malformed-mlir"


def test_a_child_that_hands_back_nonsense_is_checked_like_any_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_instead(
        monkeypatch,
        tmp_path,
        "import json, sys; folder = json.loads(sys.argv[1])['folder']\n"
        "open(folder + '/module.tosa', 'wb').write(b'\\xff' * 64)",
    )
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.load(TEXT.encode(), isolate=True)
    assert caught.value.code == "malformed-flatbuffer"


@pytest.mark.skipif(not os.path.exists("/proc/self"), reason="Linux keeps to a limit of memory")
def test_a_child_has_only_so_much_memory() -> None:
    # Without memory some libraries end at once, and others try again until the time is up.
    with pytest.raises(tc.TosaConvertError, match=r"MLIR (crashed while it|did not) read the file"):
        tc.load(TEXT.encode(), isolate=True, limits={"isolated-memory": 64 << 20})


def test_the_child_imports_nothing_from_where_the_file_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit(9)")
    (tmp_path / "tosa_convert.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)
    tc.load(TEXT.encode(), isolate=True)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux ends a child with its parent")
def test_the_child_does_not_outlive_a_parent_that_is_killed(tmp_path: Path) -> None:
    package = tmp_path / "torch_mlir"
    (package / "_mlir_libs").mkdir(parents=True)
    (package / "__init__.py").write_text(
        "import os\n"
        f"with open({str(tmp_path / 'pid')!r}, 'w') as file: print(os.getpid(), file=file)\n"
        "sum(range(10**12))  # native code that does not end\n"
    )
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        f"import tosa_convert as tc; tc.load({TEXT.encode()!r}, isolate=True)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code])
    child = int(wait_for(tmp_path / "pid"))
    assert child != parent.pid
    parent.kill()
    parent.wait()
    assert ends(child)
