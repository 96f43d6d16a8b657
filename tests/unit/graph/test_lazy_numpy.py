"""numpy is imported in a thread of its own, when it is first used."""

from __future__ import annotations

import sys
import threading
import time

import numpy as np
import pytest

from tosa_convert.graph import lazy_numpy


def test_the_import_is_over_when_the_call_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def imported() -> None:
        time.sleep(0.01)
        threads.append(threading.current_thread())

    monkeypatch.setattr(lazy_numpy, "_import", imported)
    lazy_numpy.import_numpy()
    assert threads == [], "it has been imported"
    monkeypatch.delitem(sys.modules, "numpy")
    lazy_numpy.import_numpy()
    assert [thread is threading.main_thread() for thread in threads] == [False]
    assert threads[0].daemon


def test_the_first_use_brings_all_names() -> None:
    module = lazy_numpy._LazyModule("numpy")
    assert "zeros" not in vars(module)
    assert module.zeros is np.zeros
    assert vars(module)["ones"] is np.ones
    assert "__file__" not in vars(module)
    with pytest.raises(AttributeError):
        _ = module.no_such_name
