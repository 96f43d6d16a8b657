"""Networks of the zoo, quantised by pt2e: `quantised.py:NETWORK_executorch` is a factory for `convert`.

The quantizer is that of ExecuTorch. The ranges of values come from seeded random inputs. Published
networks have the name of their library before their own, as in `timm_resnet18_executorch`, random
weights, and images of 64x64.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import torch

sys.path.insert(0, str(Path(__file__).parent))
from networks import PUBLISHED, TORCH, networks, published_network

#: Random inputs from which the ranges of values are taken, beside the example.
CALIBRATIONS: Final = 4


def _quantizer() -> Any:
    from executorch.backends.arm.quantizer import TOSAQuantizer, get_symmetric_quantization_config
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec

    kind = get_symmetric_quantization_config()
    return TOSAQuantizer(TosaCompileSpec("TOSA-1.0+INT")).set_global(kind)


def quantised(module: Any, arguments: tuple[Any, ...]) -> Any:
    """Return the module, quantised after training."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    exported = torch.export.export(module, arguments).module(check_guards=False)
    prepared = prepare_pt2e(exported, _quantizer())
    with torch.no_grad():
        for given in (*_random(arguments), arguments):
            prepared(*given)
    return convert_pt2e(prepared)


def _random(arguments: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    for seed in range(CALIBRATIONS):
        torch.manual_seed(seed)
        yield tuple(torch.randn_like(one) if one.is_floating_point() else one for one in arguments)


def __getattr__(name: str) -> Callable[[], tuple[Any, tuple[Any, ...]]]:
    network = name.removesuffix("_executorch")
    if network != name:
        return lambda: _made(network)
    raise AttributeError(name)


def _made(network: str) -> tuple[Any, tuple[Any, ...]]:
    library, _, published = network.partition("_")
    if library in PUBLISHED:
        module, arguments = published_network(library, published)
        return quantised(module, arguments), arguments
    (factory,) = (make for _, name, make in networks(TORCH) if name == network)
    module, arguments, *_ = factory()
    return quantised(module, tuple(arguments)), tuple(arguments)
