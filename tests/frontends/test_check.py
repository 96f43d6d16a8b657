"""`convert --check`: the framework's outputs against those of the reference model."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tosa_convert.cli.main import run, verb

Model = Callable[[str], Path]
needs_runtime = pytest.mark.skipif(
    not any(map(importlib.util.find_spec, ("ai_edge_litert", "tensorflow"))),
    reason="neither ai-edge-litert nor tensorflow is installed",
)
NAMES = (
    "hello_world_float",
    "hello_world_int8",
    "micro_speech_quantized",
    "mobilenet_v2_quantized_1x3x224x224",
)


@needs_runtime
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", ["0", "7"])
def test_a_model_gives_what_tflite_gives(
    model: Model, name: str, seed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "m.tosa"
    words = [str(model(name)), "-o", str(target), "--check", "--random", seed]
    assert run(verb("convert"), words) == 0
    assert capsys.readouterr().out.startswith("ok   ")
    assert target.exists()


@needs_runtime
def test_given_inputs_set_dynamic_sizes(
    model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.arange(-128, 128, dtype=np.int8).reshape(256, 1))
    words = ["-i", f"dense_input={tmp_path / 'x.npy'}", "--check"]
    source = str(model("hello_world_int8"))
    assert run(verb("convert"), [source, "-o", str(tmp_path / "m.tosa"), *words]) == 0
    assert "int8[256, 1] [exact]: all 256 elements equal" in capsys.readouterr().out


@needs_runtime
@pytest.mark.parametrize("is_there", [False, True])
def test_a_refusal_after_the_verdict_says_that_nothing_was_written(
    model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str], is_there: bool
) -> None:
    target = tmp_path / "m.tosa"
    if is_there:
        target.write_bytes(b"old")
    words = ["--check", "--for", "vela:ethos-u55==5.2.0"]
    source = str(model("hello_world_int8"))
    assert run(verb("convert"), [source, "-o", str(target), *words]) == 4
    found = capsys.readouterr()
    assert found.out.startswith("ok   ")
    advice, last = found.err.splitlines()[-2:]
    assert advice.endswith("set them when you convert: --input-shape dense_input=1x1")
    older = "; the file there is an older one" if is_there else ""
    assert last.strip() == f"{target} was not written{older}"


@needs_runtime
def test_an_input_that_the_model_does_not_have_is_refused_with_those_that_it_has(
    model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "x.npz", x=np.zeros((1, 1960), np.int8))
    words = ["-o", str(tmp_path / "m.tosa"), "--check", "-i", str(tmp_path / "x.npz")]
    assert run(verb("convert"), [str(model("micro_speech_quantized")), *words]) == 2
    assert 'the inputs are: "Reshape_1"' in capsys.readouterr().err


def test_without_the_framework_nothing_is_written(
    model: Model, tmp_path: Path, program: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The program runs the converter in this Python, and fails for all else."""
    import sys

    python = program(
        "import os, sys\n"
        "if len(sys.argv) == 5 and sys.argv[4] != 'tflite' and 'tosa_convert' in sys.argv[3]:\n"
        f"    os.execv({sys.executable!r}, ['python', *sys.argv[1:]])\n"
        "print('no runtime', file=sys.stderr)\n"
        "raise SystemExit(3)"
    )
    target = tmp_path / "m.tosa"
    source = str(model("micro_speech_quantized"))
    words = [source, "-o", str(target), "--check", "--python", python]
    assert run(verb("convert"), words) == 2
    assert "missing-backend" in capsys.readouterr().err
    assert not target.exists()


def test_inputs_without_check_are_refused(
    model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = str(model("micro_speech_quantized"))
    words = [source, "-o", str(tmp_path / "m.tosa"), "--random", "1"]
    assert run(verb("convert"), words) == 2
    assert "are for --check" in capsys.readouterr().err


def test_several_models_are_not_checked(
    model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = [str(model(name)) for name in NAMES[:2]]
    assert run(verb("convert"), [*sources, "-o", str(tmp_path), "--check"]) == 2
    assert "`suite DIR --frontends tflite` checks many" in capsys.readouterr().err
