"""The neighbour graph: k nearest samples, joined where it falls apart, with its paths and its health."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from clearfold.embedding.distances import Indices, blocks
from clearfold.embedding.samples import Samples
from clearfold.embedding.spectral import Matrix
from clearfold.errors import DisconnectedGraphWarning, DuplicateSamplesWarning, InputError, warn


@dataclass(frozen=True)
class NeighborGraph:
    """Union of the k nearest neighbours of every sample, and the bridges that made it one piece.

    indices, distances : n x k, the neighbours of each sample, itself left out, nearest first
    edges, lengths : undirected edges (i < j), bridges last, and their lengths; coincident samples have length 0
    bridges : the added edges; n_components : pieces before they were added
    """

    indices: Indices
    distances: Matrix
    edges: Indices
    lengths: Matrix
    bridges: Indices
    n_components: int

    @property
    def size(self) -> int:
        """Number of samples."""
        return len(self.indices)

    def matrix(self, values: Matrix) -> sparse.csr_array:
        """Symmetric sparse matrix with one value for each edge; zeros are kept as stored entries."""
        edge, columns, starts = self._places
        return sparse.csr_array((values[edge], columns, starts), shape=(self.size, self.size))

    @cached_property
    def _places(self) -> tuple[Indices, Indices, Indices]:
        """Number of the edge and column of each stored entry, row by row, and where rows start."""
        rows, columns = self.edges.T.ravel(), self.edges[:, ::-1].T.ravel()
        order = np.lexsort((columns, rows))
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=self.size))])
        kind = np.int32 if len(order) < np.iinfo(np.int32).max else np.int64
        return order % len(self.edges), columns[order].astype(kind), starts.astype(kind)

    def n_duplicates(self) -> int:
        """Number of samples that coincide with an earlier one."""
        if self.lengths.all():
            return 0
        i, j = self.edges[self.lengths == 0].T
        same = sparse.coo_array((np.ones(len(i)), (i, j)), shape=(self.size, self.size))
        return self.size - int(csgraph.connected_components(same, directed=False)[0])

    def warn(self) -> None:
        """Say what is unusual about the graph."""
        if self.n_components > 1:
            pairs = ", ".join(f"{i}-{j}" for i, j in self.bridges[:5])
            warn(
                f"the graph of {self.indices.shape[1]} nearest neighbours fell into {self.n_components} parts; "
                f"{len(self.bridges)} shortest edges between them were added ({pairs}"
                f"{', ...' if len(self.bridges) > 5 else ''}). Distances across the parts rest on these edges: "
                "raise n_neighbors, or look at the parts apart.",
                DisconnectedGraphWarning,
            )
        duplicates = self.n_duplicates()
        if duplicates:
            warn(
                f"{duplicates} of {self.size} samples coincide with an earlier one and are joined to it by edges of "
                "length zero. Check for cases that were entered twice.",
                DuplicateSamplesWarning,
            )


def neighbor_graph(samples: Samples, k: int) -> NeighborGraph:
    """Graph of the k nearest neighbours (union of both directions), bridged in Kruskal's order if it is in pieces."""
    check_neighbors(k, samples.size)
    indices, distances = samples.neighbors(k)
    start, stop = np.repeat(np.arange(samples.size), k), indices.ravel()
    key = np.minimum(start, stop) * samples.size + np.maximum(start, stop)
    key, first = np.unique(key, return_index=True)
    edges = np.column_stack(np.divmod(key, samples.size))
    lengths = distances.ravel()[first]
    link = sparse.coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(samples.size, samples.size))
    n_components, part = csgraph.connected_components(link, directed=False)
    bridges, spans = (
        _bridges(samples, part, n_components) if n_components > 1 else (np.empty((0, 2), np.intp), np.empty(0))
    )
    return NeighborGraph(
        indices,
        distances,
        np.vstack([edges, bridges]),
        np.concatenate([lengths, spans]),
        bridges,
        int(n_components),
    )


def check_neighbors(k: int, n_samples: int) -> None:
    """k must leave each sample at least one non-neighbour besides itself, or all others at most."""
    if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
        raise InputError(f"n_neighbors={k!r} came; a whole number of at least 1 is wanted.")
    if k >= n_samples:
        raise InputError(
            f"n_neighbors={k} came with {n_samples} samples; each sample has only {n_samples - 1} others. "
            f"Set n_neighbors to at most {n_samples - 1}, or add samples."
        )


def spanning_tree(squared: Matrix) -> tuple[Indices, Matrix]:
    """Minimum spanning tree of a table of squared distances: edges (i < j), shortest first, and their lengths.

    Prim's algorithm on the full table; zero is a length like any other, which sparse graphs do not grant.
    """
    size = len(squared)
    near, nearest = squared[0].copy(), np.zeros(size, dtype=np.intp)
    near[0] = np.inf
    outside = np.ones(size, dtype=bool)
    outside[0] = False
    edges = np.empty((size - 1, 2), dtype=np.intp)
    for step in range(size - 1):
        new = int(np.where(outside, near, np.inf).argmin())
        edges[step] = min(new, nearest[new]), max(new, nearest[new])
        outside[new] = False
        closer = outside & (squared[new] < near)
        near[closer], nearest[closer] = squared[new, closer], new
    lengths = np.sqrt(squared[edges[:, 0], edges[:, 1]])
    order = np.lexsort((edges[:, 1], edges[:, 0], lengths))
    return edges[order], lengths[order]


def _bridges(samples: Samples, part: Indices, n_parts: int) -> tuple[Indices, Matrix]:
    """Shortest edges that join the parts, in Kruskal's order: pairs of samples and their lengths."""
    order = np.argsort(part, kind="stable")
    starts = np.searchsorted(part[order], np.arange(n_parts))
    best = np.full((n_parts, n_parts), np.inf)
    start = np.zeros((n_parts, n_parts), dtype=np.intp)
    for rows in blocks(samples.size, samples.size):
        nearest = np.minimum.reduceat(samples.own_squared(rows)[:, order], starts, axis=1)
        for here, lengths in zip(range(rows.start, rows.stop), nearest, strict=True):
            better = np.flatnonzero(lengths < best[part[here]])
            best[part[here], better] = lengths[better]
            start[part[here], better] = here
    np.fill_diagonal(best, 0.0)
    joins, spans = spanning_tree(np.minimum(best, best.T))
    pairs = np.empty_like(joins)
    for row, (a, b) in enumerate(joins):
        here, members = start[a, b], np.flatnonzero(part == b)
        there = members[samples.own_squared(slice(here, here + 1))[0, members].argmin()]
        pairs[row] = min(here, there), max(here, there)
    return pairs, spans
