"""TfIdfVectorizer: how often each of a list of n-grams occurs in a row of tokens."""

from __future__ import annotations

import numpy as np

from tosa_convert.frontends.onnx.decompositions.node import Decomposition, RefusedError


def count_ngrams(e: Decomposition) -> None:
    """Compare every window of tokens with every n-gram, and add up the matches.

    Tokens of an n-gram are neighbours, or have up to `max_skip_count` others between any two.
    """
    e.leave_if(e.attribute("pool_strings") is not None, "its tokens are strings")
    shape = e.shape(0)
    length = shape[-1]
    pool = np.array(e.attribute("pool_int64s"))
    outputs = np.array(e.attribute("ngram_indexes"))
    starts = [*e.attribute("ngram_counts"), len(pool)]
    least, most = int(e.attribute("min_gram_length")), int(e.attribute("max_gram_length"))
    rows = e.reshape(e.inputs[0], [-1, length, 1])
    counts, places, seen = [], [], 0
    for size in range(1, len(starts)):
        grams = pool[starts[size - 1] : starts[size]].reshape(-1, size)
        own = outputs[seen : seen + len(grams)]
        seen += len(grams)
        if not len(grams):
            continue
        # The gaps do not change an n-gram of one token: it is counted once.
        steps = range(1, 2 + int(e.attribute("max_skip_count")) if size > 1 else 2)
        found = [_matches(e, rows, grams, step) for step in steps if (size - 1) * step < length]
        if found and least <= size <= most:
            counts.append(_sum(e, found))
            places += own.tolist()
    e.leave_if(not counts, "no n-gram of its sizes fits")
    matrix = np.zeros((len(places), int(outputs.max()) + 1), np.float32)
    matrix[np.arange(len(places)), places] = 1
    table = e.op("Concat", *counts, axis=1) if len(counts) > 1 else counts[0]
    result = e.op("MatMul", table, e.constant(matrix))
    mode, weights = e.attribute("mode"), e.attribute("weights")
    if mode == "IDF":
        result = e.op("Min", result, e.constant(1, np.float32))
    if mode != "TF" and weights is not None:
        if outputs.tolist() != list(range(len(weights))):
            raise RefusedError("ONNX orders its weights by n-gram, onnxruntime by column")
        result = e.op("Mul", result, e.constant(weights, np.float32))
    e.result(e.reshape(result, [*shape[:-1], matrix.shape[1]]))


def _matches(e: Decomposition, rows: str, grams: np.ndarray, step: int) -> str:  # type: ignore[type-arg]
    """Count the windows whose tokens, `step` apart, are those of each n-gram: rows x n-grams, f32."""
    length, size = e.shape(0)[-1], grams.shape[1]
    same = ""
    for index in range(size):
        window = e.slice(rows, 1, index * step, length - (size - 1 - index) * step)
        token = e.op("Equal", window, e.like(grams[:, index].reshape(1, 1, -1)))
        same = e.op("And", same, token) if same else token
    return e.reduce("ReduceSum", e.cast(same, 1), [1], keepdims=0)


def _sum(e: Decomposition, parts: list[str]) -> str:
    total = parts[0]
    for part in parts[1:]:
        total = e.op("Add", total, part)
    return total
