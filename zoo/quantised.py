"""Networks of the zoo, quantised by pt2e: `quantised.py:NETWORK_ROUTE` is a factory for `convert`.

The quantizer is the route's own: `lenet_executorch`, `lenet_litert_torch`. The ranges of values come
from seeded random inputs. Published networks have the name of their library before their own, as in
`timm_resnet18_executorch`, random weights, and images of 64x64.
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


def _executorch_quantizer() -> Any:
    from executorch.backends.arm.quantizer import TOSAQuantizer, get_symmetric_quantization_config
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec

    kind = get_symmetric_quantization_config()
    return TOSAQuantizer(TosaCompileSpec("TOSA-1.0+INT")).set_global(kind)


def _litert_torch_quantizer() -> Any:
    from litert_torch.quantize import pt2e_quantizer

    kind = pt2e_quantizer.get_symmetric_quantization_config(is_per_channel=True, is_dynamic=False)
    return pt2e_quantizer.PT2EQuantizer().set_global(kind)


QUANTIZERS: Final[dict[str, tuple[Callable[[], Any], dict[str, bool]]]] = {
    "executorch": (_executorch_quantizer, {}),
    "litert_torch": (_litert_torch_quantizer, {"fold_quantize": False}),
}


def quantised(module: Any, arguments: tuple[Any, ...], route: str) -> Any:
    """Return the module, quantised after training with the quantizer of a route."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    make, options = QUANTIZERS[route]
    exported = torch.export.export(module, arguments).module(check_guards=False)
    prepared = prepare_pt2e(exported, make())
    with torch.no_grad():
        for given in (*_random(arguments), arguments):
            prepared(*given)
    return convert_pt2e(prepared, **options)


def _random(arguments: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    for seed in range(CALIBRATIONS):
        torch.manual_seed(seed)
        yield tuple(torch.randn_like(one) if one.is_floating_point() else one for one in arguments)


def __getattr__(name: str) -> Callable[[], tuple[Any, tuple[Any, ...]]]:
    for route in QUANTIZERS:
        network = name.removesuffix(f"_{route}")
        if network != name:
            return lambda: _made(network, route)
    raise AttributeError(name)


def _made(network: str, route: str) -> tuple[Any, tuple[Any, ...]]:
    library, _, published = network.partition("_")
    if library in PUBLISHED:
        module, arguments = published_network(library, published)
        return quantised(module, arguments, route), arguments
    (factory,) = (make for _, name, make in networks(TORCH) if name == network)
    module, arguments, *_ = factory()
    return quantised(module, tuple(arguments), route), tuple(arguments)
