"""Distinct points in an order of their own, and what several families need of them: neighbours, mesh, spanning tree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csgraph
from scipy.spatial import Delaunay, QhullError, cKDTree

from clearfold.errors import InputError, InputTypeError
from clearfold.features import kernels

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Complex = NDArray[np.complex128]

SAME_PLACE = 1e-9
"""Points closer than about this share of the extent are one point: two detections of one nucleus."""
FLAT = 1e-10
"""Points lie on a line when none is farther from it than this share of the extent; so do the corners of a triangle."""
LARGEST = 1e60
"""Extents from here on, and below one over it, are no lengths of tissue; between, no product can overflow."""
WORTH_COMPILING = 1000
"""Points from which on machine code is asked for: fewer take less time than loading it."""
CROWD = 64
"""Points in one square of a grid of about 6 from which on the k-d tree is faster."""
NEAREST = 7
"""Nearest neighbours that are looked up once for all families."""


@dataclass(frozen=True, eq=False, repr=False)
class Mesh:
    """Delaunay triangles of points: corners counter-clockwise, and the triangle across from each corner (-1: none).

    Places are complex numbers x + i y: numpy looks up one complex number much faster than a row of two.
    """

    place: Complex
    corners: Ints
    across: Ints
    loose: Ints
    """Points that the mesh leaves out because they nearly coincide with one of its points: (point, that one)."""

    @cached_property
    def at(self) -> Complex:
        """(t, 3) places of the corners."""
        return self.place[self.corners]

    @cached_property
    def start(self) -> Ints:
        """(t, 3) where the side across from each corner starts; the triangle is on its left."""
        return self.corners[:, [1, 2, 0]]

    @cached_property
    def end(self) -> Ints:
        """(t, 3) where that side ends."""
        return self.corners[:, [2, 0, 1]]

    @cached_property
    def sides(self) -> Floats:
        """(t, 3) its length."""
        return lengths(self.at[:, [2, 0, 1]] - self.at[:, [1, 2, 0]])

    @cached_property
    def areas(self) -> Floats:
        """(t,) areas."""
        u, v = self.at[:, 1] - self.at[:, 0], self.at[:, 2] - self.at[:, 0]
        return (u.real * v.imag - u.imag * v.real) / 2

    @cached_property
    def proper(self) -> NDArray[np.bool_]:
        """(t,) whether the corners are off a line; triangles of collinear points at the border are rounding."""
        return self.areas > FLAT * np.square(self.sides.max(axis=1))

    @cached_property
    def centers(self) -> Complex:
        """(t,) centres of the circles through the corners, which are the corners of Voronoi cells; NaN if flat."""
        u, v = self.at[:, 1] - self.at[:, 0], self.at[:, 2] - self.at[:, 0]
        squared, inverse = np.square(self.sides), 0.25 / np.where(self.proper, self.areas, np.nan)
        return self.at[:, 0] + 1j * (squared[:, 1] * u - squared[:, 2] * v) * inverse

    @cached_property
    def beyond(self) -> Complex:
        """(t, 3) centre of the triangle across; NaN where there is none."""
        return np.where(self.across < 0, np.nan, self.centers[self.across])

    @cached_property
    def walls(self) -> Floats:
        """(t, 3) length of the Voronoi wall that crosses each side; NaN at the border and beside a flat triangle."""
        return lengths(self.beyond - self.centers[:, None])

    @cached_property
    def once(self) -> NDArray[np.bool_]:
        """(t, 3) which sides stand for an edge: each edge between two triangles is a side of both."""
        return (self.start < self.end) | (self.across < 0)


@dataclass(frozen=True, eq=False, repr=False)
class Points:
    """Distinct points, sorted by place so that the order in which they came has no influence.

    xy : (n, 2) coordinates from the corner of their bounding box on
    rows : (n,) the given row that each stands for; point_of : (given,) the point of each given row
    """

    xy: Floats
    rows: Ints
    point_of: Ints

    def __len__(self) -> int:
        return len(self.xy)

    @cached_property
    def place(self) -> Complex:
        """(n,) the coordinates as complex numbers x + i y."""
        return self.xy[:, 0] + 1j * self.xy[:, 1]

    @cached_property
    def tree(self) -> Any:
        """Their k-d tree."""
        return cKDTree(self.xy, balanced_tree=False)

    @cached_property
    def nearest(self) -> Floats:
        """(n, NEAREST) distances to the nearest others, in order; NaN where there are not so many."""
        if len(self) < 2:
            return np.full((len(self), NEAREST), np.nan)
        distances = nearest_on_grid(self) if len(self) >= WORTH_COMPILING else None
        if distances is None:
            distances = self.tree.query(self.xy, NEAREST + 1)[0][:, 1:]
        return np.where(np.isfinite(distances), distances, np.nan)

    @cached_property
    def spacing(self) -> float:
        """Median distance to the nearest other; NaN of fewer than two points."""
        return float(np.median(self.nearest[:, 0])) if len(self) > 1 else float("nan")

    @cached_property
    def mesh(self) -> Mesh | None:
        """Their Delaunay triangles; None of points on a line, or fewer than three."""
        if len(self) < 3 or self._off_line() <= FLAT:
            return None
        try:
            found = Delaunay(self.xy / _power_of_two(self.xy.max()))
        except QhullError:  # nearly on a line
            return None
        loose = found.coplanar[:, [0, 2]].astype(np.int64)
        return Mesh(self.place, found.simplices.astype(np.int64), found.neighbors.astype(np.int64), loose)

    @cached_property
    def edges(self) -> Ints:
        """(m, 2) edges of the mesh; from each to the next where the points lie on a line."""
        if self.mesh is None:
            along = np.argsort(self.xy @ self._axis(), kind="stable") if len(self) else np.zeros(0, np.int64)
            return np.stack([along[:-1], along[1:]], axis=1)
        mesh = self.mesh
        kept = np.stack([mesh.start[mesh.once], mesh.end[mesh.once]], axis=1)
        return np.concatenate([kept, mesh.loose]) if len(mesh.loose) else kept

    @cached_property
    def edge_lengths(self) -> Floats:
        """(m,) lengths of the edges."""
        return lengths(self.place[self.edges[:, 0]] - self.place[self.edges[:, 1]])

    @cached_property
    def spanning(self) -> tuple[Ints, Floats]:
        """(n - 1, 2) edges of the Euclidean minimum spanning tree, which are edges of the mesh, and their lengths."""
        n = len(self)
        if n < 2:
            return np.zeros((0, 2), np.int64), np.zeros(0)
        graph = coo_array((self.edge_lengths, self.edges.T), shape=(n, n)).tocsr()
        found = csgraph.minimum_spanning_tree(graph).tocoo()
        return np.stack([found.row, found.col], axis=1).astype(np.int64), found.data

    def _axis(self) -> Floats:
        """Unit vector of the direction in which the points extend most."""
        centred = (self.xy - self.xy.mean(axis=0)) / (self.xy.max() or 1.0)
        return np.linalg.eigh(centred.T @ centred)[1][:, 1]

    def _off_line(self) -> float:
        """Largest distance from the line of their axis, as a share of the extent."""
        x, y = self._axis()
        centred = (self.xy - self.xy.mean(axis=0)) / self.xy.max()
        return float(np.abs(centred @ np.array([-y, x])).max())


@dataclass(frozen=True, eq=False, repr=False)
class Grid:
    """Points sorted by squares of a grid: `order`, coordinates in it, where each square starts, squares in a row."""

    order: Ints
    x: Floats
    y: Floats
    start: Ints
    width: int


def on_grid(points: Points, side: float) -> Grid | None:
    """Points on squares of this side; None where there would be many more squares than points."""
    columns, rows = points.xy.max(axis=0) / side
    if not (columns + 3) * (rows + 2) < 4 * len(points):
        return None
    width = int(columns) + 3  # an empty square at either end of a row, so that no row touches the next
    across, up = (points.xy / side).astype(np.int64).T
    square = up * width + across + 1
    order = np.argsort(square, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(square, minlength=width * (int(rows) + 2)))])
    return Grid(order, points.xy[order, 0], points.xy[order, 1], start, width)


def nearest_on_grid(points: Points) -> Floats | None:
    """Distances to the nearest by machine code; None without numba, or where points crowd: take the k-d tree."""
    kernel = kernels.compiled(nearest_within)
    side = 2.5 * float(np.sqrt(np.prod(points.xy.max(axis=0)) / len(points)))
    grid = on_grid(points, side) if kernel is not None and side > 0 else None
    if kernel is None or grid is None or np.diff(grid.start).max() > CROWD:
        return None
    found = np.empty((len(points), NEAREST))
    found[grid.order] = np.sqrt(kernel(grid.x, grid.y, grid.start, grid.width, NEAREST))
    unsure = ~(found[:, -1] < side)  # a nearer one may lie beyond the squares around
    if unsure.any():
        found[unsure] = points.tree.query(points.xy[unsure], NEAREST + 1)[0][:, 1:]
    return found


def nearest_within(x: Floats, y: Floats, start: Ints, width: int, k: int) -> Floats:
    """Squared distances to the k nearest in the nine squares around each point, in order; infinite if fewer."""
    nearest = np.full((len(x), k), np.inf)
    for square in range(1, len(start) - 2):
        for p in range(start[square], start[square + 1]):
            for row in range(-1, 2):
                first, last = max(square + row * width - 1, 0), min(square + row * width + 2, len(start) - 1)
                for q in range(start[min(first, len(start) - 1)], start[max(last, 0)]):
                    dx, dy = x[p] - x[q], y[p] - y[q]
                    apart = dx * dx + dy * dy
                    if apart < nearest[p, k - 1] and p != q:
                        at = k - 1
                        while at > 0 and nearest[p, at - 1] > apart:
                            nearest[p, at] = nearest[p, at - 1]
                            at -= 1
                        nearest[p, at] = apart
    return nearest


def lengths(steps: Complex) -> Floats:
    """Lengths of steps x + i y."""
    return np.sqrt(np.square(steps.real) + np.square(steps.imag))


def as_points(points: Any) -> Points:
    """Check coordinates (n, 2), sort them by place, and count points at one place once."""
    if isinstance(points, Points):
        return points
    xy = _coordinates(points)
    if not len(xy):
        return Points(xy, np.zeros(0, np.int64), np.zeros(0, np.int64))
    xy = xy - xy.min(axis=0)
    extent = float(xy.max())
    if not extent < LARGEST:
        raise InputError(f"the coordinates span {extent:.3g}; wanted are micrometres or pixels.")
    if extent < 1 / LARGEST:
        xy, extent = np.zeros_like(xy), 1.0
    grid = np.rint(xy / extent / SAME_PLACE).astype(np.int64)
    key = (grid[:, 0] << 31) + grid[:, 1]
    order = np.argsort(key, kind="stable")
    first = np.append(True, np.diff(key[order]) > 0)
    if not first.all():  # which of several at a place stands for it must not depend on their order
        order = np.lexsort((xy[:, 1], xy[:, 0], key))
    point_of = np.empty(len(xy), np.int64)
    point_of[order] = np.cumsum(first) - 1
    rows = order[first]
    return Points(xy[rows], rows, point_of)


def _coordinates(points: Any) -> Floats:
    try:
        xy = np.asarray(points, dtype=float)
    except (TypeError, ValueError):
        raise InputTypeError(f"points came as {type(points).__name__}; wanted are numbers of shape (n, 2).") from None
    xy = xy.reshape(0, 2) if xy.size == 0 else xy
    if xy.ndim != 2 or xy.shape[1] != 2:
        raise InputError(f"points of shape {xy.shape} came; wanted is (n, 2): x and y of each object.")
    unknown = int((~np.isfinite(xy)).any(axis=1).sum())
    if unknown:
        raise InputError(f"{unknown} of {len(xy)} points have coordinates that are not finite. Leave them out first.")
    return xy


def _power_of_two(number: float) -> float:
    """The power of two above a positive number: dividing by it changes no digit."""
    return float(np.ldexp(1.0, int(np.clip(np.frexp(number)[1], -1000, 1000))))
