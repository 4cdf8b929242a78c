"""The cell-cluster graph: which nuclei lie close together, in how many clusters, and how these are knit.

Papers link nuclei by a decay of probability with distance, d^-alpha or exp(-alpha d), above a threshold. A threshold on
a decay is a threshold on distance, so the deterministic version has a radius: two nuclei are linked when their Voronoi
cells share a wall and they are at most `LINK` times the median distance to the nearest neighbour apart. Clusters are
the connected components. They are the same as without asking for a wall (the minimum spanning tree has walls), but
there are at most 3 n links whatever the input.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csgraph, csr_array

from clearfold.features.catalogue import Features, Measure
from clearfold.features.matchings import hosoya_of_pieces
from clearfold.features.points import Floats, Ints, Points, as_points
from clearfold.features.statistics import summarise_measures

LINK = 1.9
"""Radius of a link in median distances to the nearest neighbour; no distance of a square or hexagonal lattice."""
WALL = 1e-6
"""A wall shorter than this share of its edge is a corner where four cells meet."""
LARGEST_PIECE = 16
"""Clusters are cut into pieces of at most so many nuclei before matchings are counted."""
HOSOYA_LOW, HOSOYA_HIGH = 10, 100
"""Low: fewer than 10 matchings (a chain of up to 5 nuclei); high: 100 or more (a chain of 11, or fewer if dense)."""

ALI = "Ali 2013, VINK"
PATHS = "Yener 2016 (cell graphs)"
MANY = (
    Measure("graph.cluster.size", "number of nuclei of a cluster, single nuclei included", "1", ALI),
    Measure("graph.cluster.degree", "number of links of a nucleus", "1", ALI),
    Measure("graph.cluster.link_length", "length of a link", "um", ALI),
    Measure("graph.cluster.eccentricity", "longest way from a nucleus along the cluster's spanning tree", "um", PATHS),
    Measure("graph.cluster.diameter", "longest way in the spanning tree of a cluster of at least 2", "um", PATHS),
    Measure("graph.cluster.path_length", "mean way between nuclei of a cluster along its spanning tree", "um", PATHS),
    Measure("graph.cluster.hosoya_log", "ln Z of a piece of at least 2 nuclei, Z its number of matchings", "1", "FINE"),
)
ONE = tuple(
    Measure(f"graph.cluster.{name}", formula, unit, source, summarised=False)
    for name, formula, unit, source in (
        ("radius", f"{LINK} times the median distance to the nearest neighbour", "um", ALI),
        ("count", "number of clusters of at least 2 nuclei", "1", ALI),
        ("per_nucleus", "number of clusters, single nuclei included, / number of nuclei", "1", ALI),
        ("isolated_share", "share of nuclei without a link", "1", ALI),
        ("giant_share", "share of nuclei in the largest cluster", "1", ALI),
        ("transitivity", "3 triangles / pairs of links that meet", "1", "Newman 2003"),
        (
            "clustering",
            "mean over nuclei of C = 2 e / (k (k - 1)), e links among the k neighbours; 0 if k < 2",
            "1",
            ALI,
        ),
        ("clustering_linked", "mean of C over nuclei with at least 2 links", "1", ALI),
        ("clustering_closed", "mean over linked nuclei of 2 (e + k) / (k (k + 1)), the nucleus included", "1", ALI),
        ("hosoya_low_count", f"pieces with Z < {HOSOYA_LOW}", "1", "FINE"),
        ("hosoya_intermediate_count", f"pieces with {HOSOYA_LOW} <= Z < {HOSOYA_HIGH}", "1", "FINE"),
        ("hosoya_high_count", f"pieces with Z >= {HOSOYA_HIGH}", "1", "FINE"),
        ("hosoya_low_share", f"share of pieces with Z < {HOSOYA_LOW}", "1", "FINE"),
        ("hosoya_intermediate_share", f"share of pieces with {HOSOYA_LOW} <= Z < {HOSOYA_HIGH}", "1", "FINE"),
        ("hosoya_high_share", f"share of pieces with Z >= {HOSOYA_HIGH}", "1", "FINE"),
    )
)
MEASURES = (*MANY, *ONE)


@dataclass(frozen=True, eq=False, repr=False)
class Clusters:
    """Linked nuclei: `links` (m, 2), `lengths` (m,), `label` (n,) the cluster of each point, `tree` its skeleton."""

    points: Points
    radius: float
    links: Ints
    lengths: Floats
    label: Ints
    tree: tuple[Ints, Floats]

    @cached_property
    def sizes(self) -> Ints:
        """Number of nuclei of each cluster."""
        return np.bincount(self.label)

    @cached_property
    def degrees(self) -> Ints:
        """Number of links of each nucleus."""
        return np.bincount(self.links.ravel(), minlength=len(self.label))

    @cached_property
    def pieces(self) -> Ints:
        """The piece of each nucleus: tree edges join two pieces, shortest first, unless they get too large."""
        edges, lengths = self.tree
        order = np.lexsort((edges[:, 1], edges[:, 0], lengths))
        parent, size = list(range(len(self.label))), [1] * len(self.label)
        for first, second in edges[order].tolist():
            a, b = _root(parent, first), _root(parent, second)
            if size[a] + size[b] <= LARGEST_PIECE:
                a, b = (a, b) if size[a] >= size[b] else (b, a)
                parent[b] = a
                size[a] += size[b]
        roots = np.array([_root(parent, i) for i in range(len(parent))], dtype=np.int64)
        return np.unique(roots, return_inverse=True)[1].ravel().astype(np.int64)


def find_clusters(points: Any) -> Clusters:
    """Link points whose cells share a wall and that are at most LINK times the median nearest distance apart."""
    points = as_points(points)
    n = len(points)
    radius = LINK * points.spacing if n > 1 else np.nan
    close = points.edge_lengths <= radius
    if points.mesh is not None:
        mesh = points.mesh
        walls = np.append(mesh.walls[mesh.once], np.full(len(mesh.loose), np.nan))  # NaN: no corner
        close &= ~(walls <= WALL * points.edge_lengths)
    links = points.edges[close]
    edges, lengths = points.spanning
    tree = edges[lengths <= radius], lengths[lengths <= radius]
    label = csgraph.connected_components(_symmetric(tree[0], tree[1], n), directed=False)[1] if n else np.zeros(0, int)
    return Clusters(points, radius, links, points.edge_lengths[close], label.astype(np.int64), tree)


def cluster_features(points: Any, clusters: Clusters | None = None) -> Features:
    """Sizes, links, clustering, ways and Hosoya classes of the cell-cluster graph.

    Ways are along the spanning tree, where the farthest nucleus of each is found by three sweeps; where many distances
    are exactly equal (a lattice) trees, and with them ways and pieces, are not unique, and one is taken by place.

    >>> found = cluster_features([[0, 0], [0, 1], [1, 0], [9, 9], [9, 10], [30, 30]])
    >>> found.values["graph.cluster.count"], found.values["graph.cluster.isolated_share"]
    (2.0, 0.16666666666666666)
    """
    clusters = clusters or find_clusters(points)
    n = len(clusters.points)
    eccentricity, diameter = _ways(clusters)
    index = _hosoya(clusters)
    many = (
        clusters.sizes,
        clusters.degrees,
        clusters.lengths,
        eccentricity,
        diameter,
        _path_lengths(clusters),
        np.log(index),
    )
    low, high = float((index < HOSOYA_LOW).sum()), float((index >= HOSOYA_HIGH).sum())
    counts = np.array([low, len(index) - low - high, high])
    shares = counts / len(index) if len(index) else np.full(3, np.nan)
    one = (
        clusters.radius,
        float((clusters.sizes > 1).sum()),
        _share(len(clusters.sizes), n),
        _share(int((clusters.sizes == 1).sum()), n),
        _share(int(clusters.sizes.max(initial=0)), n),
        *_clustering(clusters),
        *counts,
        *shares,
    )
    values = {measure.name: value for measure, value in zip(MEASURES, (*many, *one), strict=True)}
    return summarise_measures(
        MEASURES, values, "fewer than 2 distinct points" if n < 2 else "too few nuclei are linked"
    )


def _hosoya(clusters: Clusters) -> Ints:
    """Matchings of each piece of at least two nuclei."""
    index = hosoya_of_pieces(clusters.pieces, clusters.links)
    return index[np.bincount(clusters.pieces, minlength=len(index)) > 1]


def _clustering(clusters: Clusters) -> tuple[float, float, float, float]:
    """Transitivity, and the mean of C over all nuclei, over those with two links, and with the nucleus included."""
    k = clusters.degrees.astype(float)
    if not len(k):
        return np.nan, np.nan, np.nan, np.nan
    e = _triangles(clusters.links, clusters.degrees)
    pairs = k * (k - 1) / 2
    local = np.divide(e, pairs, out=np.zeros_like(k), where=pairs > 0)
    closed = np.divide(e + k, k * (k + 1) / 2, out=np.zeros_like(k), where=k > 0)
    return (
        float(e.sum() / pairs.sum()) if pairs.any() else np.nan,
        float(np.sort(local).mean()),
        float(np.sort(local[pairs > 0]).mean()) if pairs.any() else np.nan,
        float(np.sort(closed[k > 0]).mean()) if k.any() else np.nan,
    )


def _triangles(links: Ints, degree: Ints) -> Floats:
    """Number of triangles at each node. Links point to the larger degree, so that hubs cost nothing."""
    n = len(degree)
    rank = degree * n + np.arange(n)
    swap = (rank[links[:, 0]] > rank[links[:, 1]])[:, None]
    one_way = coo_array((np.ones(len(links)), np.where(swap, links[:, ::-1], links).T), shape=(n, n)).tocsr()
    ends, middle = (one_way @ one_way).multiply(one_way), (one_way.T @ one_way).multiply(one_way)
    return np.asarray(ends.sum(axis=0) + ends.sum(axis=1) + middle.sum(axis=1)).ravel()


def _ways(clusters: Clusters) -> tuple[Floats, Floats]:
    """Longest way from each nucleus and of each cluster: in a tree it leads to an end of the longest of all."""
    n = len(clusters.label)
    if not len(clusters.tree[1]):
        return np.zeros(0), np.zeros(0)
    graph = _symmetric(*clusters.tree, n)
    start = np.unique(clusters.label, return_index=True)[1]
    one_end = _farthest(_from(graph, start), clusters.label)
    first = _from(graph, one_end)
    longest = np.maximum(first, _from(graph, _farthest(first, clusters.label)))
    linked = clusters.sizes > 1
    diameter = np.zeros(len(clusters.sizes))
    np.maximum.at(diameter, clusters.label, longest)
    return longest[linked[clusters.label]], diameter[linked]


def _from(graph: csr_array, start: Ints) -> Floats:
    return csgraph.dijkstra(graph, directed=False, indices=start, min_only=True)


def _farthest(distance: Floats, label: Ints) -> Ints:
    """The node of each cluster with the largest distance."""
    order = np.lexsort((distance, label))
    return order[np.append(np.flatnonzero(np.diff(label[order])), len(label) - 1)]


def _path_lengths(clusters: Clusters) -> Floats:
    """Mean way of each cluster: an edge with s of N nuclei behind it is on s (N - s) of the N (N - 1) / 2 ways."""
    edges, lengths = clusters.tree
    n = len(clusters.label)
    if not len(lengths):
        return np.zeros(0)
    roots = np.unique(clusters.label, return_index=True)[1]
    joined = np.concatenate([edges, np.stack([np.full(len(roots), n), roots], axis=1)])  # one tree under a new root
    graph = _symmetric(joined, np.ones(len(joined)), n + 1)
    order, parent = csgraph.breadth_first_order(graph, n, directed=False)
    behind, above = [1] * (n + 1), parent.tolist()
    for node in order[:0:-1].tolist():
        behind[above[node]] += behind[node]
    first, second = edges.T
    child = np.where(parent[first] == second, first, second)
    size = clusters.sizes[clusters.label[child]].astype(float)
    below = np.asarray(behind, dtype=float)[child]
    total = np.bincount(clusters.label[child], lengths * below * (size - below), minlength=len(clusters.sizes))
    linked = clusters.sizes > 1
    size = clusters.sizes[linked].astype(float)
    return total[linked] / (size * (size - 1) / 2)


def _symmetric(edges: Ints, weights: Floats, n: int) -> csr_array:
    return coo_array((weights, edges.T), shape=(n, n)).tocsr()


def _share(count: int, n: int) -> float:
    return count / n if n else np.nan


def _root(parent: list[int], node: int) -> int:
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node
