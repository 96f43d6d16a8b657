"""Runs of a program in FP64 whose results have the errors of implementations."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from tosa_convert.golden.accuracy.error_bounds import is_subnormal, parts_of
from tosa_convert.golden.accuracy.implementation_errors import Errors, errors_of, rounded
from tosa_convert.golden.accuracy.open_results import chooses_zeros, undefined_integers
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.graph.model import Block, Operator
from tosa_convert.records import dataclass, field
from tosa_convert.reference.block_scaled import Scaled, Value, plain
from tosa_convert.reference.call import integer_limits
from tosa_convert.reference.evaluate import Machine

#: Runs with errors.
RUNS: Final = 6
#: Of these, the first ones, in which the errors of functions have one sign in the whole program.
COHERENT: Final = 2
#: How many elements in a row differ in the errors of functions in the other runs.
_CODES: Final = 3 ** (RUNS - COHERENT)
#: The shares of what TOSA allows a function that the coherent runs err, in each batch in turn. Six
#: times the spread of the first one is more than all of it: this leaves room for errors of several
#: functions that add up. The others show results that jump in between.
_SHARES: Final = (0.8, 1.0, 0.9, 0.6, 0.3)
#: The least number that is certainly not 0.
_LEAST: Final = 5e-324


@dataclass(slots=True)
class ErringRun(Machine):
    """A run of the program with errors; number 0 has none.

    batch: another number means other random errors.
    is_alive: whether no error has moved an operand to where TOSA defines no result.
    """

    number: int = 0
    batch: int = 0
    random: np.random.Generator = field(default_factory=np.random.default_rng)
    is_alive: bool = True

    def compute(
        self, block: Block, operator: Operator, operands: Sequence[Value], where: str
    ) -> dict[str, Value]:
        results = self.without_errors(block, operator, operands, where)
        return self.with_errors(results, errors_of(block, operator, operands, results))

    def without_errors(
        self, block: Block, operator: Operator, operands: Sequence[Value], where: str
    ) -> dict[str, Value]:
        """Return results; NaN is cast to the least integer in run 1, and to the greatest in run 2.

        Of two zeros the larger one is 0 in run 1, and -0 in run 2.
        """
        results = Machine.compute(self, block, operator, operands, where)
        if 0 < self.number <= COHERENT:
            if chooses_zeros(block, operator, operands):
                (name,) = operator.outputs
                value, zero = plain(results[name]), 0.0 if self.number == 1 else -0.0
                results[name] = np.where(value == 0, np.array(zero, value.dtype), value)
            is_open = undefined_integers(block, operator, operands)
            if is_open is not None:
                (name,) = operator.outputs
                limit = integer_limits(block.tensors[name].dtype)[self.number - 1]
                value = plain(results[name])
                results[name] = np.where(is_open, np.array(limit).astype(value.dtype), value)
        return results

    def with_errors(
        self, results: Mapping[str, Value], errors: Mapping[str, Errors]
    ) -> dict[str, Value]:
        """Return results with random errors of at most this size; the exact run only stores them."""
        changed = dict(results)
        with np.errstate(all="ignore"):
            for name, error in errors.items():
                value = results[name]
                if self.number:
                    array = self._with_error(name, plain(value), error)
                elif error.stored is not None:
                    array = rounded(plain(value), error.stored)
                else:
                    continue
                changed[name] = value._replace(data=array) if isinstance(value, Scaled) else array
        return changed

    def as_read(self, values: Mapping[str, Value], small: Mapping[str, Array]) -> dict[str, Value]:
        """Return inputs and constants as this run reads them: two runs flush subnormal numbers.

        small: which these are, as `subnormal_numbers` finds them.
        """
        read = dict(values)
        if 0 < self.number <= COHERENT:
            for name, is_small in small.items():
                read[name] = self._flushed(plain(read[name]), is_small)
        return read

    def _with_error(self, name: str, exact: Array, error: Errors) -> Array:
        changed = np.empty(exact.shape)
        shares = self._shares(exact.shape)
        of_function = error.of_function
        share = self._shares_of_function(name, exact.shape) if of_function is not None else 0.0
        for part in parts_of(exact.shape):
            center, found = exact[part], changed[part]
            found[...] = shares[part]
            found *= error.of_rounding[part]
            if of_function is None:
                found += center
            else:
                down, up = (_where_finite(own[part], center, error.unit) for own in of_function)
                mine = share[part] if isinstance(share, np.ndarray) else np.asarray(share)
                erring = center + mine * np.where(mine < 0, down, up)
                # A result that errs by all its value is 0, which is not rounded.
                found *= np.fmin(1.0, np.abs(erring) / np.abs(center))
                found += erring
                # With the rounding: what TOSA allows is about the result, which may be an end such as 0.
                np.clip(found, center - down, center + up, out=found)
            size = np.abs(found)
            if size.min() >= max(error.least, _LEAST) and size.max() <= error.most:
                continue
            # The sum of an error and of -0 is 0.
            stays = ~np.isfinite(center) | ((center == 0) & (found == 0))
            found[stays] = center[stays]
            if error.stored is None and self.number <= COHERENT:
                found[...] = self._flushed(found, np.abs(found) < error.least)
            if error.stored is None and self.number == 1:
                overflows = np.abs(found) > error.most
                found[overflows] = np.copysign(np.inf, found[overflows])
        return changed if error.stored is None else rounded(changed, error.stored)

    def _shares_of_function(self, name: str, shape: tuple[int, ...]) -> Array | float:
        """Return which share of what TOSA allows a function this run errs.

        Run 1 is high everywhere, and run 2 low. In the others the share of an element
        is -1, 0 or 1: two elements of a row or a column have the same in all runs only if they are
        a multiple of _CODES apart, so that a difference of two, as in a softmax, errs in some run.
        """
        if self.number <= COHERENT:
            share = _SHARES[self.batch % len(_SHARES)]
            return share if self.number == 1 else -share
        seed = [zlib.crc32(name.encode()), self.batch]
        codes = np.random.default_rng(seed).permutation(_CODES)
        digits = codes // 3 ** (self.number - COHERENT - 1) % 3 - 1.0
        place = np.zeros(shape, np.intp)
        for axis, size in enumerate(shape):
            step = 4 ** (len(shape) - 1 - axis)  # no multiple of 3
            place += (np.arange(size) * step).reshape(-1, *[1] * (len(shape) - 1 - axis))
        found: Array = digits[place % _CODES] * (1 - self._shares(shape) ** 2 / 8)
        return found

    def _flushed(self, values: Array, is_small: Array) -> Array:
        """Return zeros in place of small values: of their sign in run 1, and without one in run 2."""
        return np.where(is_small, np.copysign(0.0, values) if self.number == 1 else 0.0, values)

    def _shares(self, shape: tuple[int, ...]) -> Array:
        """Return random numbers between -1 and 1."""
        count = math.prod(shape)
        # Numbers of 16 bits take a third of the time that those of FP32 take.
        drawn = self.random.bit_generator.random_raw(-(-count // 4))
        shares = np.asarray(drawn).view(np.int16)[:count].astype(np.float32)
        shares *= 2.0**-15
        return shares.reshape(shape)


def subnormal_numbers(block: Block, values: Mapping[str, Value]) -> dict[str, Array]:
    """Return which elements are subnormal, of the values that have any."""
    found = {}
    for name, value in values.items():
        tensor = block.tensors.get(name)
        if tensor is not None and not isinstance(value, Scaled):
            is_small = is_subnormal(value, tensor.dtype)
            if is_small.any():
                found[name] = is_small
    return found


def _where_finite(error: Array, exact: Array, unit: float) -> Array:
    """Return the error of a function; where it is NaN, one unit of what this run has."""
    is_nan = np.isnan(error)
    return np.where(is_nan, np.abs(exact) * unit, error) if is_nan.any() else error
