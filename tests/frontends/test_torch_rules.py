"""The rules of torch's operators give the numbers of torch: lowered in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

from frontends.torch_runs import assert_equal  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

_F: Final[Any] = torch.nn.functional
_ENDS: Final = (0.0, -0.0, 1.0, 2.5, -3.0, float("inf"), float("-inf"), float("nan"), 1e-30)


def _loop(count: Any, x: Any) -> Any:
    from torch._higher_order_ops.while_loop import while_loop

    def body(count: Any, x: Any) -> Any:
        return count + 1, torch.tanh(x * 1.5)

    return while_loop(lambda count, x: count < 5, body, (count, x))


def _scan(state: Any, rows: Any) -> Any:
    from torch._higher_order_ops.scan import scan

    return scan(lambda state, row: (state * 0.5 + row, (state * row).clone()), state, rows)


def _branch(x: Any) -> Any:
    return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() * 2, (x,))


def _ramp(*shape: int) -> Any:
    return torch.linspace(-1, 1, int(np.prod(shape))).reshape(shape)


def _put_apart(x: Any, first: Any, last: Any) -> Any:
    made = x.clone()
    made[first, :, last] = 7 * torch.ones(2, 4)
    return made


def _of_complex(x: Any, y: Any) -> Any:
    a = torch.complex(x, y)
    return (
        *(a.sgn().real, a.reciprocal().imag, (x / a).imag, (a * x + 2).real, a.mean(0).real),
        *(a.cumsum(1).imag, a.log().imag, a == a, torch.ones_like(a).imag + x),
    )


#: Function, its arguments, and operators that the program must have.
ROWS: Final[dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[str, ...]]]] = {
    "branch that is taken": (_branch, (torch.ones(3),), ("COND_IF",)),
    "branch that is not": (_branch, (-torch.ones(3),), ("COND_IF",)),
    "loop": (_loop, (torch.tensor(0), _ramp(2, 3)), ("WHILE_LOOP",)),
    "short scan": (_scan, (_ramp(3), _ramp(4, 3)), ("CONCAT",)),
    "long scan": (_scan, (_ramp(3), _ramp(900, 3)), ("WHILE_LOOP",)),
    "fractional powers": (
        lambda x: (x**0.75, x**-1.25, x**1.5, 2.5**x, x.sign()),
        (torch.tensor(_ENDS),),
        ("POW",),
    ),
    "positions of a pool": (
        lambda x: _F.max_pool2d(x, 3, 2, 1, ceil_mode=True, return_indices=True),
        (_ramp(1, 2, 7, 6).sin(),),
        (),
    ),
    "average with padding": (
        lambda x: _F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
        (_ramp(1, 2, 6, 7),),
        ("AVG_POOL2D", "PAD"),
    ),
    "diagonals": (
        lambda x: (x.diagonal(1), x.diagonal(-1), x.mT.diagonal(2, 1, 2)),
        (_ramp(4, 5, 6),),
        (),
    ),
    "strides": (lambda x: x.as_strided((3, 2), (1, 4), 2), (_ramp(4, 3),), ("GATHER",)),
    "windows": (lambda x: x.unfold(1, 3, 2), (_ramp(2, 8, 2),), ("GATHER",)),
    "transposed in three dimensions": (
        lambda x, w: _F.conv_transpose3d(x, w, stride=2, padding=1, output_padding=1),
        (_ramp(1, 2, 3, 2, 3), _ramp(2, 3, 3, 3, 2)),
        ("CONV3D",),
    ),
    "transposed with much padding": (
        lambda x, w: _F.conv_transpose2d(x, w, stride=2, padding=4),
        (_ramp(1, 2, 7, 7), _ramp(2, 3, 3, 3)),
        ("TRANSPOSE_CONV2D", "SLICE"),
    ),
    "steps between elements": (
        lambda x, y: torch.slice_scatter(x, y, 1, 1, 6, 2),
        (_ramp(2, 7), _ramp(2, 3)),
        ("CONCAT",),
    ),
    "the greatest integers so far": (
        lambda x: (x.cummax(1), x.int().cummin(0), x.median(1)[0], x.kthvalue(2, 0)[0]),
        (torch.tensor([[3, -7, 3, 9, 9], [0, 5, -2, 5, 4]]),),
        (),
    ),
    "nearest and linear of one and three axes": (
        lambda x: (
            _F.interpolate(x[0, 0], scale_factor=1.7, mode="nearest-exact"),
            _F.interpolate(x[0, 0], size=5, mode="linear"),
            _F.interpolate(x, size=(5, 4, 7), mode="trilinear", align_corners=True),
            _F.interpolate(x[0], size=(2, 11), mode="bicubic", antialias=True),
        ),
        (_ramp(1, 2, 4, 3, 5).sin(),),
        ("MATMUL",),
    ),
    "pools without a batch": (
        lambda x: (_F.max_pool2d(x, 2), _F.avg_pool2d(x, (1, 3), ceil_mode=True)),
        (_ramp(3, 6, 8).sin(),),
        ("MAX_POOL2D", "AVG_POOL2D"),
    ),
    "indices that are apart": (
        _put_apart,
        (_ramp(3, 4, 5), torch.tensor([0, 2]), torch.tensor([1, 1])),
        ("SCATTER",),
    ),
    "sums of integers that wrap around": (
        lambda x, y: (x + y, x - y, -x, x * y, x.abs()),
        (torch.tensor([2**31 - 1, -(2**31), 5]).int(), torch.tensor([1, -1, -(2**31)]).int()),
        (),
    ),
    "groups in three dimensions": (
        lambda x, w: _F.conv3d(x, w, groups=4, stride=(2, 1, 1), padding=1),
        (_ramp(2, 8, 4, 5, 6).sin(), _ramp(8, 2, 3, 2, 3)),
        ("DEPTHWISE_CONV2D",),
    ),
    "complex means, quotients and logarithms": (
        _of_complex,
        (_ramp(3, 4).sin() + 2, _ramp(3, 4).cos()),
        (),
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_numbers_and_operators(name: str) -> None:
    function, arguments, kinds = ROWS[name]
    graph = assert_equal(function, *arguments)
    found = {op.spec.name for _, block in graph.blocks() for op in block.operators}
    assert found >= set(kinds)


def test_weights_are_views_of_the_memory_of_torch() -> None:
    from tosa_convert.frontends.torch.rules.node import array_of

    for kind in (torch.float32, torch.bfloat16, torch.float8_e5m2, torch.int64):
        weight = torch.zeros(2, 3).to(kind)
        data = array_of(weight.mT).data
        assert data is not None
        assert data.shape == (3, 2)
        assert data.ctypes.data == weight.data_ptr()


def test_all_that_does_not_lower_is_named_with_its_line() -> None:
    from tosa_convert.frontends.torch.convert import lower_directly
    from tosa_convert.frontends.torch.refusals import NotLoweredError

    class Unlowered(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.special.i0(x) + torch.linalg.eigvalsh(x @ x.mT)

    program = torch.export.export(Unlowered(), (torch.ones(3, 3),))
    with pytest.raises(NotLoweredError) as caught:
        lower_directly(program, ())
    rows = caught.value.found
    assert [row.operator for row in rows] == ["aten.i0", "aten._linalg_eigh"]
    assert all("test_torch_rules.py:" in row.where for row in rows)
