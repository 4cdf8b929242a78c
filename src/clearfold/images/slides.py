"""Slides: rectangles, thumbnails and tiles at any resolution, without the slide in memory."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from clearfold.errors import ImageError, InputError
from clearfold.images.levels import Source, open_source
from clearfold.images.reading import MAX_PIXELS, Image, named_errors
from clearfold.images.resampling import read_rectangle
from clearfold.images.scale import given_mpp
from clearfold.images.tissue import tissue_mask

FAR = 1e9  # pixels; NaN is not nearer either
OVERVIEW = 1024  # longest side of the thumbnail in which tissue is found


@dataclass(frozen=True, eq=False)
class Tile:
    """A rectangle of a slide: x, y, width, height in pixels of level 0, without its margin; the image has the margin.

    `margin` counts pixels of the image, on each side: `image.pixels[margin:-margin, margin:-margin]` is the rectangle.
    """

    x: int
    y: int
    width: int
    height: int
    image: Image
    margin: int


def open_slide(path: str | os.PathLike[str], *, mpp: float | None = None) -> Slide:
    """A whole slide, a pyramid or a plain image, ready to be read in parts; `mpp` wins over what the file says."""
    return Slide(path, mpp)


class Slide:
    """A slide that is read in parts. Use it in a `with`, from any thread; it can be sent to other processes.

    `size` is width and height in pixels of level 0, `mpp` micrometres a pixel there (None: nobody said).
    """

    def __init__(self, path: str | os.PathLike[str], mpp: float | None = None) -> None:
        self.path = Path(path)
        self.name = self.path.name
        self._given = given_mpp(mpp)
        self._source: Source | None = None
        self._process = os.getpid()
        with named_errors(self.path):
            self._source = open_source(self.path)
        self.size = self._source.sizes[0]
        self.mpp = self._given or self._source.mpp

    def close(self) -> None:
        """Let go of the file; reading is over."""
        if self._source is not None:
            self._source.close()
        self._source = None

    def __enter__(self) -> Slide:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return Slide, (self.path, self._given)

    def __repr__(self) -> str:
        scale = "scale unknown" if self.mpp is None else f"{self.mpp:.4g} um a pixel"
        return f"<Slide {self.name!r}: {self.size[0]} x {self.size[1]} pixels, {scale}>"

    def __del__(self) -> None:
        if getattr(self, "_source", None) is not None:
            self.close()

    # Reading -----------------------------------------------------------------------------------------------

    def read(self, x: float, y: float, width: float, height: float, *, mpp: float | None = None) -> Image:
        """The rectangle at (x, y), all in pixels of level 0, at `mpp` (None: as level 0 is); outside is white.

        A coarser resolution is the mean over the area of each pixel, from the coarsest level that is fine enough.
        """
        numbers = [x, y, width, height]
        if not all(isinstance(number, int | float | np.number) and abs(number) < FAR for number in numbers):
            raise InputError(f"x, y, width, height = {numbers} came; wanted are numbers of pixels.")
        if width <= 0 or height <= 0:
            raise InputError(f"{width} x {height} pixels came; wanted is a width and a height above 0.")
        scale = self._scale(mpp)
        shape = max(1, round(height / scale)), max(1, round(width / scale))
        return Image(self._area(x, y, width, height, shape), given_mpp(mpp) or self.mpp, self.name)

    def thumbnail(self, most: int = 1024) -> Image:
        """The whole slide with at most `most` pixels on its longer side."""
        _whole("most", most, 1)
        width, height = self.size
        scale = max(1.0, max(self.size) / most)
        shape = max(1, round(height / scale)), max(1, round(width / scale))
        mpp = None if self.mpp is None else self.mpp * scale
        return Image(self._area(0, 0, width, height, shape), mpp, self.name)

    def _scale(self, mpp: float | None) -> float:
        """Pixels of level 0 for each pixel that is wanted."""
        wanted = given_mpp(mpp)
        if wanted is None:
            return 1.0
        if self.mpp is None:
            raise ImageError(
                f"{self.path}: mpp={mpp} was asked for, but the slide does not say how many micrometres its pixels "
                "have. Give them: open_slide(path, mpp=0.25), or read without mpp for the pixels as they are."
            )
        return wanted / self.mpp

    def _area(self, x: float, y: float, width: float, height: float, shape: tuple[int, int]) -> np.ndarray:
        """The rectangle as an image of `shape`."""
        if math.prod(shape) > MAX_PIXELS:
            raise ImageError(
                f"{self.path}: {shape[1]:,} x {shape[0]:,} pixels were asked for, more than the {MAX_PIXELS:,} that "
                "are read at once. Ask for tiles, a smaller rectangle or a larger mpp."
            )
        with named_errors(self.path):
            return read_rectangle(self._open_source(), x, y, width, height, shape)

    def _open_source(self) -> Source:
        if self._source is None:
            raise ImageError("the slide was closed. Open it again with open_slide.")
        if self._process != os.getpid():  # after a fork both processes would move the same file position
            self._source, self._process = open_source(self.path), os.getpid()
        return self._source

    # Tiles -------------------------------------------------------------------------------------------------

    def tiles(
        self, size: int = 1024, *, mpp: float | None = None, margin: int = 0, tissue: float = 0.1
    ) -> Iterator[Tile]:
        """Squares of `size` pixels at `mpp`, row by row, that together cover the slide once.

        Parameters
        ----------
        margin : pixels around each square that its image shows as well, so that objects at its border are whole
        tissue : only squares with at least this share of tissue; 0 for all
        """
        squares = self.squares(size, mpp=mpp, margin=margin, tissue=tissue)
        return (self._tile(square, mpp, margin) for square in squares)

    def count_tiles(self, size: int = 1024, *, mpp: float | None = None, margin: int = 0, tissue: float = 0.1) -> int:
        """How many tiles `tiles` gives for the same arguments."""
        return len(self.squares(size, mpp=mpp, margin=margin, tissue=tissue))

    def _tile(self, square: tuple[int, int, int, int], mpp: float | None, margin: int) -> Tile:
        x, y, width, height = square
        scale = self._scale(mpp)
        shape = max(1, round(height / scale)), max(1, round(width / scale))
        around = width / shape[1] * margin, height / shape[0] * margin
        box = x - around[0], y - around[1], width + 2 * around[0], height + 2 * around[1]
        pixels = self._area(*box, (shape[0] + 2 * margin, shape[1] + 2 * margin))
        image = Image(pixels, given_mpp(mpp) or self.mpp, f"{self.name} at {x}, {y}")
        return Tile(x, y, width, height, image, margin)

    def squares(
        self, size: int = 1024, *, mpp: float | None = None, margin: int = 0, tissue: float = 0.1
    ) -> list[tuple[int, int, int, int]]:
        """Where the tiles of `tiles` lie, for the same arguments: x, y, width, height in pixels of level 0."""
        _whole("size", size, 1)
        _whole("margin", margin, 0)
        if isinstance(tissue, bool) or not 0 <= tissue <= 1:
            raise InputError(f"tissue={tissue!r} came; wanted is a share from 0 (all tiles) to 1.")
        step = size * self._scale(mpp)
        columns, rows = (_edges(length, step) for length in self.size)
        squares = [(x, y, right - x, bottom - y) for y, bottom in rows for x, right in columns]
        return squares if tissue == 0 else [square for square in squares if self._tissue(*square) >= tissue]

    def _tissue(self, x: int, y: int, width: int, height: int) -> float:
        """The share of tissue of a rectangle, as the overview shows it."""
        across, down = (length / part for length, part in zip(self.size, self._overview.shape[::-1], strict=True))
        rows = slice(math.floor(y / down), math.ceil((y + height) / down))
        columns = slice(math.floor(x / across), math.ceil((x + width) / across))
        return float(self._overview[rows, columns].mean())

    @cached_property
    def _overview(self) -> np.ndarray:
        return tissue_mask(self.thumbnail(OVERVIEW).pixels)


def _whole(name: str, number: Any, least: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < least:
        raise InputError(f"{name}={number!r} came; wanted is a whole number of pixels from {least} on.")


def _edges(length: int, step: float) -> list[tuple[int, int]]:
    """Cut 0 .. length into pieces of `step`, rounded to whole pixels; a last piece of less than a pixel is joined."""
    cuts = sorted({*(round(i * step) for i in range(max(1, math.ceil(length / step)))), length})
    return list(pairwise(cuts))
