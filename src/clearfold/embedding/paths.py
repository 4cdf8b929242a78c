"""Lengths of shortest paths between all vertices of a neighbour graph.

Machine code relaxes many sources together: for one edge, the tentative lengths from all sources of a block are raised
and compared by vector instructions. Vertices are visited to and fro in an order that keeps neighbours together, those
again whose neighbours improved, until nothing does. What remains is the smallest sum over all paths, each summed from
its source on, which is what Dijkstra's algorithm gives, to the last bit: rounded sums grow with their terms.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from clearfold.compiled import compiled
from clearfold.embedding.distances import Indices
from clearfold.embedding.spectral import Matrix

Numbers: TypeAlias = NDArray[np.uint32]

SOURCES = 64
"""Sources that are relaxed together."""
EDGES = 4
"""Edges that are relaxed together: rows of the graph are filled up to a multiple of it."""
COMPILED_FROM = 1000
"""Below this number of vertices scipy is done before numba would be imported."""
JOINED_FROM = 32
"""Below this number of new samples nothing compiled is needed."""


def shortest_paths(graph: sparse.csr_array) -> Matrix:
    """n x n lengths of shortest paths over a symmetric graph, infinite between its parts; stored zeros are edges."""
    relax = compiled(relaxed) if graph.shape[0] >= COMPILED_FROM else None
    if relax is None:
        lengths: Matrix = csgraph.shortest_path(graph, method="D", directed=True)
        return lengths
    return blockwise(graph, relax)


def blockwise(graph: sparse.csr_array, relax: Any) -> Matrix:
    """`shortest_paths` by the kernel `relaxed`, plain or compiled."""
    size = graph.shape[0]
    order = csgraph.reverse_cuthill_mckee(graph, symmetric_mode=True)
    place = np.empty(size, dtype=np.uint32)
    place[order] = np.arange(size, dtype=np.uint32)
    lengths = np.empty((size, size))
    relax(*_rows(graph, order, place), order.astype(np.uint32), place, lengths)
    return lengths


def squares_through(geodesics: Matrix, near: Indices, steps: Matrix) -> Matrix:
    """-1/2 of the squared lengths of the shortest paths of new samples over their nearest fitted ones.

    near, steps : for each new sample (row) some fitted samples and the distances to them
    """
    squares = np.empty((len(near), len(geodesics)))
    join = compiled(joined) if len(near) >= JOINED_FROM and len(geodesics) >= COMPILED_FROM else None
    if join is not None:
        join(geodesics, near, steps, squares)
        return squares
    other = np.empty(len(geodesics))
    for path, nearest, lengths in zip(squares, near, steps, strict=True):
        np.add(geodesics[nearest[0]], lengths[0], out=path)
        for first, length in zip(nearest[1:], lengths[1:], strict=True):
            np.add(geodesics[first], length, out=other)
            np.minimum(path, other, out=path)
    np.square(squares, out=squares)
    squares *= -0.5
    return squares


def _rows(graph: sparse.csr_array, order: NDArray[np.int32], place: Numbers) -> tuple[Numbers, Numbers, Matrix]:
    """Rows of the graph in a new order: where each starts, other ends and lengths of its edges.

    Rows are filled up with edges of length 0 from a vertex to itself, which change nothing.
    """
    degrees = np.diff(graph.indptr)[order].astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(-(-degrees // EDGES) * EDGES)])
    ends = np.repeat(np.arange(len(order), dtype=np.uint32), np.diff(starts))
    lengths = np.zeros(len(ends))
    inside = np.arange(degrees.sum()) - np.repeat(np.cumsum(degrees) - degrees, degrees)
    here = np.repeat(starts[:-1], degrees) + inside
    there = np.repeat(graph.indptr[:-1][order], degrees) + inside
    ends[here] = place[graph.indices[there]]
    lengths[here] = graph.data[there]
    return starts.astype(np.uint32), ends, lengths


def relaxed(starts: Numbers, ends: Numbers, steps: Matrix, order: Numbers, place: Numbers, lengths: Matrix) -> None:
    """Fill in `lengths`, row by source and column by vertex, in the order from before the graph was reordered.

    starts, ends, steps : rows of the graph, in the new order; order, place : from the new order to the old, and back
    """
    size = len(order)
    known = np.empty((size, SOURCES))
    best = np.empty(SOURCES)
    waiting = np.zeros(size, np.bool_)
    for first in range(0, size, SOURCES):
        count = min(SOURCES, size - first)
        known[:] = np.inf
        for k in range(count):
            known[first + k, k] = 0.0
            for e in range(starts[first + k], starts[first + k + 1]):
                waiting[ends[e]] = True
        again, backward = True, False
        while again:
            again = False
            for i in range(size):
                v = size - 1 - i if backward else i
                if not waiting[v]:
                    continue
                waiting[v] = False
                for k in range(SOURCES):
                    best[k] = known[v, k]
                for e in range(starts[v], starts[v + 1], EDGES):  # four at once: fewer passes over `best`
                    p, q, r, s = ends[e], ends[e + 1], ends[e + 2], ends[e + 3]
                    to_p, to_q, to_r, to_s = steps[e], steps[e + 1], steps[e + 2], steps[e + 3]
                    for k in range(SOURCES):
                        by_p, by_q = known[p, k] + to_p, known[q, k] + to_q
                        by_r, by_s = known[r, k] + to_r, known[s, k] + to_s
                        by_p = by_p if by_p < by_q else by_q
                        by_r = by_r if by_r < by_s else by_s
                        by_p = by_p if by_p < by_r else by_r
                        best[k] = by_p if by_p < best[k] else best[k]
                improved = 0
                for k in range(SOURCES):
                    improved += best[k] < known[v, k]
                    known[v, k] = best[k]
                if improved:
                    again = True
                    for e in range(starts[v], starts[v + 1]):
                        waiting[ends[e]] = True
            backward = not backward
        for low in range(0, size, 32):  # in tiles that stay in the cache on both sides
            for k in range(count):
                row = lengths[order[first + k]]
                for v in range(low, min(low + 32, size)):
                    row[v] = known[place[v], k]


def joined(geodesics: Matrix, near: Indices, steps: Matrix, squares: Matrix) -> None:
    """Fill in `squares`, as `squares_through` does."""
    for i in range(len(near)):
        path, row, step = squares[i], geodesics[near[i, 0]], steps[i, 0]
        for v in range(len(path)):
            path[v] = row[v] + step
        for j in range(1, near.shape[1]):
            row, step = geodesics[near[i, j]], steps[i, j]
            for v in range(len(path)):
                length = row[v] + step
                path[v] = length if length < path[v] else path[v]
        for v in range(len(path)):
            path[v] = -0.5 * (path[v] * path[v])
