"""Voronoi, Delaunay, spanning tree and density features beside HistomicsTK's definitions, written cell by cell.

The peer is written here from what `compute_global_cell_graph_features` documents: area, perimeter and longest chord of
every Voronoi cell that has an end, sides and areas of Delaunay triangles, branches of the minimum spanning tree,
neighbours within 10 to 50, distances to the 3rd, 5th and 7th nearest; mean, SD, min / max and disorder of each. Like
the original it has scipy's Voronoi, k-d tree and spanning tree, one function for the area of a polygon (determinants of
neighbouring corners) that serves cells and triangles, and a loop over both; lengths of sides are vectorised. The
original also drops values beyond three SD from the mean, again and again; neither side does that here. Ours also
computes median, skewness and more structures than are compared, on the clock.

"graph features" is that comparison. "architecture" is everything that ours knows of points, clusters, Hosoya classes
and orientation included, which stands alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial import Voronoi, cKDTree
from scipy.spatial.distance import pdist

from benchmarks.cases import OURS, Against, Case
from benchmarks.differences import Difference
from benchmarks.measure import Work
from clearfold.features.architecture import architecture
from clearfold.features.density import density_features
from clearfold.features.graph import graph_features
from clearfold.features.points import as_points

PEER = "HistomicsTK's definitions"
NUCLEI = "nuclei"
RADII = (10, 20, 30, 40, 50)
NEIGHBORS = (3, 5, 7)


def nuclei(size: int) -> np.ndarray:
    """Places of nuclei in um, one in 100 um2, none closer than cells are: the points of a disturbed lattice."""
    rng = np.random.default_rng(0)
    side = int(np.ceil(np.sqrt(size)))
    lattice = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2)[:size]
    return 10.0 * lattice + rng.normal(0, 2.5, (size, 2))


def axes(size: int) -> tuple[np.ndarray, np.ndarray]:
    return nuclei(size), np.random.default_rng(1).uniform(0, np.pi, size)


def ours(points: np.ndarray) -> dict[str, float]:
    where = as_points(points)
    return (graph_features(where, border=True) | density_features(where)).values


def peer(points: np.ndarray) -> dict[str, float]:
    diagram = Voronoi(points)
    lists = voronoi_by_cell(diagram) | delaunay_by_triangle(diagram) | density_by_point(points)
    return {f"{name}.{kind}": value for name, values in lists.items() for kind, value in four(values).items()}


def polygon_area(corners: np.ndarray) -> float:
    pairs = np.stack([corners, np.roll(corners, -1, axis=0)], axis=-1)
    return abs(np.linalg.det(pairs).sum()) / 2


def polygon_perimeter(corners: np.ndarray) -> float:
    return np.sqrt(((corners - np.roll(corners, -1, axis=0)) ** 2).sum(axis=1)).sum()


def voronoi_by_cell(diagram: Voronoi) -> dict[str, list[float]]:
    cells = [diagram.vertices[region] for region in diagram.regions if region and -1 not in region]
    return {
        "graph.voronoi.area": [polygon_area(corners) for corners in cells],
        "graph.voronoi.perimeter": [polygon_perimeter(corners) for corners in cells],
        "graph.voronoi.chord": [pdist(corners).max() for corners in cells],
    }


def delaunay_by_triangle(diagram: Voronoi) -> dict[str, Any]:
    triangles: list[list[int]] = [[] for _ in diagram.vertices]
    for point, region in enumerate(diagram.point_region):
        for vertex in diagram.regions[region]:
            if vertex != -1:
                triangles[vertex].append(point)
    pairs = np.sort(diagram.ridge_points, axis=1)
    sides = np.linalg.norm(diagram.points[pairs[:, 0]] - diagram.points[pairs[:, 1]], axis=1)
    size = len(diagram.points)
    return {
        "graph.delaunay.area": [polygon_area(diagram.points[corners]) for corners in triangles],
        "graph.delaunay.edge_length": sides,
        "graph.mst.edge_length": minimum_spanning_tree(coo_matrix((sides, pairs.T), (size, size))).data,
    }


def density_by_point(points: np.ndarray) -> dict[str, Any]:
    tree = cKDTree(points)
    found = {
        f"density.neighbors_{radius}um": [len(near) - 1 for near in tree.query_ball_tree(tree, radius)]
        for radius in RADII
    }
    distances = tree.query(points, [k + 1 for k in NEIGHBORS])[0].T
    return found | {f"density.distance_{k}nn": row for k, row in zip(NEIGHBORS, distances, strict=True)}


def four(values: Any) -> dict[str, float]:
    array = np.asarray(values, dtype=float)
    mean, sd = array.mean(), array.std()
    return {"mean": mean, "sd": sd, "min_max": array.min() / array.max(), "disorder": 1 - 1 / (1 + sd / mean)}


def apart(own: dict[str, float], other: dict[str, float]) -> float:
    """Largest relative difference of a number."""
    return max(abs(own[name] - value) / max(abs(value), 1e-12) for name, value in other.items())


SAME_NUMBERS = Difference("numbers", apart, 1e-9)


def by_cell(quick: bool) -> Iterable[Case]:
    for size in (500, 2000) if quick else (2000, 20_000):
        yield Case(
            "graph features",
            NUCLEI,
            size,
            prepare={OURS: nuclei, PEER: nuclei},
            works={OURS: Work(OURS, ours), PEER: Work(PEER, peer)},
            comparisons=(Against(PEER, (SAME_NUMBERS,), None if size < 2000 else 12.0),),
            warm_up=1500,  # enough for compiled loops, which are then not loaded under the clock
            axis="nuclei",
        )


def everything(quick: bool) -> Iterable[Case]:
    for size in (500, 2000) if quick else (2000, 20_000, 100_000):
        work = {OURS: Work(OURS, whole)}
        yield Case("architecture", NUCLEI, size, prepare={OURS: axes}, works=work, warm_up=1500, axis="nuclei")


def whole(state: tuple[np.ndarray, np.ndarray]) -> dict[str, float]:
    return architecture(*state).values


SUITE = {"graph_features": by_cell, "architecture_alone": everything}
