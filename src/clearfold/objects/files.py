"""Objects in files: outlines as GeoJSON, label masks as pictures."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from clearfold.errors import MissingExtraError, ObjectsError
from clearfold.objects.collection import Objects, extra
from clearfold.objects.geojson import features, read_polygons, write_features
from clearfold.objects.polygons import Polygons

OUTLINES = (".geojson", ".json")
MASKS = (".png", ".tif", ".tiff", ".npy")
Path_ = str | os.PathLike[str]
MOST_IN_A_TILE = 64_000_000
"""Pixels of a tile of a mask; of more, a header speaks that is damaged."""


def read_objects(
    path: Path_, shape: tuple[int, int], *, mpp: float | None = None, offset: tuple[float, float] = (0, 0)
) -> Objects:
    """The objects of an image of that height and width: GeoJSON, HoVer-Net JSON, or a label mask (PNG, TIFF, npy).

    `offset` is x, y of the image's first pixel in the coordinates of the outlines, for a piece of a slide; a mask has
    the size of the image. Outlines outside of the image are dropped and counted in a warning.
    """
    path = Path(path)
    if path.suffix.lower() in OUTLINES:
        found = read_polygons(path, mpp=mpp)
        moved = [[ring - offset for ring in own] for own in found.rings] if any(offset) else found.rings
        return Polygons(moved, found.classes, found.mpp, found.kind).whole(shape, path.name)
    if path.suffix.lower() not in MASKS:
        raise ObjectsError(f"{path.name} has no known suffix. Wanted is one of {', '.join(OUTLINES + MASKS)}.")
    try:
        return Objects.from_labels(_mask(path, tuple(shape)), mpp)
    except ObjectsError as error:
        raise ObjectsError(f"{path.name}: {error}") from error


def write_objects(objects: Objects, path: Path_) -> None:
    """GeoJSON that QuPath opens, with classes and scale; or a label mask (.png, .tif, .npy), which has neither.

    A file that was there stays as it was unless the new one is whole.
    """
    from clearfold.table import atomic_write

    suffix = Path(path).suffix.lower()
    if suffix not in OUTLINES + MASKS:
        raise ObjectsError(f"{Path(path).name} has no known suffix. Wanted is one of {', '.join(OUTLINES + MASKS)}.")
    with atomic_write(path) as temporary:
        if suffix in OUTLINES:
            with temporary.open("w", encoding="utf-8") as file:
                write_features(file, features(objects), objects.mpp, objects.kind)
        elif suffix == ".npy":
            np.save(temporary, objects.labels)
        elif suffix == ".png":
            _write_png(objects, temporary)
        else:
            extra("tifffile").imwrite(temporary, objects.labels, compression="zlib")


def _write_png(objects: Objects, path: Path) -> None:
    from PIL import Image

    if len(objects) > 65_535:
        raise ObjectsError(f"A PNG holds 65,535 labels and these are {len(objects):,}. Write .tif or .geojson.")
    Image.fromarray(objects.labels.astype(np.uint16)).save(path, format="PNG")


def _mask(path: Path, shape: tuple[int, ...]) -> Any:
    """The labels of a mask; its size is compared before its pixels are read."""
    if not path.is_file():
        raise ObjectsError("there is no such file.")
    try:
        if path.suffix.lower() == ".npy":
            return np.asarray(_fitting(np.load(path, mmap_mode="r", allow_pickle=False), shape))
        if path.suffix.lower() == ".png":
            return _png(path, shape)
        from clearfold.images.tiff import check_end, open_tiff

        with open_tiff(path) as file:
            page = file.pages[0]
            _fitting(page, shape)
            segment = max(1, page.tilewidth or 1) * max(1, page.tilelength or 1)
            if segment > MOST_IN_A_TILE or page.samplesperpixel != 1:
                raise ObjectsError("its header speaks of tiles or channels that no mask has: it is damaged.")
            check_end(page)
            return page.asarray()
    except (ObjectsError, MissingExtraError):
        raise
    except Exception as error:  # decoders raise what they like on a damaged file
        raise ObjectsError(f"this is not a readable label mask ({error}). Write it again.") from error


def _png(path: Path, shape: tuple[int, ...]) -> Any:
    """Grey levels, or the places in a palette, are labels; the same in red, green and blue is grey."""
    from clearfold.images.pictures import open_picture

    with open_picture(path, "PNG") as picture:  # only that: of other kinds, some are programs that Pillow would run
        if picture.size[::-1] != shape:
            raise _misfit(picture.size[::-1], shape)
        values = np.asarray(picture)
    if values.ndim == 3:
        colours = values[:, :, : {2: 1, 4: 3}.get(values.shape[2], values.shape[2])]
        if (colours != colours[:, :, :1]).any():
            raise ObjectsError("this is a coloured picture. Wanted is a label mask: one number for each pixel.")
        return colours[:, :, 0]
    return values


def _fitting(array: Any, shape: tuple[int, ...]) -> Any:
    if tuple(array.shape) != shape:
        raise _misfit(tuple(array.shape), shape)
    return array


def _misfit(came: tuple[int, ...], wanted: tuple[int, ...]) -> ObjectsError:
    return ObjectsError(f"the mask has the shape {came} and the image {wanted}, as height, width. They must be equal.")
