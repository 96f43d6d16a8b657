"""Steps of optimizers (ai.onnx.preview.training), one group of tensors for each parameter."""

from __future__ import annotations

from collections.abc import Callable

from onnx import defs

from tosa_convert.frontends.onnx.decompositions.node import Decomposition
from tosa_convert.records import NamedTuple


class _Step(NamedTuple):
    """What the parameters of a step share. rate and steps: values of rank 0 of the type f32."""

    e: Decomposition
    rate: str
    steps: str

    def constant(self, name: str) -> str:
        """Return an attribute as a constant."""
        return self.e.like(self.number(name))

    def number(self, name: str) -> float:
        """Return an attribute, or its default by the operator's definition."""
        node = self.e.node
        schema = defs.get_schema(node.op_type, domain=node.domain).attributes[name]
        return float(self.e.attribute(name, schema.default_value.f))

    def later(self, value: str, first: str) -> str:
        """Select `first` in step 0, else the value."""
        e = self.e
        return e.op("Where", e.op("Greater", self.steps, e.like(0)), value, first)

    def regularized(self, x: str, gradient: str) -> str:
        """Add the gradient of the L2 penalty."""
        if not self.number("norm_coefficient"):
            return gradient
        e = self.e
        return e.op("Add", e.op("Mul", self.constant("norm_coefficient"), x), gradient)

    def mixed(self, name: str, old: str, new: str) -> str:
        """Return an exponential average, whose weight of the old value is an attribute."""
        e, weight = self.e, self.number(name)
        return e.op("Add", e.op("Mul", e.like(weight), old), e.op("Mul", e.like(1 - weight), new))


def _for_each_parameter(
    e: Decomposition, state: int, step: Callable[[_Step, list[str]], list[str]]
) -> None:
    """Apply a step to every parameter."""
    parts = state + 2
    count, left = divmod(len(e.inputs) - 2, parts)
    e.leave_if(bool(left), "a parameter lacks its gradient or state")
    shared = _Step(e, e.inputs[0], e.cast(e.inputs[1], e.type(0)))
    for index in range(count):
        given = [e.inputs[2 + part * count + index] for part in range(parts)]
        for part, name in enumerate(step(shared, given)):
            e.result(name, part * count + index)


def adagrad(e: Decomposition) -> None:
    """Divide the gradient by the root of the sum of its squares; the rate decays."""

    def step(s: _Step, given: list[str]) -> list[str]:
        x, gradient, squares = given
        gradient = s.regularized(x, gradient)
        squares = e.op("Add", squares, e.op("Mul", gradient, gradient))
        size = e.op("Add", e.op("Sqrt", squares), s.constant("epsilon"))
        decay = e.op("Add", e.like(1), e.op("Mul", s.steps, s.constant("decay_factor")))
        change = e.op("Div", e.op("Mul", e.op("Div", s.rate, decay), gradient), size)
        return [e.op("Sub", x, change), squares]

    _for_each_parameter(e, 1, step)


def adam(e: Decomposition) -> None:
    """Divide the average gradient by the root of its average square."""

    def step(s: _Step, given: list[str]) -> list[str]:
        x, gradient, average, squares = given
        gradient = s.regularized(x, gradient)
        average = s.mixed("alpha", average, gradient)
        squares = s.mixed("beta", squares, e.op("Mul", gradient, gradient))
        size = e.op("Add", e.op("Sqrt", squares), s.constant("epsilon"))
        left = [
            e.op("Sub", e.like(1), e.op("Pow", s.constant(name), s.steps))
            for name in ("alpha", "beta")
        ]
        rate = s.later(e.op("Div", e.op("Mul", s.rate, e.op("Sqrt", left[1])), left[0]), s.rate)
        new = e.op("Sub", x, e.op("Div", e.op("Mul", rate, average), size))
        if s.number("norm_coefficient_post"):
            new = e.op("Mul", e.like(1 - s.number("norm_coefficient_post")), new)
        return [new, average, squares]

    _for_each_parameter(e, 2, step)


def momentum(e: Decomposition) -> None:
    """Move along a sum of gradients that fades; Nesterov's form looks one step ahead."""

    def step(s: _Step, given: list[str]) -> list[str]:
        x, gradient, sums = given
        gradient = s.regularized(x, gradient)
        weight = s.later(s.constant("beta"), e.like(1))
        faded = e.op("Mul", s.constant("alpha"), sums)
        sums = e.op("Add", faded, e.op("Mul", weight, gradient))
        change = sums
        if e.attribute("mode") == "nesterov":
            change = e.op("Add", gradient, e.op("Mul", s.constant("alpha"), sums))
        return [e.op("Sub", x, e.op("Mul", s.rate, change)), sums]

    _for_each_parameter(e, 1, step)
