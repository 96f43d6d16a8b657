"""Frozen GraphDefs that TensorFlow wrote compute what TensorFlow computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frontends.graph_defs.write_graph import FOLDER, image

import tosa_convert as tc
from tosa_convert.errors import TosaConvertError
from tosa_convert.frontends.table import recognize

FROZEN = FOLDER / "frozen.pb"


def test_a_graph_def_is_recognised() -> None:
    model = recognize(str(FROZEN))
    assert model is not None
    assert model.frontend == "tensorflow"
    with pytest.raises(TosaConvertError, match="a TensorFlow GraphDef"):
        tc.load(FROZEN)


@pytest.mark.slow
def test_a_graph_def_computes_what_tensorflow_computed(tmp_path: Path) -> None:
    tf: Any = pytest.importorskip("tensorflow", reason="tensorflow is not installed")
    graph = tc.frontends.from_file(FROZEN)
    assert graph.main.inputs == ["image"]
    (found,) = tc.golden.run(graph, {"image": image()}, engine="numpy").outputs.values()
    np.testing.assert_allclose(found, np.load(FOLDER / "frozen.npy"), rtol=1e-4, atol=1e-5)
    with tf.Graph().as_default() as other:
        tf.raw_ops.Neg(x=tf.raw_ops.VariableV2(shape=(2,), dtype=tf.float32), name="n")
        (tmp_path / "m.pb").write_bytes(other.as_graph_def().SerializeToString())
    with pytest.raises(TosaConvertError, match="not frozen"):
        tc.frontends.from_file(tmp_path / "m.pb")


def test_torch_script_is_refused_by_name() -> None:
    """torch 2.13 wrote the file: torch.jit.save of a traced ReLU."""
    with pytest.raises(
        TosaConvertError, match=r"a TorchScript program of torch\.jit\.save"
    ) as caught:
        tc.load(Path(__file__).with_name("scripted.pt"))
    assert "convert FILE.py:FUNCTION; or a .pt2 file of torch.export.save" in str(caught.value)
