"""A label image as runs of pixels: what areas, moments and hulls are summed from.

Runs are some thirty times fewer than pixels, so sums over them are fast without compiled code, and they are sums of
integers: exact, whatever else is in the image.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clearfold.errors import ObjectsError

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Grid:
    """A label image with a frame of zeros, flat; objects are 1..count.

    cells : labels, flat; width : of the framed image, the distance of a pixel to the one below it; frame : its width
    """

    cells: NDArray[np.int32]
    width: int
    count: int
    frame: int = 1

    @cached_property
    def pixels(self) -> Integers:
        """Where the pixels of objects are in the framed image, ordered by object."""
        return _spread(self.runs.cells(self.width), self.runs.length)

    @cached_property
    def places(self) -> Integers:
        """Where the pixels of objects are in the image itself, flat, ordered by object."""
        runs, frame = self.runs, self.frame
        first = (runs.row - frame) * (self.width - 2 * frame) + runs.column - frame
        return _spread(first, runs.length)

    @cached_property
    def runs(self) -> Runs:
        """Every horizontal run of pixels of one object, ordered by object, row and column."""
        changes = np.flatnonzero(self.cells[1:] != self.cells[:-1]) + 1
        label = self.cells[changes]
        of_objects = np.flatnonzero(label)
        label = label[of_objects]
        start, stop = changes[of_objects], changes[of_objects + 1]  # the frame ends the last run
        order = by_label(label, self.count)
        label, start, stop = label[order], start[order], stop[order]
        return Runs(label - 1, start // self.width, start % self.width, stop - start, self.count)


@dataclass(frozen=True)
class Runs:
    """Runs of pixels: owner (0..count - 1), row, first column and length, in coordinates of the framed image."""

    owner: NDArray[np.int32]
    row: Integers
    column: Integers
    length: Integers
    count: int

    @cached_property
    def first(self) -> Integers:
        """The first run of each object."""
        first = np.searchsorted(self.owner, np.arange(self.count))
        return first.astype(np.int64)

    def cells(self, width: int) -> Integers:
        """Where each run starts in the flat image of this width."""
        return self.row * width + self.column

    def total(self, values: NDArray[Any]) -> NDArray[Any]:
        """Sum over the runs of each object."""
        return np.add.reduceat(values, self.first)

    @cached_property
    def boxes(self) -> Boxes:
        """The smallest upright box around each object."""
        last = np.append(self.first[1:], len(self.row)) - 1
        left = np.minimum.reduceat(self.column, self.first)
        right = np.maximum.reduceat(self.column + self.length, self.first)
        return Boxes(self.row[self.first], left, self.row[last] + 1, right)


@dataclass(frozen=True)
class Boxes:
    """First row and column, and the row and column after the last, of each object."""

    top: Integers
    left: Integers
    bottom: Integers
    right: Integers

    @property
    def middle_row(self) -> Integers:
        """The row in the middle."""
        return (self.top + self.bottom) // 2

    @property
    def middle_column(self) -> Integers:
        """The column in the middle."""
        return (self.left + self.right) // 2

    @property
    def height(self) -> Integers:
        """Rows from the first to the last."""
        return self.bottom - self.top

    @property
    def width(self) -> Integers:
        """Columns from the first to the last."""
        return self.right - self.left


def as_labels(labels: Any) -> NDArray[np.int32]:
    """A label image as int32, or an error that says what is wrong with it."""
    array = np.asarray(labels)
    if array.ndim != 2 or not (np.issubdtype(array.dtype, np.integer) or array.dtype == bool):
        raise ObjectsError(
            f"labels of shape {array.shape} and type {array.dtype} came; a label image is wanted: (height, width) "
            "whole numbers, 0 for background and 1, 2, ... for objects."
        )
    if array.size and array.min() < 0:
        raise ObjectsError(f"the label {array.min()} came; labels are 0 for background and 1, 2, ... for objects.")
    return np.ascontiguousarray(array, dtype=np.int32)


def grid(labels: Any, frame: int = 1) -> Grid:
    """The label image ready to be measured: checked, with a frame of zeros that is so many pixels wide, and flat."""
    array = as_labels(labels)
    framed = framed_flat(array, frame)
    count = int(array.max()) if array.size else 0
    made = Grid(framed, array.shape[1] + 2 * frame, count, frame)
    absent = np.flatnonzero(np.bincount(made.runs.owner, minlength=count) == 0)
    if len(absent):
        raise ObjectsError(
            f"labels run to {count} but {len(absent)} of them have no pixel, for instance {absent[0] + 1}; consecutive "
            "labels are wanted: Objects.from_labels renumbers them."
        )
    return made


def framed_flat(image: NDArray[Any], frame: int) -> NDArray[Any]:
    """An image with a frame of zeros, one row after the other."""
    height, width = image.shape
    framed = np.zeros((height + 2 * frame, width + 2 * frame), image.dtype)
    framed[frame : frame + height, frame : frame + width] = image
    return framed.ravel()


def _spread(first: Integers, length: Integers) -> Integers:
    """first, first + 1, ... for each run, as many as it is long."""
    ends = np.cumsum(length)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(first - ends + length, length)


def by_label(label: NDArray[np.int32], count: int) -> Integers:
    """The order that puts equal labels together and leaves the rest as it was."""
    small = label.astype(np.uint16) if count < 2**16 else label  # numpy counts instead of comparing 16-bit numbers
    return np.argsort(small, kind="stable")
