"""Objects of an image: a label for each pixel, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clearfold.errors import InputTypeError, MissingExtraError, ObjectsError

Labels: TypeAlias = NDArray[np.int32]
Floats: TypeAlias = NDArray[np.float64]
Contour: TypeAlias = NDArray[np.float64]
Kind: TypeAlias = Literal["nucleus", "gland"]

KINDS: tuple[Kind, ...] = ("nucleus", "gland")
LARGEST_MPP = 1e9
SAME_SCALE = 0.02
"""Two scales that differ by less than this share are one scale, rounded differently."""


@dataclass(frozen=True, eq=False)
class Objects:
    """Nuclei or glands of one image: labels 1..n, 0 for the background.

    Coordinates are pixels, x to the right and y down, and (0, 0) is the centre of the first pixel. Make one with
    `Objects.from_labels`, which accepts what a segmenter gives; the constructor wants labels that are in order.
    """

    labels: Labels
    mpp: float | None = None
    kind: Kind = "nucleus"
    classes: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.labels.ndim != 2 or self.labels.dtype != np.int32:
            raise ObjectsError(
                f"Labels of the shape {self.labels.shape} and type {self.labels.dtype} came; wanted is [height, width] "
                "of int32. Objects.from_labels converts."
            )
        if self.labels.size and (self.labels.min() < 0 or not self.areas.all()):
            raise ObjectsError("Labels are not the numbers 1 to n without a gap. Objects.from_labels makes them so.")
        if self.kind not in KINDS:
            raise ObjectsError(f"kind={self.kind!r} came; wanted is {' or '.join(map(repr, KINDS))}.")
        if self.classes is not None and len(self.classes) != len(self):
            raise ObjectsError(f"{len(self.classes)} classes came for {len(self)} objects. Give one for each.")
        checked_mpp(self.mpp)

    @classmethod
    def from_labels(
        cls,
        mask: ArrayLike,
        mpp: float | None = None,
        kind: Kind = "nucleus",
        classes: Sequence[str] | None = None,
    ) -> Objects:
        """Labels made consecutive, their order kept; a mask of yes and no is split into connected parts.

        Whole numbers of any type are labels, each value one object even when it lies in several pieces. A mask of
        bool, or of uint8 with nothing but 0 and 255, has no labels yet: pixels that touch, also at a corner, are one
        object. `classes` has one name for each object, in the order of the labels.
        """
        values = _checked(np.asarray(mask))
        found = _components(values) if _is_binary(values) else _consecutive(values)
        return cls(found, mpp, kind, None if classes is None else tuple(map(str, classes)))

    def __len__(self) -> int:
        return len(self.areas)

    def __repr__(self) -> str:
        height, width = self.labels.shape
        scale = "scale unknown" if self.mpp is None else f"{self.mpp:g} um a pixel"
        plural = {"nucleus": "nuclei", "gland": "glands"}[self.kind]
        return f"<Objects: {len(self)} {plural} in {width} x {height} pixels, {scale}>"

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of the image."""
        return cast(tuple[int, int], self.labels.shape)

    @cached_property
    def areas(self) -> NDArray[np.int64]:
        """Pixels of each object."""
        return np.bincount(self.labels.ravel(), minlength=1)[1:]

    @cached_property
    def centroids(self) -> Floats:
        """Centre of each object, [n, 2] as x, y in pixels."""
        y, x = np.nonzero(self.labels)
        label = self.labels[y, x]
        sums = [np.bincount(label, weights=axis, minlength=len(self) + 1)[1:] for axis in (x, y)]
        return np.stack(sums, axis=1) / self.areas[:, None]

    @cached_property
    def slices(self) -> list[tuple[slice, slice]]:
        """Rows and columns that hold each object."""
        from scipy import ndimage

        return cast(list[tuple[slice, slice]], ndimage.find_objects(self.labels))

    @cached_property
    def contours(self) -> list[Contour]:
        """Outer boundary of each object, [k, 2] as x, y in pixels, the first point not repeated.

        It runs half way between a pixel of the object and its neighbour, so the pixels whose centres lie inside are
        those of the object. An object in several pieces has the boundary of the largest; holes are not seen.
        """
        return [max(rings, key=_enclosed)[:-1] for rings in self.rings]

    @property
    def rings(self) -> list[list[Contour]]:
        """All boundaries of each object, closed: outer ones, then those of further pieces and of holes."""
        trace = extra("skimage.measure").find_contours
        found = []
        for label, (rows, columns) in enumerate(self.slices, start=1):
            own = np.pad(self.labels[rows, columns] == label, 1).astype(np.float64)
            corner = np.array([columns.start - 1, rows.start - 1])
            found.append([ring[:, ::-1] + corner for ring in trace(own, 0.5, fully_connected="high")])
        return found

    def select(self, keep: ArrayLike) -> Objects:
        """The objects for which `keep` is true, numbered anew; everything about them stays."""
        kept = np.asarray(keep, dtype=bool)
        if kept.shape != (len(self),):
            raise ObjectsError(f"keep has the shape {kept.shape}; wanted is one value for each of {len(self)} objects.")
        number = np.concatenate([[0], np.where(kept, np.cumsum(kept), 0)]).astype(np.int32)
        classes = None if self.classes is None else tuple(np.array(self.classes, dtype=object)[kept])
        return Objects(number[self.labels], self.mpp, self.kind, classes)


def as_objects(
    objects: ArrayLike | Objects, shape: tuple[int, int], mpp: float | None = None, kind: Kind = "nucleus"
) -> Objects:
    """What a segmenter gave, as Objects of an image of that height and width.

    Objects stay as they are, and get the scale of the image when they have none. An array goes through
    `Objects.from_labels`.
    """
    given = objects if isinstance(objects, Objects) else Objects.from_labels(objects, mpp, kind)
    if given.shape != tuple(shape):
        raise ObjectsError(
            f"The objects are {given.shape[1]} x {given.shape[0]} pixels and the image is {shape[1]} x {shape[0]}. "
            "Wanted is a label for each pixel of the image."
        )
    if mpp is None or given.mpp == checked_mpp(mpp):
        return given
    if given.mpp is not None and abs(given.mpp - mpp) > SAME_SCALE * mpp:
        raise ObjectsError(
            f"The objects have {given.mpp:g} um a pixel and the image has {mpp:g}. Segment it again at its scale."
        )
    return replace(given, mpp=float(mpp))


def checked_mpp(mpp: float | None) -> float | None:
    """Micrometres a pixel: a positive number, or None when nobody knows."""
    if mpp is None:
        return None
    if not isinstance(mpp, int | float | np.number) or not 0 < mpp <= LARGEST_MPP:
        raise ObjectsError(f"mpp={mpp!r:.40} came; wanted is a positive number of micrometres a pixel, or None.")
    return float(mpp)


def extra(module: str) -> Any:
    """A module of the extra `images`, or a word on how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"This needs {module.split('.')[0]}, which is not installed. "
            'Install it with: pip install "clearfold[images]"'
        ) from error


def _checked(values: NDArray[Any]) -> NDArray[Any]:
    """Labels as bool or whole numbers that are not negative."""
    if values.dtype.kind not in "buif":
        raise InputTypeError(f"Labels of the type {values.dtype} came; wanted are whole numbers, 0 for the background.")
    if values.ndim != 2 or 0 in values.shape:
        raise ObjectsError(
            f"Labels have the shape {values.shape}; wanted is [height, width], one label for each pixel."
        )
    if values.dtype.kind == "f":
        if not np.isfinite(values).all():
            raise ObjectsError("Some labels are NaN or infinite; wanted are whole numbers, 0 for the background.")
        if (values != np.floor(values)).any():
            raise ObjectsError("Some labels are fractions, as in a map of probabilities. Threshold it: mask > 0.5.")
    if values.dtype.kind in "if" and values.min() < 0:
        raise ObjectsError(
            f"The smallest label is {values.min():g}; wanted are labels from 1 on, 0 for the background."
        )
    return values


def _is_binary(values: NDArray[Any]) -> bool:
    """Yes or no for each pixel, without labels: bool, or the 0 and 255 of a mask that was saved as a picture."""
    if values.dtype == bool:
        return True
    return values.dtype == np.uint8 and bool(((values == 0) | (values == 255)).all())


def _components(mask: NDArray[Any]) -> Labels:
    """Pixels that touch, also at a corner, are one object."""
    from scipy import ndimage

    found = np.empty(mask.shape, dtype=np.int32)
    ndimage.label(mask, structure=np.ones((3, 3)), output=found)
    return found


def _consecutive(values: NDArray[Any]) -> Labels:
    """Rank of each label among those that occur; 0 stays 0."""
    if values.dtype.kind != "f" and values.max() <= 8 * values.size:
        there = np.bincount(values.ravel()) > 0
        there[0] = False
        return np.where(there, np.cumsum(there), 0).astype(np.int32)[values]
    occurring, rank = np.unique(values, return_inverse=True)
    return (rank.reshape(values.shape) + (0 if occurring[0] == 0 else 1)).astype(np.int32)


def _enclosed(ring: Contour) -> float:
    """Area inside a closed ring (shoelace formula)."""
    x, y = ring.T
    return 0.5 * abs(float(x[:-1] @ y[1:] - x[1:] @ y[:-1]))
