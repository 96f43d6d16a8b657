"""Splits the nodes of a graph in two so that the edges from one side to the other cost least."""

from __future__ import annotations

from typing import Final

#: The cost of an edge that no cut crosses.
NEVER: Final = 1 << 40


class MinimumCut:
    """A directed graph whose nodes are numbers: those of `new_node`, `LEFT` and `RIGHT`.

    Example:
        >>> cut = MinimumCut()
        >>> a, b = cut.new_node(), cut.new_node()
        >>> cut.add_edge(cut.LEFT, a, 3)
        >>> cut.add_edge(a, b, 1)
        >>> cut.add_edge(b, cut.RIGHT, 2)
        >>> cut.solve(), sorted(cut.right_side())
        (1, [1, 3])
    """

    LEFT: Final = 0
    RIGHT: Final = 1

    def __init__(self) -> None:
        self._edges_of: list[list[int]] = [[], []]
        #: By edge: where it leads, and what may still flow. The opposite of edge e is e ^ 1.
        self._ends: list[int] = []
        self._left: list[int] = []

    def new_node(self) -> int:
        """Add a node."""
        self._edges_of.append([])
        return len(self._edges_of) - 1

    def add_edge(self, start: int, end: int, cost: int) -> None:
        """Add an edge that costs something if its start is on the left side and its end on the right."""
        for node, other, capacity in ((start, end, cost), (end, start, 0)):
            self._edges_of[node].append(len(self._ends))
            self._ends.append(other)
            self._left.append(capacity)

    def solve(self) -> int:
        """Find the cheapest cut, as the largest flow (Dinic's algorithm); return its cost."""
        total = 0
        while True:
            levels = self._levels(self.LEFT, backwards=False)
            if levels[self.RIGHT] < 0:
                return total
            total += self._blocking_flow(levels)

    def right_side(self) -> set[int]:
        """Return the nodes that every cheapest cut has on the right side, after `solve`."""
        levels = self._levels(self.RIGHT, backwards=True)
        return {node for node, level in enumerate(levels) if level >= 0}

    def _levels(self, root: int, *, backwards: bool) -> list[int]:
        """Return the distance of each node over edges that are not full from the root; else -1."""
        levels = [-1] * len(self._edges_of)
        levels[root] = 0
        reached = [root]
        for node in reached:
            for edge in self._edges_of[node]:
                end = self._ends[edge]
                if levels[end] < 0 and self._left[edge ^ backwards]:
                    levels[end] = levels[node] + 1
                    reached.append(end)
        return levels

    def _blocking_flow(self, levels: list[int]) -> int:
        """Fill shortest paths until none is left; return how much flows through them."""
        total = 0
        following = [0] * len(levels)
        path: list[int] = []
        node = self.LEFT
        while True:
            if node == self.RIGHT:
                amount = min(self._left[edge] for edge in path)
                for edge in path:
                    self._left[edge] -= amount
                    self._left[edge ^ 1] += amount
                total += amount
                path.clear()
                node = self.LEFT
                continue
            edges = self._edges_of[node]
            while following[node] < len(edges):
                edge = edges[following[node]]
                if self._left[edge] and levels[self._ends[edge]] == levels[node] + 1:
                    break
                following[node] += 1
            else:
                if not path:
                    return total
                back = path.pop()
                node = self._ends[back ^ 1]
                following[node] += 1
                continue
            path.append(edge)
            node = self._ends[edge]
