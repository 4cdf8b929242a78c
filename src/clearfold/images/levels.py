"""Where the pixels of a slide come from: OpenSlide, the segments of a TIFF, or one image in memory.

Each source has `sizes` (width, height from fine to coarse), `mpp`, and `read(level, x, y, width, height)`, which gives
RGB that lies inside of the level. Nothing is decoded beyond what is asked for.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from clearfold.errors import ImageError, MissingExtraError
from clearfold.images.pictures import read_picture
from clearfold.images.pixels import DEPTHS, rgb
from clearfold.images.reading import MAX_PIXELS, kind_of
from clearfold.images.scale import isotropic
from clearfold.images.tiff import (
    check_end,
    declared_bits,
    decodable,
    extra,
    image_levels,
    open_tiff,
    page_rgb,
    read_tiff,
    tiff_mpp,
)

SEGMENT = 64_000_000  # bytes of the largest strip or tile that is decoded at once, and of those that are kept


class Source(Protocol):
    """What a slide reads from."""

    sizes: list[tuple[int, int]]
    mpp: float | None

    def read(self, level: int, x: int, y: int, width: int, height: int) -> np.ndarray:
        """RGB [height, width, 3] of a rectangle inside of a level."""

    def close(self) -> None:
        """Let go of the file."""


def open_source(path: Path) -> Source:
    """The reader that fits a file best."""
    kind = kind_of(path)
    if kind in ("PNG", "JPEG"):
        return Whole(*read_picture(path, kind, MAX_PIXELS))
    vendor = _vendor(path, kind)
    if kind is None:
        if vendor is None:
            raise ImageError("no slide format that OpenSlide knows, and not a TIFF, PNG or JPEG.")
        return Scanned(path)
    file = open_tiff(path)
    try:
        _refuse_huge_tiles(file)
        if vendor not in (None, "generic-tiff"):
            file.close()
            return Scanned(path)
        pages = image_levels(file)
        if all(_in_parts(page) for page in pages):
            return Segments(file, pages)
        mpp = tiff_mpp(file, pages[0])
    except BaseException:
        file.close()
        raise
    file.close()
    if vendor:
        return Scanned(path, mpp=mpp)
    if pages[0].is_tiled:  # what only OpenSlide decodes; say so when it is missing
        extra("openslide")
    return Whole(*read_tiff(path, MAX_PIXELS))


def _vendor(path: Path, kind: str | None) -> str | None:
    try:
        openslide = extra("openslide")
    except MissingExtraError:
        if kind is None:
            raise
        return None
    return openslide.OpenSlide.detect_format(path)


def _refuse_huge_tiles(file: Any) -> None:
    """OpenSlide ends the whole process when the memory for a tile cannot be had, so damaged headers never reach it."""
    for page in file.pages:
        width, height = int(getattr(page, "tilewidth", 0)), int(getattr(page, "tilelength", 0))
        if width * height * 4 > 4 * SEGMENT:
            raise ImageError(f"its header says tiles of {width:,} x {height:,} pixels: it is damaged.")


def _in_parts(page: Any) -> bool:
    """Whether rectangles of a page can be decoded without the whole."""
    bounded = math.prod(page.chunks) * page.dtype.itemsize <= SEGMENT if page.dtype is not None else False
    upright = int(page.tags.valueof("Orientation", default=1)) == 1
    return decodable(page) and bounded and upright and page.dtype in (np.uint8, np.uint16, bool)


class Whole:
    """An image in memory as the only level."""

    def __init__(self, pixels: np.ndarray, mpp: float | None) -> None:
        self.pixels, self.mpp = pixels, mpp
        self.sizes = [(pixels.shape[1], pixels.shape[0])]

    def read(self, level: int, x: int, y: int, width: int, height: int) -> np.ndarray:
        """A part of the array."""
        return self.pixels[y : y + height, x : x + width]

    def close(self) -> None:
        """Nothing is open."""


class Scanned:
    """What OpenSlide reads; transparent places, which were never scanned, are white."""

    def __init__(self, path: Path, mpp: float | None = None) -> None:
        openslide = extra("openslide")
        self.slide = openslide.OpenSlide(path)
        self.sizes = [(int(width), int(height)) for width, height in self.slide.level_dimensions]
        said = [self.slide.properties.get(f"openslide.mpp-{axis}") for axis in "xy"]
        generic = self.slide.properties.get("openslide.vendor") == "generic-tiff"
        self.mpp = mpp if generic else isotropic(*(float(value) if value else None for value in said))

    def read(self, level: int, x: int, y: int, width: int, height: int) -> np.ndarray:
        """`read_region`, whose corner is counted in pixels of level 0."""
        factor = self.slide.level_downsamples[level]
        corner = (round(x * factor), round(y * factor))
        return rgb(np.asarray(self.slide.read_region(corner, level, (width, height))))

    def close(self) -> None:
        """Let go of the file."""
        self.slide.close()


class Segments:
    """Strips or tiles of a TIFF, decoded one by one by tifffile; the last ones are kept."""

    def __init__(self, file: Any, pages: list[Any]) -> None:
        self.file, self.pages = file, pages
        self.sizes = [(int(page.imagewidth), int(page.imagelength)) for page in pages]
        self.mpp = tiff_mpp(file, pages[0])
        for page in pages:
            check_end(page)
        self.lock = threading.Lock()
        self.kept: OrderedDict[tuple[int, int], np.ndarray] = OrderedDict()
        self.bits = declared_bits(file, pages[0])
        if pages[0].dtype == np.uint16 and self.bits is None:
            self.bits = self._used_bits()

    def read(self, level: int, x: int, y: int, width: int, height: int) -> np.ndarray:
        """Every segment that touches the rectangle is decoded, and its part is copied."""
        page = self.pages[level]
        parts = self._raw(level, x, y, width, height)
        return page_rgb(self.file, page, parts, self.bits)

    def close(self) -> None:
        """Let go of the file."""
        self.file.close()

    def _raw(self, level: int, x: int, y: int, width: int, height: int) -> np.ndarray:
        page = self.pages[level]
        tall, wide = self._segment_size(page)
        columns, rows = math.ceil(page.imagewidth / wide), math.ceil(page.imagelength / tall)
        planes = page.samplesperpixel if page.planarconfig == 2 else 1
        white = 0 if page.photometric == 0 else np.iinfo(page.dtype).max if page.dtype != bool else True
        result = np.full((height, width, page.samplesperpixel), white, page.dtype)
        for plane in range(planes):
            target = result[:, :, plane : plane + 1] if planes > 1 else result
            for row in range(y // tall, math.ceil((y + height) / tall)):
                for column in range(x // wide, math.ceil((x + width) / wide)):
                    segment = self._segment(level, (plane * rows + row) * columns + column)
                    if segment is not None:
                        _paste(segment, column * wide - x, row * tall - y, target)
        return result

    def _segment(self, level: int, index: int) -> np.ndarray | None:
        page = self.pages[level]
        with self.lock:
            if (level, index) in self.kept:
                self.kept.move_to_end((level, index))
                return self.kept[level, index]
            offset, count = page.dataoffsets[index], page.databytecounts[index]
            if count == 0:  # left out by the writer: nothing was scanned there
                return None
            handle = self.file.filehandle
            handle.seek(offset)
            data = handle.read(count)
        segment = page.decode(data, index)[0][0]
        with self.lock:
            self.kept[level, index] = segment
            while len(self.kept) > 1 and len(self.kept) * segment.nbytes > SEGMENT:
                self.kept.popitem(last=False)
        return segment

    @staticmethod
    def _segment_size(page: Any) -> tuple[int, int]:
        if page.is_tiled:
            return int(page.tilelength), int(page.tilewidth)
        return min(int(page.rowsperstrip), int(page.imagelength)), int(page.imagewidth)

    def _used_bits(self) -> int:
        """The fewest bits that hold the largest value of the coarsest level: one scale for all tiles."""
        width, height = self.sizes[-1]
        if width * height * 2 > SEGMENT:
            return 16
        largest = int(self._raw(len(self.pages) - 1, 0, 0, width, height).max())
        return next(depth for depth in DEPTHS if largest < 2**depth)


def _paste(segment: np.ndarray, x: int, y: int, target: np.ndarray) -> None:
    """Copy what of a segment, whose corner is at (x, y) of the target, lies in the target."""
    top, left = max(0, y), max(0, x)
    bottom, right = min(target.shape[0], y + segment.shape[0]), min(target.shape[1], x + segment.shape[1])
    target[top:bottom, left:right] = segment[top - y : bottom - y, left - x : right - x]
