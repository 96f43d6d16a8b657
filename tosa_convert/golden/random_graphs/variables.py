"""Variables: declared with an initial state, read and written."""

from __future__ import annotations

from tosa_convert.golden.random_graphs.builder import (
    ELEMENT_TYPES,
    RandomBuilder,
    State,
    Tensor,
    rule,
)


def _declare(g: RandomBuilder, t: Tensor) -> State:
    """Declare a variable of a tensor's type with an initial state."""
    initial = g.random.randint(0, 1 if t.dtype == "BOOL" else 100)
    variable = g.build.variable(g.name("state"), t.dtype, t.shape, initial)
    g.states.append(State(variable, 100))
    return g.states[-1]


@rule("VARIABLE_READ")
def _read(g: RandomBuilder, name: str) -> None:
    # The order of a read and a write is not defined: a variable is read only before it is written.
    available = [state for state in g.states if not state.written]
    if available and g.random.random() < 0.5:
        state = g.random.choice(available)
    else:
        state = _declare(g, g.pick(ELEMENT_TYPES, range(7)))
    g.count_operator()
    g.record(g.build.read(state.variable), (), state.bound)


@rule("VARIABLE_WRITE")
def _write(g: RandomBuilder, name: str) -> None:
    t = g.pick(ELEMENT_TYPES)
    same = [
        state
        for state in g.states
        if not state.written
        and (state.variable.type.dtype.name, state.variable.type.shape) == (t.dtype, t.shape)
    ]
    state = g.random.choice(same) if same else _declare(g, t)
    state.written = True
    g.count_operator()
    g.record(g.build.write(state.variable, t.value), (t.value.name,), 0)
