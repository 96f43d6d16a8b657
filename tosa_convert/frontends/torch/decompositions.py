"""Choose what torch decomposes before its program is lowered: operators without a rule."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Final

import torch
from torch._decomp import decomposition_table

from tosa_convert.frontends.torch.table import complex_rule_of, rule_of

aten: Any = torch.ops.aten
#: Operators that torch decomposes into others that do not lower, either: they are named as they are.
_WITHOUT_GAIN: Final = (
    *(aten.i0, aten.special_i0e, aten.special_i1, aten.special_i1e, aten.special_zeta),
    *(aten.special_bessel_j0, aten.special_bessel_j1, aten.special_spherical_bessel_j0),
    *(aten.igamma, aten.igammac, aten.lgamma, aten.digamma),
    # Constants, which torch computes at once.
    *(aten.tril_indices, aten.triu_indices),
)
#: Operators that torch decomposes, although they have rules for some arguments.
_DECOMPOSED: Final = (aten.fill, aten.copy)
#: Operators whose shapes torch does not know: those of its first operand, twice.
_WITHOUT_SHAPES: Final = (
    "fake_quantize_per_tensor_affine_cachemask",
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
    "fake_quantize_per_channel_affine_cachemask",
)


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Return the table for `run_decompositions`, which can trace what has a rule."""
    for name in _WITHOUT_SHAPES:
        with contextlib.suppress(RuntimeError):  # It knows them by now.
            torch.library.register_fake(f"aten::{name}")(
                lambda x, *_: (torch.empty_like(x), torch.empty_like(x, dtype=torch.bool))
            )
    known = {**decomposition_table, **torch.export.default_decompositions()}
    return {
        operator: decomposition
        for operator, decomposition in known.items()
        if isinstance(operator, torch._ops.OpOverload)
        and operator.overloadpacket not in _WITHOUT_GAIN
        and (
            not (rule_of(operator) or complex_rule_of(operator))
            or operator.overloadpacket in _DECOMPOSED
        )
    }


def use_views_of_aten(program: Any) -> None:
    """Put torch's own views in place of those of `prims`, in place: torch refuses to decompose them."""
    prims = torch.ops.prims
    own = {prims.view_of.default: aten.alias.default, prims.squeeze.default: aten.squeeze.dims}
    for node in program.graph.nodes:
        if node.op == "call_function" and node.target in own:
            node.target = own[node.target]
            node.args, node.kwargs = (*node.args, *node.kwargs.values()), {}
    program.graph_module.recompile()
