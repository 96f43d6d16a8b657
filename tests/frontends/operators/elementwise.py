"""Elementwise operators of torch, each as a case of `suite --frontends torch`."""

from __future__ import annotations

import torch
from programs import Program, flags, floats, ints, of, positive, unit


def make_abs() -> Program:
    return of(torch.abs, floats(2, 3, 4))


def make_neg() -> Program:
    return of(torch.neg, floats(2, 3, 4))


def make_sign() -> Program:
    return of(torch.sign, floats(2, 3, 4))


def make_exp() -> Program:
    return of(torch.exp, floats(2, 3, 4))


def make_exp2() -> Program:
    return of(torch.exp2, floats(2, 3, 4))


def make_expm1() -> Program:
    return of(torch.expm1, floats(2, 3, 4))


def make_sin() -> Program:
    return of(torch.sin, floats(2, 3, 4))


def make_cos() -> Program:
    return of(torch.cos, floats(2, 3, 4))


def make_tan() -> Program:
    return of(torch.tan, floats(2, 3, 4))


def make_atan() -> Program:
    return of(torch.atan, floats(2, 3, 4))


def make_sinh() -> Program:
    return of(torch.sinh, floats(2, 3, 4))


def make_cosh() -> Program:
    return of(torch.cosh, floats(2, 3, 4))


def make_tanh() -> Program:
    return of(torch.tanh, floats(2, 3, 4))


def make_asinh() -> Program:
    return of(torch.asinh, floats(2, 3, 4))


def make_erf() -> Program:
    return of(torch.erf, floats(2, 3, 4))


def make_erfc() -> Program:
    return of(torch.erfc, floats(2, 3, 4))


def make_sigmoid() -> Program:
    return of(torch.sigmoid, floats(2, 3, 4))


def make_floor() -> Program:
    return of(torch.floor, floats(2, 3, 4))


def make_ceil() -> Program:
    return of(torch.ceil, floats(2, 3, 4))


def make_round() -> Program:
    return of(torch.round, floats(2, 3, 4))


def make_trunc() -> Program:
    return of(torch.trunc, floats(2, 3, 4))


def make_frac() -> Program:
    return of(torch.frac, floats(2, 3, 4))


def make_square() -> Program:
    return of(torch.square, floats(2, 3, 4))


def make_isnan() -> Program:
    return of(torch.isnan, floats(2, 3, 4))


def make_isinf() -> Program:
    return of(torch.isinf, floats(2, 3, 4))


def make_isfinite() -> Program:
    return of(torch.isfinite, floats(2, 3, 4))


def make_log() -> Program:
    return of(torch.log, positive(2, 3, 4))


def make_log2() -> Program:
    return of(torch.log2, positive(2, 3, 4))


def make_log10() -> Program:
    return of(torch.log10, positive(2, 3, 4))


def make_log1p() -> Program:
    return of(torch.log1p, positive(2, 3, 4))


def make_sqrt() -> Program:
    return of(torch.sqrt, positive(2, 3, 4))


def make_rsqrt() -> Program:
    return of(torch.rsqrt, positive(2, 3, 4))


def make_reciprocal() -> Program:
    return of(torch.reciprocal, positive(2, 3, 4))


def make_asin() -> Program:
    return of(torch.asin, unit(2, 3, 4) * 2 - 1)


def make_acos() -> Program:
    return of(torch.acos, unit(2, 3, 4) * 2 - 1)


def make_atanh() -> Program:
    return of(torch.atanh, unit(2, 3, 4) * 2 - 1)


def make_acosh() -> Program:
    return of(torch.acosh, positive(2, 3, 4) + 1)


def make_logit() -> Program:
    return of(torch.logit, unit(2, 3, 4))


def make_add() -> Program:
    return of(torch.add, floats(2, 3, 4), floats(3, 1, seed=1))


def make_sub() -> Program:
    return of(torch.sub, floats(2, 3, 4), floats(3, 1, seed=1))


def make_mul() -> Program:
    return of(torch.mul, floats(2, 3, 4), floats(3, 1, seed=1))


def make_div() -> Program:
    return of(torch.div, floats(2, 3, 4), floats(3, 1, seed=1))


def make_maximum() -> Program:
    return of(torch.maximum, floats(2, 3, 4), floats(3, 1, seed=1))


def make_minimum() -> Program:
    return of(torch.minimum, floats(2, 3, 4), floats(3, 1, seed=1))


def make_atan2() -> Program:
    return of(torch.atan2, floats(2, 3, 4), floats(3, 1, seed=1))


def make_fmod() -> Program:
    return of(torch.fmod, floats(2, 3, 4), floats(3, 1, seed=1))


def make_remainder() -> Program:
    return of(torch.remainder, floats(2, 3, 4), floats(3, 1, seed=1))


def make_max_and_min_of_two() -> Program:
    return of(lambda x, y: torch.max(x, y) - torch.min(x, y), floats(2, 3), floats(3, seed=1))


def make_fmax() -> Program:
    return of(torch.fmax, floats(2, 3, 4), floats(3, 1, seed=1))


def make_fmin() -> Program:
    return of(torch.fmin, floats(2, 3, 4), floats(3, 1, seed=1))


def make_hypot() -> Program:
    return of(torch.hypot, floats(2, 3, 4), floats(3, 1, seed=1))


def make_copysign() -> Program:
    return of(torch.copysign, floats(2, 3, 4), floats(3, 1, seed=1))


def make_logaddexp() -> Program:
    return of(torch.logaddexp, floats(2, 3, 4), floats(3, 1, seed=1))


def make_add_alpha() -> Program:
    return of(lambda x, y: torch.add(x, y, alpha=2.5), floats(2, 3), floats(2, 3, seed=1))


def make_rsub() -> Program:
    return of(lambda x: 1 - x, floats(2, 3))


def make_div_floor() -> Program:
    return of(
        lambda x, y: torch.div(x, y, rounding_mode="floor"), floats(2, 3), floats(2, 3, seed=1)
    )


def make_div_trunc() -> Program:
    return of(
        lambda x, y: torch.div(x, y, rounding_mode="trunc"), floats(2, 3), floats(2, 3, seed=1)
    )


def make_pow_square() -> Program:
    return of(lambda x: x**2, floats(2, 3))


def make_pow_cube() -> Program:
    return of(lambda x: x**3, floats(2, 3))


def make_pow_half() -> Program:
    return of(lambda x: x**0.5, positive(2, 3))


def make_pow_negative() -> Program:
    return of(lambda x: x**-2, positive(2, 3))


def make_pow_tensor() -> Program:
    return of(torch.pow, positive(2, 3), floats(2, 3))


def make_pow_base() -> Program:
    return of(lambda x: torch.pow(2.0, x), floats(2, 3))


def make_clamp() -> Program:
    return of(lambda x: torch.clamp(x, -0.5, 0.7), floats(2, 3))


def make_clamp_low() -> Program:
    return of(lambda x: torch.clamp(x, min=0.1), floats(2, 3))


def make_clamp_tensors() -> Program:
    return of(torch.clamp, floats(2, 3), floats(3, seed=1) - 1, floats(3, seed=2) + 1)


def make_lerp() -> Program:
    return of(lambda x, y: torch.lerp(x, y, 0.3), floats(2, 3), floats(2, 3, seed=1))


def make_addcmul() -> Program:
    return of(torch.addcmul, floats(2, 3), floats(2, 3, seed=1), floats(2, 3, seed=2))


def make_addcdiv() -> Program:
    return of(torch.addcdiv, floats(2, 3), floats(2, 3, seed=1), positive(2, 3, seed=2))


def make_where() -> Program:
    return of(lambda x, y: torch.where(x > y, x, y * 2), floats(2, 3), floats(2, 3, seed=1))


def make_where_scalar() -> Program:
    return of(lambda x: torch.where(x > 0, x, -1.0), floats(2, 3))


def make_nan_to_num() -> Program:
    return of(torch.nan_to_num, torch.tensor([float("nan"), float("inf"), -float("inf"), 1.5]))


def make_heaviside() -> Program:
    return of(torch.heaviside, floats(2, 3), floats(2, 3, seed=1))


def make_xlogy() -> Program:
    return of(torch.xlogy, floats(2, 3), positive(2, 3))


def make_eq() -> Program:
    return of(torch.eq, ints(2, 3), ints(2, 3, seed=1))


def make_ne() -> Program:
    return of(torch.ne, floats(2, 3), floats(3, seed=1))


def make_lt() -> Program:
    return of(torch.lt, floats(2, 3), floats(3, seed=1))


def make_le() -> Program:
    return of(torch.le, floats(2, 3), floats(3, seed=1))


def make_gt() -> Program:
    return of(torch.gt, floats(2, 3), floats(3, seed=1))


def make_ge() -> Program:
    return of(torch.ge, floats(2, 3), floats(3, seed=1))


def make_compare_number() -> Program:
    return of(_all_comparisons, torch.tensor([0.1, 0.3, -0.1]))


def make_compare_number_half() -> Program:
    return of(_all_comparisons, torch.tensor([0.1, 0.3, -0.1]).half())


def make_compare_number_int32() -> Program:
    return of(_all_comparisons, torch.tensor([0, 1, -1], dtype=torch.int32))


def _all_comparisons(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Compare with a number that FP32 rounds up and FP16 rounds down."""
    return x == 0.1, x != 0.1, x < 0.1, x <= 0.1, x > 0.1, x >= 0.1


def make_logical_and() -> Program:
    return of(torch.logical_and, flags(2, 3), flags(2, 3, seed=1))


def make_logical_or() -> Program:
    return of(torch.logical_or, flags(2, 3), flags(2, 3, seed=1))


def make_logical_xor() -> Program:
    return of(torch.logical_xor, flags(2, 3), flags(2, 3, seed=1))


def make_logical_not() -> Program:
    return of(torch.logical_not, flags(2, 3))


def make_fmod_number() -> Program:
    return of(lambda x: torch.fmod(x * 5, 0.7), floats(2, 3, 4))


def make_fmod_of_multiples() -> Program:
    """Divide 0.7 * 3 by 0.7: the quotient may round to 3 or to less."""
    return of(torch.fmod, ints(40).float() * 0.7, torch.tensor([0.7]))


def make_rrelu() -> Program:
    return of(torch.nn.RReLU(), floats(2, 3, 4))
