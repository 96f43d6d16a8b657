"""`chain` from models of torch and ONNX to their programs: places match operators, faults are named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from frontends.onnx_models import node, saved

import tosa_convert as tc
from tosa_convert import golden

SOURCE = """
import torch

class Net(torch.nn.Module):
    def __init__(self, factor=1.0):
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Conv2d(3, 4, 3)
        self.second = torch.nn.Conv2d(4, 4, 3)
        with torch.no_grad():
            self.second.weight *= factor

    def forward(self, image):
        hidden = torch.relu(self.first(image))
        hidden = torch.tanh(self.second(hidden))
        return hidden.mean((2, 3))


def right():
    return Net().eval(), (torch.zeros(1, 3, 8, 8),)


def wrong():
    return Net(1.01).eval(), (torch.zeros(1, 3, 8, 8),)
"""
IMAGE = np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype(np.float32)


def test_operators_of_torch_are_matched_by_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(SOURCE)
    graph = tc.frontends.from_file("net.py:right")
    found = golden.chain({"float": "net.py:right", "tosa": graph}, {"image": IMAGE})
    assert found.ok, found
    kinds = [row.operator.rpartition(" ")[2] for row in found.rows]
    assert [kind for kind in kinds if kind in ("CONV2D", "TANH")] == ["CONV2D", "CONV2D", "TANH"]
    found = golden.chain({"float": "net.py:wrong", "tosa": graph}, {"image": IMAGE})
    assert found.first is not None
    assert [row.split()[2] for row in found.first.operators] == ["CONV2D"]
    assert found.first.tensor == convolutions(graph)[1]
    changed = golden.chain({"float": "net.py:right", "other": "net.py:wrong"}, {"image": IMAGE})
    assert changed.first is not None
    assert changed.first.tensor == "conv2d_1"


def convolutions(graph: tc.Graph) -> list[str]:
    return [op.outputs[0] for op in graph.main.operators if op.spec.name == "CONV2D"]


@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_scales_of_a_qdq_model_explain_its_noise(tmp_path: Path, factor: float) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    weight = np.random.default_rng(1).normal(size=(8, 8)).astype(np.float32)

    def model(name: str, quantised: bool) -> str:
        x = "back" if quantised else "x"
        nodes = [
            node("QuantizeLinear", ["x", "scale", "zero"], ["integers"], name="quantise"),
            node("DequantizeLinear", ["integers", "other", "zero"], ["back"], name="dequantise"),
        ] * quantised
        nodes += [node("MatMul", [x, "w"], ["y"], name="product"), node("Tanh", ["y"], ["z"])]
        more = {
            "scale": np.float32(0.03),
            "other": np.float32(0.03 * factor),
            "zero": np.int8(0),
        }
        weights = {"w": weight, **(more if quantised else {})}
        return str(saved(tmp_path / name, nodes, {"x": (np.float32, [4, 8])}, ["z"], weights))

    plain, qdq = model("plain.onnx", quantised=False), model("qdq.onnx", quantised=True)
    graph = tc.frontends.from_file(qdq)
    x = np.random.default_rng(2).normal(size=(4, 8)).astype(np.float32)
    found = golden.chain({"float": plain, "qdq": qdq, "tosa": graph, "device": "numpy"}, {"x": x})
    assert [link.ok for link in found.links] == [factor == 1, True, True], found
    if found.first is not None:
        # The product of the program, which the models call y.
        assert found.first.tensor == "matmul"


DECODER = """
import torch

class Decoder(torch.nn.Module):
    def __init__(self, bits=0, wrong=1.0):
        super().__init__()
        torch.manual_seed(0)
        self.embed = torch.nn.Embedding(16, 8)
        self.out = torch.nn.Linear(8, 16, bias=False)
        self.register_buffer("cache", torch.zeros(6, 8))
        self.bits, self.wrong = bits, wrong

    def forward(self, token, position):
        state = self.embed(token) * self.wrong
        if self.bits:
            state = torch.round(state * self.bits) / self.bits
        self.cache.index_copy_(0, position, state)
        weights = torch.softmax(self.cache @ state[0], dim=0)
        return self.out((weights @ self.cache)[None])


def right():
    return Decoder().eval(), (torch.tensor([1]), torch.tensor([0]))


def wrong():
    return Decoder(wrong=1.1).eval(), (torch.tensor([1]), torch.tensor([0]))


def cached_in_few_bits():
    return Decoder(bits=4).eval(), (torch.tensor([1]), torch.tensor([0]))
"""


def test_a_decoder_with_a_cache_keeps_its_state_over_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    Path("decoder.py").write_text(DECODER)
    graph = tc.frontends.from_file("decoder.py:right", narrow="i64")
    tokens = np.array([1, 9, 4, 4, 2], np.int32)
    names = graph.main.inputs
    calls = [
        dict(zip(names, (tokens[k : k + 1], np.array([k], np.int32)), strict=True))
        for k in range(len(tokens))
    ]
    sources = {"float": "decoder.py:right", "tosa": graph, "device": "numpy"}
    found = golden.chain(sources, calls, calls=True, perplexity=names[0], engine="numpy")
    assert found.ok, found
    outputs = [row for row in found.rows if row.name.startswith(graph.main.outputs[0])]
    assert [row.cells["tosa"] is not None for row in outputs] == [True] * 5
    scope: dict[str, object] = {}
    exec(DECODER, scope)
    module, _ = scope["right"]()  # type: ignore[operator]
    with torch.no_grad():
        logits = [module(torch.tensor([t]), torch.tensor([k])) for k, t in enumerate(tokens)]
    surprise = torch.nn.functional.cross_entropy(
        torch.cat(logits[:-1]), torch.tensor(tokens[1:]).long()
    )
    assert found.perplexity["float"] == pytest.approx(float(surprise.exp()), rel=1e-5)
    assert found.perplexity["device"] == pytest.approx(found.perplexity["float"], rel=1e-4)
    # An error of the state grows over the calls.
    few = {"float": "decoder.py:right", "few": "decoder.py:cached_in_few_bits"}
    grown = golden.chain(few, calls, calls=True, perplexity=names[0])
    assert grown.perplexity["few"] != pytest.approx(grown.perplexity["float"], rel=1e-4)
    assert grown.first is not None
    assert grown.first.run == "call 0"
    found = golden.chain({"float": "decoder.py:wrong", "tosa": graph}, calls, calls=True)
    assert found.first is not None
    assert (found.first.run, found.first.after) == ("call 0", "tosa")
