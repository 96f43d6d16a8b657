"""The networks of the zoo in JAX are equal to JAX; those with a state, over several calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frontends.jax_runs import agree, agree_in_turn
from frontends.zoo_runs import answer
from networks import FOLDER, JAX, networks

pytest.importorskip("flax", reason="flax is not installed")
pytestmark = pytest.mark.usefixtures("refmodel")

#: Network -> its file and its factory.
NETWORKS = {name: (family, make) for family, name, make in networks(JAX)}
#: Networks whose state a call changes.
STATES = {"gpt_step", "streaming_keywords"}


def case(name: str) -> Any:
    """Return a function and its example inputs."""
    _, make = NETWORKS[name]
    return make()


@pytest.mark.parametrize("name", sorted(NETWORKS.keys() - STATES))
def test_a_network_agrees(name: str) -> None:
    function, inputs = case(name)
    agree(function, *inputs, tolerance=1e-4)


@pytest.mark.parametrize("name", ["lenet", "streaming_keywords"])
def test_the_suite_says_that_a_network_is_equal(tmp_path: Path, name: str) -> None:
    family, _ = NETWORKS[name]
    row = answer(tmp_path, f"{FOLDER / family}.py:make_{name}", "jax")
    assert (row["status"], row["message"]) == ("pass", "")
    assert row["operators"] > 20


def test_a_stream_of_frames_agrees() -> None:
    """Eight calls: the first frames have left the state by then."""
    module, (frame,) = case("streaming_keywords")
    frames = np.random.default_rng(5).standard_normal((8, *frame.shape)).astype(np.float32)
    variables = agree_in_turn(module, frames)
    assert variables.keys() == {"average", "frames", "made"}
    for name, state in variables.items():
        np.testing.assert_allclose(state, np.asarray(getattr(module, name)[...]), atol=1e-5)
        assert np.abs(state).max() > 0.01


def test_a_decoder_agrees_token_by_token() -> None:
    module, _ = case("gpt_step")
    variables = agree_in_turn(module, np.array([5, 59, 0, 7, 7, 31], np.int32).reshape(6, 1, 1))
    assert variables["count"] == 6
    assert np.abs(variables["attention.1.cached_value"][:, :6]).min() > 0
    assert np.abs(variables["attention.1.cached_value"][:, 6:]).max() == 0
