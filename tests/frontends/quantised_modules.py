"""Modules of torch, and their forms that pt2e quantised, for the routes that make integers of them."""

from __future__ import annotations

import importlib.util

import pytest

#: A Python file of factories; quantizers are imported when they are asked for.
SOURCE = """
import torch
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

torch.manual_seed(0)
IMAGE, BIAS = torch.randn(1, 1, 8, 8), torch.rand(1, 4, 6, 6)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.conv = torch.nn.Conv2d(1, 4, 3)
        self.linear = torch.nn.Linear(144, 3)

    def forward(self, image, bias):
        y = torch.relu(self.conv(image) + bias)
        return {"b": self.linear(y.flatten(1)), "a": y}


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.ones(4))

    def forward(self, x):
        self.total.add_(x)
        return self.total * 2


class Mixed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.embedding = torch.nn.Embedding(10, 4)
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, ids):
        y = self.linear(self.embedding(ids))
        z = torch.linalg.det(y)
        return {"out": torch.relu(self.linear(y * z[:, None, None]))}


class Joined(torch.nn.Module):
    # Its convolution shares its scale with the input, whose zero point is not the least integer.

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.conv = torch.nn.Conv2d(1, 1, 3, padding=1)

    def forward(self, image):
        return torch.cat([torch.relu(self.conv(image)), image], 1)


def net():
    return Net().eval(), (), {"bias": BIAS, "image": IMAGE}


def counter():
    return Counter().eval(), (torch.ones(4),)


def mixed():
    return Mixed().eval(), ((torch.arange(32) % 10).reshape(2, 4, 4),)


def joined():
    return Joined().eval(), (), {"image": IMAGE}


def executorch_net(model=net):
    from executorch.backends.arm.quantizer import TOSAQuantizer, get_symmetric_quantization_config
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec

    kind = get_symmetric_quantization_config()
    quantizer = TOSAQuantizer(TosaCompileSpec("TOSA-1.0+INT")).set_global(kind)
    module, arguments, keywords = model()
    exported = torch.export.export(module, arguments, keywords).module(check_guards=False)
    prepared = prepare_pt2e(exported, quantizer)
    for seed in range(4):
        torch.manual_seed(seed)
        given = {"bias": torch.rand_like(BIAS), "image": torch.randn_like(IMAGE)}
        prepared(**{name: given[name] for name in keywords})
    return convert_pt2e(prepared), arguments, keywords


def executorch_joined():
    return executorch_net(joined)
"""


def needs_packages(*packages: str) -> pytest.MarkDecorator:
    """Skips the tests of a route whose packages are not installed."""
    absent = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(absent), reason=f"not installed: {', '.join(absent)}")
