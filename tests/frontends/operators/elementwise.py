"""Elementwise operators of torch, each as a case of `suite --frontends torch`."""

from __future__ import annotations

from functools import partial

import torch
from programs import Program, flags, floats, ints, of, positive, unit


def _all_comparisons(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Compare with a number that FP32 rounds up and FP16 rounds down."""
    return x == 0.1, x != 0.1, x < 0.1, x <= 0.1, x > 0.1, x >= 0.1


make_abs = partial(of, torch.abs, floats(2, 3, 4))
make_neg = partial(of, torch.neg, floats(2, 3, 4))
make_sign = partial(of, torch.sign, floats(2, 3, 4))
make_exp = partial(of, torch.exp, floats(2, 3, 4))
make_exp2 = partial(of, torch.exp2, floats(2, 3, 4))
make_expm1 = partial(of, torch.expm1, floats(2, 3, 4))
make_sin = partial(of, torch.sin, floats(2, 3, 4))
make_cos = partial(of, torch.cos, floats(2, 3, 4))
make_tan = partial(of, torch.tan, floats(2, 3, 4))
make_atan = partial(of, torch.atan, floats(2, 3, 4))
make_sinh = partial(of, torch.sinh, floats(2, 3, 4))
make_cosh = partial(of, torch.cosh, floats(2, 3, 4))
make_tanh = partial(of, torch.tanh, floats(2, 3, 4))
make_asinh = partial(of, torch.asinh, floats(2, 3, 4))
make_erf = partial(of, torch.erf, floats(2, 3, 4))
make_erfc = partial(of, torch.erfc, floats(2, 3, 4))
make_sigmoid = partial(of, torch.sigmoid, floats(2, 3, 4))
make_floor = partial(of, torch.floor, floats(2, 3, 4))
make_ceil = partial(of, torch.ceil, floats(2, 3, 4))
make_round = partial(of, torch.round, floats(2, 3, 4))
make_trunc = partial(of, torch.trunc, floats(2, 3, 4))
make_frac = partial(of, torch.frac, floats(2, 3, 4))
make_square = partial(of, torch.square, floats(2, 3, 4))
make_isnan = partial(of, torch.isnan, floats(2, 3, 4))
make_isinf = partial(of, torch.isinf, floats(2, 3, 4))
make_isfinite = partial(of, torch.isfinite, floats(2, 3, 4))
make_log = partial(of, torch.log, positive(2, 3, 4))
make_log2 = partial(of, torch.log2, positive(2, 3, 4))
make_log10 = partial(of, torch.log10, positive(2, 3, 4))
make_log1p = partial(of, torch.log1p, positive(2, 3, 4))
make_sqrt = partial(of, torch.sqrt, positive(2, 3, 4))
make_rsqrt = partial(of, torch.rsqrt, positive(2, 3, 4))
make_reciprocal = partial(of, torch.reciprocal, positive(2, 3, 4))
make_asin = partial(of, torch.asin, unit(2, 3, 4) * 2 - 1)
make_acos = partial(of, torch.acos, unit(2, 3, 4) * 2 - 1)
make_atanh = partial(of, torch.atanh, unit(2, 3, 4) * 2 - 1)
make_acosh = partial(of, torch.acosh, positive(2, 3, 4) + 1)
make_logit = partial(of, torch.logit, unit(2, 3, 4))
make_add = partial(of, torch.add, floats(2, 3, 4), floats(3, 1, seed=1))
make_sub = partial(of, torch.sub, floats(2, 3, 4), floats(3, 1, seed=1))
make_mul = partial(of, torch.mul, floats(2, 3, 4), floats(3, 1, seed=1))
make_div = partial(of, torch.div, floats(2, 3, 4), floats(3, 1, seed=1))
make_maximum = partial(of, torch.maximum, floats(2, 3, 4), floats(3, 1, seed=1))
make_minimum = partial(of, torch.minimum, floats(2, 3, 4), floats(3, 1, seed=1))
make_atan2 = partial(of, torch.atan2, floats(2, 3, 4), floats(3, 1, seed=1))
make_fmod = partial(of, torch.fmod, floats(2, 3, 4), floats(3, 1, seed=1))
make_remainder = partial(of, torch.remainder, floats(2, 3, 4), floats(3, 1, seed=1))
make_max_and_min_of_two = partial(
    of, lambda x, y: torch.max(x, y) - torch.min(x, y), floats(2, 3), floats(3, seed=1)
)
make_fmax = partial(of, torch.fmax, floats(2, 3, 4), floats(3, 1, seed=1))
make_fmin = partial(of, torch.fmin, floats(2, 3, 4), floats(3, 1, seed=1))
make_hypot = partial(of, torch.hypot, floats(2, 3, 4), floats(3, 1, seed=1))
make_copysign = partial(of, torch.copysign, floats(2, 3, 4), floats(3, 1, seed=1))
make_logaddexp = partial(of, torch.logaddexp, floats(2, 3, 4), floats(3, 1, seed=1))
make_add_alpha = partial(
    of, lambda x, y: torch.add(x, y, alpha=2.5), floats(2, 3), floats(2, 3, seed=1)
)
make_rsub = partial(of, lambda x: 1 - x, floats(2, 3))
make_div_floor = partial(
    of, lambda x, y: torch.div(x, y, rounding_mode="floor"), floats(2, 3), floats(2, 3, seed=1)
)
make_div_trunc = partial(
    of, lambda x, y: torch.div(x, y, rounding_mode="trunc"), floats(2, 3), floats(2, 3, seed=1)
)
make_pow_square = partial(of, lambda x: x**2, floats(2, 3))
make_pow_cube = partial(of, lambda x: x**3, floats(2, 3))
make_pow_half = partial(of, lambda x: x**0.5, positive(2, 3))
make_pow_negative = partial(of, lambda x: x**-2, positive(2, 3))
make_pow_tensor = partial(of, torch.pow, positive(2, 3), floats(2, 3))
make_pow_base = partial(of, lambda x: torch.pow(2.0, x), floats(2, 3))
make_clamp = partial(of, lambda x: torch.clamp(x, -0.5, 0.7), floats(2, 3))
make_clamp_low = partial(of, lambda x: torch.clamp(x, min=0.1), floats(2, 3))
make_clamp_tensors = partial(
    of, torch.clamp, floats(2, 3), floats(3, seed=1) - 1, floats(3, seed=2) + 1
)
make_lerp = partial(of, lambda x, y: torch.lerp(x, y, 0.3), floats(2, 3), floats(2, 3, seed=1))
make_addcmul = partial(of, torch.addcmul, floats(2, 3), floats(2, 3, seed=1), floats(2, 3, seed=2))
make_addcdiv = partial(
    of, torch.addcdiv, floats(2, 3), floats(2, 3, seed=1), positive(2, 3, seed=2)
)
make_where = partial(
    of, lambda x, y: torch.where(x > y, x, y * 2), floats(2, 3), floats(2, 3, seed=1)
)
make_where_scalar = partial(of, lambda x: torch.where(x > 0, x, -1.0), floats(2, 3))
make_nan_to_num = partial(
    of, torch.nan_to_num, torch.tensor([float("nan"), float("inf"), -float("inf"), 1.5])
)
make_heaviside = partial(of, torch.heaviside, floats(2, 3), floats(2, 3, seed=1))
make_xlogy = partial(of, torch.xlogy, floats(2, 3), positive(2, 3))
make_eq = partial(of, torch.eq, ints(2, 3), ints(2, 3, seed=1))
make_ne = partial(of, torch.ne, floats(2, 3), floats(3, seed=1))
make_lt = partial(of, torch.lt, floats(2, 3), floats(3, seed=1))
make_le = partial(of, torch.le, floats(2, 3), floats(3, seed=1))
make_gt = partial(of, torch.gt, floats(2, 3), floats(3, seed=1))
make_ge = partial(of, torch.ge, floats(2, 3), floats(3, seed=1))
make_compare_number = partial(of, _all_comparisons, torch.tensor([0.1, 0.3, -0.1]))
make_compare_number_half = partial(of, _all_comparisons, torch.tensor([0.1, 0.3, -0.1]).half())
make_compare_number_int32 = partial(
    of, _all_comparisons, torch.tensor([0, 1, -1], dtype=torch.int32)
)


make_logical_and = partial(of, torch.logical_and, flags(2, 3), flags(2, 3, seed=1))
make_logical_or = partial(of, torch.logical_or, flags(2, 3), flags(2, 3, seed=1))
make_logical_xor = partial(of, torch.logical_xor, flags(2, 3), flags(2, 3, seed=1))
make_logical_not = partial(of, torch.logical_not, flags(2, 3))
make_fmod_number = partial(of, lambda x: torch.fmod(x * 5, 0.7), floats(2, 3, 4))


def make_fmod_of_multiples() -> Program:
    """Divide 0.7 * 3 by 0.7: the quotient may round to 3 or to less."""
    return of(torch.fmod, ints(40).float() * 0.7, torch.tensor([0.7]))


make_rrelu = partial(of, torch.nn.RReLU(), floats(2, 3, 4))
