"""Outlines: polygons of many objects, and the labels they become on a window of pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from clearfold.errors import InputError, ObjectsError, ObjectsOutsideWarning, warn
from clearfold.objects.collection import Contour, Floats, Kind, Labels, Objects

TOUCHING = 1e-9
MOST_MEETINGS = 100_000_000
"""Rows that edges may meet, summed over all edges of a window: each takes some fifty bytes of memory for a moment."""


@dataclass(frozen=True, eq=False)
class Polygons:
    """Outlines of objects of an image or a slide, before they are pixels.

    `rings` has for each object its closed rings, [k, 2] as x, y, with (0, 0) the corner of the first pixel, as in
    QuPath. A point is inside when it lies inside an odd number of the rings of an object: so holes stay empty, all
    parts of a multipolygon are one object, and a ring that crosses itself has the inside that it encloses once.
    """

    rings: list[list[Contour]]
    classes: tuple[str, ...] | None = None
    mpp: float | None = None
    kind: Kind = "nucleus"

    def __len__(self) -> int:
        return len(self.rings)

    def __repr__(self) -> str:
        scale = "scale unknown" if self.mpp is None else f"{self.mpp:g} um a pixel"
        return f"<Polygons: {len(self)} outlines, {scale}>"

    @cached_property
    def boxes(self) -> Floats:
        """[n, 4]: least x and y, largest x and y of each object."""
        points, owner = self._points
        if len(self) == 0:
            return np.empty((0, 4))
        starts = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
        return np.hstack([np.minimum.reduceat(points, starts), np.maximum.reduceat(points, starts)])

    @cached_property
    def _points(self) -> tuple[Floats, NDArray[np.int64]]:
        rings = [ring for own in self.rings for ring in own]
        sizes = [sum(len(ring) for ring in own) for own in self.rings]
        points = np.concatenate(rings) if rings else np.empty((0, 2))
        return points, np.repeat(np.arange(len(self)), sizes)

    def objects(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        scale: float = 1.0,
        *,
        shape: tuple[int, int] | None = None,
    ) -> Objects:
        """The objects of a window; `scale` pixels of the result for one of the polygons' (0.5: half the size).

        x, y, width and height are in pixels of the polygons. Only what lies in the window is looked at. Where objects
        overlap, the smaller one lies on top; an object that covers no pixel's centre is not there. `shape` is the
        height and width of an image of the window, whose pixels need not be quite square: it wins over `scale`.
        """
        if not (width > 0 and height > 0 and scale > 0 and np.isfinite([x, y, width, height, scale]).all()):
            raise InputError(f"width={width}, height={height}, scale={scale} came; wanted are positive numbers.")
        steps: float | tuple[float, float] = scale if shape is None else (shape[1] / width, shape[0] / height)
        shape = shape or (max(1, round(height * scale)), max(1, round(width * scale)))
        boxes = self.boxes
        left, top = boxes[:, 0] < x + width, boxes[:, 1] < y + height
        near = np.flatnonzero(left & top & (boxes[:, 2] > x) & (boxes[:, 3] > y))
        moved = [[(ring - (x, y)) * steps for ring in self.rings[i]] for i in near]
        labels = rasterise(moved, shape)
        there = np.unique(labels[labels > 0]) - 1
        classes = None if self.classes is None else [self.classes[near[i]] for i in there]
        mpp = None if self.mpp is None else self.mpp / float(np.mean(steps))
        return Objects.from_labels(labels, mpp, self.kind, classes)

    def whole(self, shape: tuple[int, int], name: str = "the file") -> Objects:
        """The objects of a whole image; those outside are dropped, those across its border cut, and counted."""
        height, width = shape
        found = self.objects(0, 0, width, height)
        boxes = self.boxes
        gone = len(self) - len(found)
        reach = np.array([0, 0, width, height]) + np.array([-1, -1, 1, 1]) * TOUCHING
        crossing = (boxes[:, :2] < reach[:2]).any(axis=1) | (boxes[:, 2:] > reach[2:]).any(axis=1)
        cut = max(0, int(crossing.sum()) - int(_apart(boxes, width, height).sum()))
        if gone or cut:
            warn(
                f"Of {len(self)} outlines in {name}, {gone} have no pixel in the image of {width} x {height} (outside, "
                f"hidden or too small) and were dropped; {cut} cross its border and were cut.",
                ObjectsOutsideWarning,
            )
        return found


def _apart(boxes: Floats, width: float, height: float) -> NDArray[np.bool_]:
    """Boxes that do not meet the image at all."""
    return (boxes[:, 0] >= width) | (boxes[:, 1] >= height) | (boxes[:, 2] <= 0) | (boxes[:, 3] <= 0)


def rasterise(rings: Sequence[Sequence[Contour]], shape: tuple[int, int]) -> Labels:
    """Label i + 1 where a pixel's centre lies inside an odd number of the rings of object i; the smaller on top.

    Every edge meets the rows between its ends once; between the 1st and 2nd, the 3rd and 4th ... meeting of an
    object with a row is inside. All edges of all objects go through this at once.
    """
    height, width = shape
    labels = np.zeros(shape, dtype=np.int32)
    closed = [(i, np.vstack([ring, ring[:1]])) for i, own in enumerate(rings) for ring in own if len(ring)]
    if not closed:
        return labels
    start = np.concatenate([ring[:-1] for _, ring in closed])
    end = np.concatenate([ring[1:] for _, ring in closed])
    owner = np.repeat([i for i, _ in closed], [len(ring) - 1 for _, ring in closed])
    order, rank = _large_first(start, end, owner, len(rings))
    # Row r has its centre at r + 0.5, and meets an edge when low <= r + 0.5 < high.
    low, high = np.minimum(start[:, 1], end[:, 1]), np.maximum(start[:, 1], end[:, 1])
    first = np.clip(np.ceil(low - 0.5), 0, height).astype(np.int64)
    count = np.maximum(np.clip(np.ceil(high - 0.5), 0, height).astype(np.int64) - first, 0)
    if count.sum() > MOST_MEETINGS:
        raise ObjectsError(
            f"the outlines meet the rows of the image {count.sum():,} times, as zigzags do; wanted are at most "
            f"{MOST_MEETINGS:,}. Simplify them, or read the slide in tiles."
        )
    edge = np.repeat(np.arange(len(start)), count)
    row = _ranges(first, count)
    slope = (end[edge, 0] - start[edge, 0]) / (end[edge, 1] - start[edge, 1])
    meets = start[edge, 0] + (row + 0.5 - start[edge, 1]) * slope
    turn = np.lexsort((meets, row, rank[owner[edge]]))
    begin, stop = turn[0::2], turn[1::2]
    left = np.clip(np.ceil(meets[begin] - 0.5), 0, width).astype(np.int64)
    length = np.maximum(np.clip(np.ceil(meets[stop] - 0.5), 0, width).astype(np.int64) - left, 0)
    # Assigned in this order, the last value at a pixel stays: that of the smallest object.
    labels.ravel()[_ranges(row[begin] * width + left, length)] = np.repeat(
        order[rank[owner[edge[begin]]]].astype(np.int32) + 1, length
    )
    return labels


def _large_first(
    start: Floats, end: Floats, owner: NDArray[np.int64], count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Objects from the largest to the smallest (shoelace formula, holes count as they turn), and the place of each."""
    twice = start[:, 0] * end[:, 1] - end[:, 0] * start[:, 1]
    area = np.abs(np.bincount(owner, weights=twice, minlength=count))
    order = np.argsort(-area, kind="stable")
    rank = np.empty(count, dtype=np.int64)
    rank[order] = np.arange(count)
    return order, rank


def _ranges(first: NDArray[np.int64], count: NDArray[np.int64]) -> NDArray[np.int64]:
    """first[0], first[0] + 1, ... (count[0] of them), then those of first[1], ..."""
    ends = np.cumsum(count)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(first - (ends - count), count)
