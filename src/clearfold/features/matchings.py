"""Hosoya index: the number of matchings of a graph, the empty one included."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from clearfold.errors import InputError
from clearfold.features.points import Ints

MOST_OPEN = 20
"""Nodes that may be open at once while a graph is swept: there are up to 2^20 states then."""


def hosoya_index(n: int, edges: Iterable[tuple[int, int]]) -> int:
    """Z(G): number of sets of edges of which no two share a node (Hosoya 1971). Exact, a Python integer.

    Nodes are taken one after another. A state says which of the nodes that still wait for a neighbour are matched,
    and how often that state arises; a node with no neighbour left to come is forgotten and its states are added up.
    Work grows with 2^(most nodes waiting at once): a path (a Fibonacci number), a cycle (a Lucas number), a chessboard
    and any narrow graph are quick. A graph in which more than MOST_OPEN wait is refused before anything is counted.

    >>> [hosoya_index(n, [(i, i + 1) for i in range(n - 1)]) for n in range(1, 8)]
    [1, 2, 3, 5, 8, 13, 21]
    """
    neighbors = _neighbors(n, edges)
    steps, most = _plan(neighbors)
    if most > MOST_OPEN:
        raise InputError(
            f"the graph of {n} nodes is too dense to count its matchings: {most} nodes wait for a neighbour at once, "
            f"at most {MOST_OPEN} may. Cut it into pieces first."
        )
    states = {0: 1}
    for bit, others, done in steps:
        states = _take(states, bit, others)
        states = _forget(states, done) if done else states
    return sum(states.values())


def _plan(neighbors: list[set[int]]) -> tuple[list[tuple[int, list[int], int]], int]:
    """Each step (the node taken, those taken before that it may be matched with, those done), and most waiting at once.

    The next node is one that lets most others go, then the neighbour of the one that has waited longest.
    """
    left = [len(near) for near in neighbors]  # neighbours still to come
    since: dict[int, int] = {}  # when each waiting node was taken
    free = set(range(len(neighbors)))
    steps: list[tuple[int, list[int], int]] = []
    most = 0
    while free:
        front = {other for node in since for other in neighbors[node]} & free

        def rank(node: int) -> tuple[int, int, int, int]:
            before = [other for other in neighbors[node] if other in since]
            leaving = sum(left[other] == 1 for other in before) + (left[node] == 0)
            return -leaving, min((since[other] for other in before), default=0), left[node], node

        node = min(front or free, key=rank)
        free.remove(node)
        others = [other for other in neighbors[node] if other in since]
        since[node] = len(steps)
        for other in neighbors[node]:
            left[other] -= 1
        most = max(most, len(since))
        done = [other for other in (node, *others) if left[other] == 0]
        for other in done:
            del since[other]
        steps.append((1 << node, [1 << other for other in others], sum(1 << other for other in done)))
    return steps, most


def _take(states: dict[int, int], bit: int, others: list[int]) -> dict[int, int]:
    """The new node stays alone, or is matched with one of those that wait and are not matched yet."""
    grown = dict(states)
    for other in others:
        both = bit | other
        for state, count in states.items():
            if not state & other:
                grown[state | both] = grown.get(state | both, 0) + count
    return grown


def _forget(states: dict[int, int], done: int) -> dict[int, int]:
    """Whether nodes that are done were matched no longer matters."""
    kept: dict[int, int] = {}
    for state, count in states.items():
        state &= ~done
        kept[state] = kept.get(state, 0) + count
    return kept


def _neighbors(n: int, edges: Iterable[tuple[int, int]]) -> list[set[int]]:
    neighbors: list[set[int]] = [set() for _ in range(n)]
    for first, second in edges:
        if first != second:
            neighbors[first].add(second)
            neighbors[second].add(first)
    return neighbors


def hosoya_of_pieces(piece: Ints, edges: Ints) -> Ints:
    """Hosoya index of the subgraphs of many small pieces, for pieces of at most 24 nodes.

    piece : (n,) number of the piece of each node, 0, 1, ...; edges between pieces do not count
    Up to five nodes no three edges are disjoint: Z = 1 + m + m (m - 1) / 2 - sum over nodes of k (k - 1) / 2 for m
    edges and degrees k. Larger pieces are swept one by one.
    """
    n_pieces = int(piece.max()) + 1 if len(piece) else 0
    size = np.bincount(piece, minlength=n_pieces)
    edges = edges[piece[edges[:, 0]] == piece[edges[:, 1]]]
    of_edge = piece[edges[:, 0]]
    degree = np.bincount(edges.ravel(), minlength=len(piece))
    m = np.bincount(of_edge, minlength=n_pieces)
    stars = np.bincount(piece, degree * (degree - 1) // 2, minlength=n_pieces).astype(np.int64)
    index = 1 + m + m * (m - 1) // 2 - stars
    order = np.argsort(of_edge, kind="stable")
    begin = np.cumsum(m) - m
    rank = _rank_within(piece, size)
    for i in np.flatnonzero(size > 5):
        inside = rank[edges[order[begin[i] : begin[i] + m[i]]]]
        index[i] = hosoya_index(int(size[i]), inside.tolist())
    return index


def _rank_within(piece: Ints, size: Ints) -> Ints:
    """The number of each node within its piece."""
    order = np.argsort(piece, kind="stable")
    rank = np.empty(len(piece), np.int64)
    rank[order] = np.arange(len(piece)) - np.repeat(np.cumsum(size) - size, size)
    return rank
