"""TfIdfVectorizer: how often each of a list of n-grams occurs in a row of tokens."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import layout
from tosa_convert.frontends.lowering.conversion import converted
from tosa_convert.frontends.lowering.products import product
from tosa_convert.frontends.lowering.reductions import summed
from tosa_convert.frontends.lowering.scope import FLOAT32, Array, NotLowered, Scope, constant
from tosa_convert.frontends.onnx.node import Node, Rule


def _count_ngrams(n: Node) -> Array:
    """Compare every window of tokens with every n-gram, and add up the matches.

    Tokens of an n-gram are neighbours, or have up to `max_skip_count` others between any two.
    """
    if n.get("pool_strings"):
        raise NotLowered("its tokens are strings", "make them integers")
    s, x = n.scope, n.array(0)
    length = x.shape[-1]
    pool, outputs = np.array(n.get("pool_int64s")), np.array(n.get("ngram_indexes"))
    starts = [*n.get("ngram_counts"), len(pool)]
    least, most = int(n.get("min_gram_length")), int(n.get("max_gram_length"))
    rows = layout.reshape(s, x, (x.size // length, length, 1))
    counts: list[Array] = []
    places: list[int] = []
    seen = 0
    for size in range(1, len(starts)):
        grams = pool[starts[size - 1] : starts[size]].reshape(-1, size)
        own = outputs[seen : seen + len(grams)]
        seen += len(grams)
        # The gaps do not change an n-gram of one token: it is counted once.
        steps = range(1, 2 + int(n.get("max_skip_count")) if size > 1 else 2)
        fitting = [step for step in steps if (size - 1) * step < length]
        if len(grams) and fitting and least <= size <= most:
            total = _matches(s, rows, grams, fitting[0])
            for step in fitting[1:]:
                total = s.add(total, _matches(s, rows, grams, step))
            counts.append(total)
            places += own.tolist()
    if not counts:
        raise NotLowered("no n-gram of its sizes fits")
    matrix = np.zeros((len(places), int(outputs.max()) + 1), np.float32)
    matrix[np.arange(len(places)), places] = 1
    table = layout.reshape(s, layout.concatenate(s, counts, 1), (1, rows.shape[0], len(places)))
    result = _weighted(n, product(s, table, constant(matrix[None]), FLOAT32), outputs)
    return layout.reshape(s, result, (*x.shape[:-1], matrix.shape[1]))


def _weighted(n: Node, counts: Array, outputs: Any) -> Array:
    s, mode, weights = n.scope, n.get("mode"), n.get("weights")
    if mode == "IDF":
        counts = s.minimum(counts, 1)
    if mode == "TF" or not weights:
        return counts
    if outputs.tolist() != list(range(len(weights))):
        raise NotLowered(
            "ONNX orders its weights by n-gram, onnxruntime by column",
            "give the n-grams in the order of their columns",
        )
    return s.mul(counts, constant(np.array(weights, np.float32).reshape(1, 1, -1)))


def _matches(s: Scope, rows: Array, grams: Any, step: int) -> Array:
    """Count the windows whose tokens, `step` apart, are those of each n-gram: rows x n-grams."""
    length, size = rows.shape[1], grams.shape[1]
    same: Array | None = None
    for index in range(size):
        stop = length - (size - 1 - index) * step
        window = layout.part(s, rows, 1, index * step, stop)
        token = s.equal(window, constant(grams[:, index].astype(rows.dtype).reshape(1, 1, -1)))
        same = token if same is None else s.both(same, token)
    assert same is not None
    return summed(s, converted(s, same, FLOAT32), (1,))


RULES: Final[dict[str, Rule]] = {"TfIdfVectorizer": _count_ngrams}
