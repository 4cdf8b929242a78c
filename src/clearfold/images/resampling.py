"""A rectangle of a slide at any resolution: the best level, read in blocks, as means over the area of each pixel."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from clearfold.images.levels import Source

BLOCK = 2048  # pixels of a level, in both directions, that are read at once


def read_rectangle(
    source: Source, x: float, y: float, width: float, height: float, shape: tuple[int, int]
) -> np.ndarray:
    """A rectangle of level 0 as an image of `shape`, made block by block so that never more is decoded."""
    steps = width / shape[1], height / shape[0]
    level = _best_level(source.sizes, min(steps))
    fine = [_factor(*lengths) for lengths in zip(source.sizes[0], source.sizes[level], strict=True)]
    if max(steps[0] / fine[0], steps[1] / fine[1]) > BLOCK / 4:  # a single pixel of ours would be many blocks
        finer = read_rectangle(source, x, y, width, height, (shape[0] * 8, shape[1] * 8))
        return area_mean(finer, np.arange(shape[0] + 1) * 8, np.arange(shape[1] + 1) * 8)
    columns = x / fine[0] + np.arange(shape[1] + 1) * (steps[0] / fine[0])
    rows = y / fine[1] + np.arange(shape[0] + 1) * (steps[1] / fine[1])
    result = np.empty((*shape, 3), np.uint8)
    for top, bottom in _blocks(rows):
        for left, right in _blocks(columns):
            result[top:bottom, left:right] = _resampled(
                source, level, columns[left : right + 1], rows[top : bottom + 1]
            )
    return result


def _best_level(sizes: list[tuple[int, int]], step: float) -> int:
    """The coarsest level that is still as fine as `step` pixels of level 0."""
    finer = [min(sizes[0][0] / width, sizes[0][1] / height) for width, height in sizes]
    return max((level for level in range(len(sizes)) if finer[level] <= step * 1.01), key=finer.__getitem__, default=0)


def _factor(whole: int, part: int) -> float:
    """Pixels of level 0 in one of a level: a whole number where the sizes, which were rounded, allow it."""
    factor = round(whole / part)
    return float(factor) if abs(whole - factor * part) <= factor else whole / part


def _blocks(edges: np.ndarray) -> Iterator[tuple[int, int]]:
    """Runs of output pixels whose edges span at most a block."""
    count = len(edges) - 1
    run = max(1, int(BLOCK * count / max(edges[-1] - edges[0], 1e-9)))
    run = min(run, BLOCK)
    for start in range(0, count, run):
        yield start, min(start + run, count)


def _resampled(source: Source, level: int, columns: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """One block of pixels whose edges are given in pixels of the level."""
    finer = columns[1] - columns[0] < 0.99 or rows[1] - rows[0] < 0.99
    pad = 2 if finer else 0
    left, top = (math.floor(edges[0] + 1e-6) - pad for edges in (columns, rows))
    right, bottom = (math.ceil(edges[-1] - 1e-6) + pad for edges in (columns, rows))
    pixels = _inside(source, level, left, top, right - left, bottom - top)
    if finer:
        from PIL import Image as Pillow

        box = (columns[0] - left, rows[0] - top, columns[-1] - left, rows[-1] - top)
        wanted = (len(columns) - 1, len(rows) - 1)
        return np.asarray(Pillow.fromarray(pixels).resize(wanted, Pillow.Resampling.BILINEAR, box=box))
    return area_mean(pixels, rows - top, columns - left)


def _inside(source: Source, level: int, x: int, y: int, width: int, height: int) -> np.ndarray:
    """What the level has of a rectangle, and white outside of the slide.

    A level can end a pixel before the slide does, because a half pixel was dropped: there its last pixel is repeated.
    """
    has = source.sizes[level]
    spans = [math.ceil(whole / _factor(whole, part)) for whole, part in zip(source.sizes[0], has, strict=True)]
    left, top, right, bottom = max(0, x), max(0, y), min(spans[0], x + width), min(spans[1], y + height)
    result = np.full((height, width, 3), 255, np.uint8)
    if right <= left or bottom <= top:
        return result
    first = min(left, has[0] - 1), min(top, has[1] - 1)
    last = min(right, has[0]), min(bottom, has[1])
    part = source.read(level, *first, last[0] - first[0], last[1] - first[1])
    if first == (x, y) and last == (x + width, y + height):
        return part
    rows, columns = np.arange(top, bottom) - first[1], np.arange(left, right) - first[0]
    repeated = part[np.minimum(rows, len(part) - 1)[:, None], np.minimum(columns, part.shape[1] - 1)]
    result[top - y : bottom - y, left - x : right - x] = repeated
    return result


def area_mean(pixels: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The mean of the pixels between neighbouring edges, parts of pixels weighted by their area.

    >>> area_mean(np.array([[[0], [100], [200]]], np.uint8), np.array([0, 1]), np.array([0, 1.5, 3]))[0, :, 0]
    array([ 33, 167], dtype=uint8)
    """
    if _whole_pixels(rows, pixels.shape[0]) and _whole_pixels(columns, pixels.shape[1]):
        return pixels
    down, across = _overlap(rows, pixels.shape[0]), _overlap(columns, pixels.shape[1])
    height, width, channels = pixels.shape
    shorter = down @ pixels.reshape(height, -1).astype(np.float32)
    turned = np.ascontiguousarray(shorter.reshape(-1, width, channels).swapaxes(0, 1)).reshape(width, -1)
    means = (across @ turned).reshape(-1, len(rows) - 1, channels).swapaxes(0, 1)
    return np.rint(means).clip(0, 255).astype(np.uint8)


def _whole_pixels(edges: np.ndarray, length: int) -> bool:
    return len(edges) == length + 1 and bool(np.abs(edges - np.arange(length + 1)).max() < 1e-3)


def _overlap(edges: np.ndarray, length: int) -> Any:
    """Share of each of `length` pixels in each interval between edges, as a sparse matrix whose rows sum to 1."""
    edges = np.clip(edges, 0, length)
    cuts = np.unique(np.concatenate([edges, np.arange(math.ceil(edges[0]), math.floor(edges[-1]) + 1)]))
    middle = (cuts[:-1] + cuts[1:]) / 2
    interval = np.searchsorted(edges, middle) - 1
    share = np.diff(cuts) / np.diff(edges)[interval]
    return sparse.csr_matrix((share.astype(np.float32), (interval, middle.astype(int))), shape=(len(edges) - 1, length))
