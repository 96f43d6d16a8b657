"""zoo/check_backends.py checks networks on a backend."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import check_backends
import pytest
from docs import zoo_tables

import tosa_convert as tc
from tosa_convert import golden


def test_each_network_has_its_model() -> None:
    for backend in ("torch", "jax"):
        names = {f"{backend}/{name}" for _, name, _ in zoo_tables.networks(backend)}
        assert check_backends.originals(backend, Path()).keys() == names
    assert not check_backends.originals("iree", Path())


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="needs an alarm of POSIX")
@pytest.mark.parametrize(("words", "status"), [("run {model}", "ok"), ("no", "backend-failed")])
def test_a_verdict_is_a_word(tmp_path: Path, words: str, status: str) -> None:
    program = tmp_path / "m.tosa"
    tc.save(golden.generate(seed=2, operators=3, kinds=["ABS"]), program)
    text = f"{sys.executable} -m tosa_convert {words} -i {{inputs}} -o {{outputs}}"
    assert check_backends.verdict(program, text, 60.0, edges=False)["status"] == status
