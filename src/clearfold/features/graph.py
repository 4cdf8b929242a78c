"""Voronoi cells, Delaunay triangles and the minimum spanning tree of points.

Everything comes from one triangulation: corners of Voronoi cells are the centres of the triangles' circles, and the
minimum spanning tree consists of edges of the triangulation. There is no loop over cells.

Points that lie on a common circle (a lattice) have more than one triangulation. Voronoi cells and the lengths of the
spanning tree do not depend on which is taken, nor do triangles of four points at the corners of a rectangle or an
isosceles trapezoid. In other cases one is taken; which one depends on the places, never on the order of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array
from scipy.spatial import ConvexHull, QhullError

from clearfold.features.catalogue import Features, Measure, not_measured
from clearfold.features.points import SAME_PLACE, Complex, Floats, Ints, Mesh, Points, as_points
from clearfold.features.statistics import summarise_measures

DOYLE = "Doyle 2008, VINK, FINE"
MOST_CORNERS = 24
"""Cells with more corners (a nucleus in an empty ring) are measured one by one."""

VORONOI = (
    Measure("graph.voronoi.area", "area of a Voronoi cell", "um2", DOYLE),
    Measure("graph.voronoi.perimeter", "perimeter of a Voronoi cell", "um", DOYLE),
    Measure("graph.voronoi.chord", "longest distance between two corners of a Voronoi cell", "um", DOYLE),
    Measure("graph.voronoi.roundness", "4 pi area / perimeter^2 of a Voronoi cell", "1", "clearfold"),
)
DELAUNAY = (
    Measure("graph.delaunay.area", "area of a Delaunay triangle", "um2", DOYLE),
    Measure("graph.delaunay.perimeter", "perimeter of a Delaunay triangle", "um", DOYLE),
    Measure("graph.delaunay.edge_length", "length of a Delaunay edge, each edge once", "um", DOYLE),
)
TREE = (Measure("graph.mst.edge_length", "length of an edge of the Euclidean minimum spanning tree", "um", DOYLE),)
MEASURES = (*VORONOI, *DELAUNAY, *TREE)


@dataclass(frozen=True, eq=False)
class Cells:
    """Voronoi cells, one for each point: NaN where the cell has no end; `inside` those in the bounding box."""

    area: Floats
    perimeter: Floats
    chord: Floats
    inside: NDArray[np.bool_]

    @property
    def bounded(self) -> NDArray[np.bool_]:
        """Which cells have an end."""
        return ~np.isnan(self.area)


def graph_features(points: Any, *, border: bool = False) -> Features:
    """Statistics of Voronoi cells, Delaunay triangles and the minimum spanning tree.

    Voronoi cells that have no end or leave the bounding box of the points are dropped: at the border a cell tells of
    the border and not of the tissue. With `border` those that leave the box but have an end are kept, which is
    HistomicsTK's rule; a single one can then be larger than all others together.

    >>> round(graph_features([[0, 0], [3, 0], [0, 4]]).values["graph.mst.edge_length.mean"], 3)
    3.5
    """
    points = as_points(points)
    return voronoi_features(points, border=border) | delaunay_features(points) | spanning_tree_features(points)


def voronoi_features(points: Any, *, border: bool = False) -> Features:
    """Statistics of the Voronoi cells inside the bounding box; with `border` of all that have an end."""
    points = as_points(points)
    reason = "no Voronoi cell ends" if border else "no Voronoi cell ends inside the bounding box of the points"
    if points.mesh is None:
        return not_measured(VORONOI, _few(points) or reason)
    cells = voronoi_cells(points)
    kept = cells.bounded if border else cells.inside
    area, perimeter, chord = (values[kept] for values in (cells.area, cells.perimeter, cells.chord))
    columns = (area, perimeter, chord, 4 * np.pi * area / np.square(perimeter))
    return summarise_measures(VORONOI, _named(VORONOI, columns), reason)


def delaunay_features(points: Any) -> Features:
    """Statistics of the Delaunay triangles and edges; triangles of collinear points (rounding) are left out."""
    points = as_points(points)
    mesh = points.mesh
    if mesh is None:
        return not_measured(DELAUNAY, _few(points))
    real = mesh.once
    if not mesh.proper.all():
        real = real & (mesh.proper[:, None] | ((mesh.across >= 0) & mesh.proper[mesh.across]))
    edges = mesh.sides[real]
    columns = (mesh.areas[mesh.proper], mesh.sides.sum(axis=1)[mesh.proper], edges)
    return summarise_measures(DELAUNAY, _named(DELAUNAY, columns), "no triangle has an area")


def spanning_tree_features(points: Any) -> Features:
    """Statistics of the edge lengths of the Euclidean minimum spanning tree; points on a line have one too."""
    points = as_points(points)
    return summarise_measures(TREE, {TREE[0].name: points.spanning[1]}, "fewer than 2 distinct points")


def voronoi_cells(points: Any) -> Cells:
    """Area, perimeter and chord of the cell of each distinct point (in the order of `as_points`).

    A wall between the cells of p and q joins the centres c, d of the two triangles beside the edge pq; the area is
    the sum over walls of det(c - p, d - p) / 2, so that the corners need no order.
    """
    points = as_points(points)
    n, mesh = len(points), points.mesh
    if mesh is None:
        nothing = np.full(n, np.nan)
        return Cells(nothing, nothing, nothing, np.zeros(n, bool))
    start, border = mesh.start.ravel(), mesh.across < 0
    corner = mesh.place[mesh.start]
    first, second = mesh.beyond - corner, mesh.centers[:, None] - corner
    wedge = (first.real * second.imag - first.imag * second.real) / 2
    endless = np.bincount(start, minlength=n) == 0  # a point that nearly coincides with another has no cell
    endless[mesh.start[border]] = True
    endless[mesh.end[border]] = True
    leaving = np.zeros(n, bool)
    leaving[mesh.corners[_outside(mesh.centers, points.xy)]] = True
    area: Floats = np.bincount(start, wedge.ravel(), minlength=n).astype(float)
    perimeter: Floats = np.bincount(start, mesh.walls.ravel(), minlength=n).astype(float)
    area[endless] = perimeter[endless] = np.nan
    return Cells(area, perimeter, np.where(endless, np.nan, _chords(mesh, n)), ~endless & ~leaving)


def _outside(centers: Complex, xy: Floats) -> NDArray[np.bool_]:
    """Which centres lie outside the bounding box (by more than rounding) or are not known."""
    slack = SAME_PLACE * xy.max()
    width, height = xy.max(axis=0) + slack
    x, y = centers.real, centers.imag
    return ~((x >= -slack) & (x <= width) & (y >= -slack) & (y <= height))


def _chords(mesh: Mesh, n: int) -> Floats:
    """Longest distance of two triangle centres around each point: cells with equally many corners at a time."""
    count, begin, around = _by_point(mesh, n)
    chord = np.zeros(n)
    for corners in np.unique(count[count > 1]):
        cells = np.flatnonzero(count == corners)
        if corners > MOST_CORNERS:
            chord[cells] = [_diameter(mesh.centers[around[begin[i] : begin[i] + corners]]) for i in cells]
            continue
        ring = mesh.centers[around[begin[cells] + np.arange(corners)[:, None]]]
        longest = np.zeros(len(cells))
        for shift in range(1, corners):
            step = ring[shift:] - ring[:-shift]
            np.maximum(longest, (np.square(step.real) + np.square(step.imag)).max(axis=0), out=longest)
        chord[cells] = np.sqrt(longest)
    return chord


def _by_point(mesh: Mesh, n: int) -> tuple[Ints, Ints, Ints]:
    """How many triangles each point has, where its first one is, and all of them point by point."""
    t = len(mesh.corners)
    columns = csc_array((np.ones(3 * t, np.int8), mesh.corners.ravel(), np.arange(0, 3 * t + 1, 3)), shape=(n, t))
    rows = columns.tocsr()  # a sort by counting
    return np.diff(rows.indptr), rows.indptr[:-1], rows.indices


def _diameter(centers: Complex) -> float:
    """Longest distance of two of many points: each edge of their convex hull with what lies opposite of it."""
    corners = np.stack([centers.real, centers.imag], axis=1)
    try:
        ring = corners[ConvexHull(corners).vertices]
    except (QhullError, ValueError):  # flat, or a centre that is not known
        return float(np.hypot(*np.ptp(corners, axis=0)))
    step = np.roll(ring, -1, axis=0) - ring
    angle = np.unwrap(np.arctan2(step[:, 1], step[:, 0]))  # grows all the way round
    opposite = np.searchsorted(np.concatenate([angle, angle + 2 * np.pi]), angle + np.pi)
    near = np.arange(-1, 3)  # rounding may move what lies opposite by one
    pairs = ring[:, None] - ring[(opposite[:, None] + near) % len(ring)]
    return float(np.sqrt(np.square(pairs).sum(axis=2).max()))


def _few(points: Points) -> str:
    return "fewer than 3 distinct points" if len(points) < 3 else "all points lie on a line"


def _named(measures: tuple[Measure, ...], columns: tuple[Floats, ...]) -> dict[str, Floats]:
    return {measure.name: column for measure, column in zip(measures, columns, strict=True)}
