"""Longest increasing subsequences: which elements of a sequence have kept their order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise


def in_order(values: Sequence[int], weights: Sequence[int]) -> list[bool]:
    """Find which elements belong to the heaviest increasing subsequence.

    Args:
        values: distinct numbers from 0 on, in any order.
        weights: of each element, above 0.

    Returns:
        For each element whether it is part of the subsequence.

    Example:
        >>> in_order([2, 0, 1], [1, 1, 1])
        [False, True, True]
        >>> in_order([2, 0, 1], [5, 1, 1])
        [True, False, False]
    """
    if all(one < other for one, other in pairwise(values)):
        return [True] * len(values)
    ranks = {value: rank for rank, value in enumerate(sorted(values))}
    # A Fenwick tree of the heaviest subsequence that ends with a value: its weight and last element.
    tree: list[tuple[int, int]] = [(0, -1)] * (len(values) + 1)
    before: list[int] = []
    for index, value in enumerate(values):
        best = (0, -1)
        slot = ranks[value]
        while slot > 0:
            if tree[slot][0] > best[0]:
                best = tree[slot]
            slot -= slot & -slot
        before.append(best[1])
        entry = (best[0] + weights[index], index)
        slot = ranks[value] + 1
        while slot < len(tree):
            if entry[0] > tree[slot][0]:
                tree[slot] = entry
            slot += slot & -slot
    chosen = [False] * len(values)
    index = max(tree, key=lambda entry: entry[0])[1]
    while index >= 0:
        chosen[index] = True
        index = before[index]
    return chosen
