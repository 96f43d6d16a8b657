"""Operators that move elements."""

from __future__ import annotations

from tosa_convert.golden.random_graphs.builder import (
    ELEMENT_TYPES,
    FLOATS,
    INTEGERS,
    RandomBuilder,
    Tensor,
    rule,
)


@rule("CONCAT")
def _concat(g: RandomBuilder, name: str) -> None:
    t = g.pick(ELEMENT_TYPES)
    axis = g.random.randrange(len(t.shape))
    other = g.random.choice([o for o in g.tensors if _can_follow(t, o, axis)])
    g.emit(name, [t, other], axis=axis, bound=max(t.bound, other.bound))


def _can_follow(t: Tensor, other: Tensor, axis: int) -> bool:
    """Return whether tensors differ at most in their size along an axis."""
    without = t.shape[:axis] + t.shape[axis + 1 :]
    return (
        other.dtype == t.dtype
        and len(other.shape) == len(t.shape)
        and other.shape[:axis] + other.shape[axis + 1 :] == without
    )


@rule("REVERSE")
def _reverse(g: RandomBuilder, name: str) -> None:
    t = g.pick(ELEMENT_TYPES)
    g.emit(name, t, axis=g.random.randrange(len(t.shape)), bound=t.bound)


@rule("TRANSPOSE")
def _transpose(g: RandomBuilder, name: str) -> None:
    t = g.pick(ELEMENT_TYPES)
    perms = list(range(len(t.shape)))
    g.random.shuffle(perms)
    g.emit(name, t, perms=tuple(perms), bound=t.bound)


@rule("RESHAPE")
def _reshape(g: RandomBuilder, name: str) -> None:
    t = g.pick(ELEMENT_TYPES)
    g.emit(name, t, g.shape(other_shape(g, t.count)), bound=t.bound)


@rule("TILE")
def _tile(g: RandomBuilder, name: str) -> None:
    t = g.pick(ELEMENT_TYPES)
    multiples = g.shape([g.random.choice((1, 1, 2)) for _ in t.shape])
    g.emit(name, t, multiples, bound=t.bound)


@rule("PAD")
def _pad(g: RandomBuilder, name: str) -> None:
    t = g.pick(ELEMENT_TYPES)
    pads = g.shape([g.random.randint(0, 2) for _ in range(2 * len(t.shape))])
    g.emit(name, t, pads, bound=t.bound)


@rule("SLICE")
def _slice(g: RandomBuilder, name: str) -> None:
    t = g.pick(ELEMENT_TYPES)
    start = [g.random.randrange(size) for size in t.shape]
    sizes = [g.random.randint(1, s - a) for s, a in zip(t.shape, start, strict=True)]
    g.emit(name, t, g.shape(start), g.shape(sizes), bound=t.bound)


def other_shape(g: RandomBuilder, count: int) -> tuple[int, ...]:
    """Sizes with this product."""
    shape = [count]
    for _ in range(g.random.randint(0, 3)):
        last = shape.pop()
        first = g.random.choice([d for d in range(1, last + 1) if last % d == 0])
        shape += [first, last // first]
    return tuple(shape)


@rule("GATHER", "SCATTER")
def _gather(g: RandomBuilder, name: str) -> None:
    t = g.pick((*FLOATS, *INTEGERS), (3,))
    n, k, c = t.shape
    w = g.random.randint(1, k)
    indices = tuple(tuple(g.random.sample(range(k), w)) for _ in range(n))
    if name == "GATHER":
        g.emit(name, t, indices, bound=t.bound)
    else:
        source = g.random_const(t.dtype, (n, w, c), 100)
        g.emit(name, t, indices, source, bound=max(t.bound, 100))
