"""Steps of optimizers (ai.onnx.preview.training), one group of tensors for each parameter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from tosa_convert.frontends.lowering.arithmetic import divided
from tosa_convert.frontends.lowering.conversion import converted
from tosa_convert.frontends.lowering.functions import power, sqrt
from tosa_convert.frontends.lowering.indexing import index32
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, constant
from tosa_convert.frontends.lowering.types import INT32
from tosa_convert.frontends.onnx.node import Node, Rule


class _Step(NamedTuple):
    """What the parameters of a step share. rate and steps: of rank 0, in floating point."""

    n: Node
    s: Scope
    rate: Array
    steps: Array

    def number(self, name: str) -> float:
        """Return an attribute, or its default by the operator's definition."""
        return float(self.n.get(name, 0.0))

    def later(self, value: Array, first: Array | float) -> Array:
        """Select `first` in step 0, else the value."""
        return self.s.select(self.s.greater(self.steps, 0), value, first)

    def regularized(self, x: Array, gradient: Array) -> Array:
        """Add the gradient of the L2 penalty."""
        penalty = self.number("norm_coefficient")
        return self.s.add(self.s.mul(x, penalty), gradient) if penalty else gradient

    def mixed(self, name: str, old: Array, new: Array) -> Array:
        """Return an exponential average, whose weight of the old value is an attribute."""
        s, weight = self.s, self.number(name)
        return s.add(s.mul(old, weight), s.mul(new, 1 - weight))


_Of = Callable[[_Step, Sequence[Array]], Sequence[Array]]


def _for_each_parameter(step: _Of, state: int) -> Rule:
    """Return the rule that applies a step to every parameter. state: tensors that each keeps."""

    def lower(n: Node) -> Sequence[Array]:
        parts = state + 2
        count, left = divmod(len(n.given) - 2, parts)
        if left:
            raise NotLowered("a parameter lacks its gradient or state")
        s, rate = n.scope, n.array(0)
        steps = n.array(1)
        steps = index32(s, steps) if steps.data is None else s.cast(steps, INT32)
        steps = converted(s, steps, rate.dtype)
        shared = _Step(n, s, rate, steps)
        made = [
            step(shared, [n.array(2 + part * count + index) for part in range(parts)])
            for index in range(count)
        ]
        return [row[part] for part in range(parts - 1) for row in made]

    return lower


def _adagrad(t: _Step, given: Sequence[Array]) -> Sequence[Array]:
    """Divide the gradient by the root of the sum of its squares; the rate decays."""
    s, (x, gradient, squares) = t.s, given
    gradient = t.regularized(x, gradient)
    squares = s.add(squares, s.mul(gradient, gradient))
    size = s.add(sqrt(s, squares), t.number("epsilon"))
    decay = s.add(s.mul(t.steps, t.number("decay_factor")), 1)
    change = divided(s, s.mul(divided(s, t.rate, decay), gradient), size)
    return [s.sub(x, change), squares]


def _adam(t: _Step, given: Sequence[Array]) -> Sequence[Array]:
    """Divide the average gradient by the root of its average square."""
    s, (x, gradient, average, squares) = t.s, given
    gradient = t.regularized(x, gradient)
    average = t.mixed("alpha", average, gradient)
    squares = t.mixed("beta", squares, s.mul(gradient, gradient))
    size = s.add(sqrt(s, squares), t.number("epsilon"))
    bases = [constant(t.rate.dtype.type(t.number(name))) for name in ("alpha", "beta")]
    left = [s.sub(1, power(s, base, t.steps)) for base in bases]
    rate = t.later(divided(s, s.mul(t.rate, sqrt(s, left[1])), left[0]), t.rate)
    new = s.sub(x, divided(s, s.mul(rate, average), size))
    after = t.number("norm_coefficient_post")
    return [s.mul(new, 1 - after) if after else new, average, squares]


def _momentum(t: _Step, given: Sequence[Array]) -> Sequence[Array]:
    """Move along a sum of gradients that fades; Nesterov's form looks one step ahead."""
    s, (x, gradient, sums) = t.s, given
    gradient = t.regularized(x, gradient)
    weight = t.later(constant(t.rate.dtype.type(t.number("beta"))), 1.0)
    faded = s.mul(sums, t.number("alpha"))
    sums = s.add(faded, s.mul(weight, gradient))
    change = sums
    if t.n.get("mode") == "nesterov":
        change = s.add(gradient, s.mul(sums, t.number("alpha")))
    return [s.sub(x, s.mul(t.rate, change)), sums]


RULES: Final[dict[str, Rule]] = {
    "Adagrad": _for_each_parameter(_adagrad, 1),
    "Adam": _for_each_parameter(_adam, 2),
    "Momentum": _for_each_parameter(_momentum, 1),
}
