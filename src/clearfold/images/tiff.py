"""TIFF and OME-TIFF by tifffile: which page is the image, its scale, and its pixels."""

from __future__ import annotations

import importlib
import logging
import struct
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from clearfold.errors import ImageError, MissingExtraError
from clearfold.images.pictures import check_size, read_picture
from clearfold.images.pixels import rgb
from clearfold.images.scale import CENTIMETRE, INCH, from_aperio, from_dots, from_imagej, from_ome, ome_pixels

# Orientation 1 to 8 of TIFF and EXIF, as what makes an image upright.
UPRIGHT: dict[int, Any] = {
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.swapaxes(0, 1),
    6: lambda a: a.swapaxes(0, 1)[:, ::-1],
    7: lambda a: a[::-1, ::-1].swapaxes(0, 1),
    8: lambda a: a.swapaxes(0, 1)[::-1],
}
CUT = "its end is missing. Copy it again from its source."
STACKS = {"Z": "depths", "T": "times"}
MOST_PLANES = 1_000_000
COUNTS = {"IFD", "NumPlanes", "PlaneCount", *(f"{what}{axis}" for what in ("Size", "First") for axis in "ZCT")}
"""Attributes of OME-XML that count planes."""
GREY, COLOUR = {0, 1}, 2  # photometric: white is zero, black is zero; red, green and blue
LIBTIFF = {1, 2, 3, 4, 5, 6, 7, 8, 32773, 32946, 34925, 50000, 50001}  # what Pillow decodes
PLAIN = {1, 8, 32946, 32773, 34925}  # none, deflate, packbits, lzma: decoded without the library imagecodecs
UNASSOCIATED, ASSOCIATED = 2, 1  # what the tag ExtraSamples says of alpha


def extra(module: str) -> Any:
    """A module of the extra `images`."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f'This file needs {module}, which is not installed. Install it with: pip install "clearfold[images]"'
        ) from error


def open_tiff(path: Path) -> Any:
    """The directories of a file. What tifffile would print of damaged ones, our errors say."""
    tifffile = extra("tifffile")
    logger = logging.getLogger("tifffile")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    # An OME-TIFF can name other files to be read in its place: no file has a say in what else is opened.
    return tifffile.TiffFile(path, _multifile=False)


def read_tiff(path: Path, max_pixels: int) -> tuple[np.ndarray, float | None]:
    """The full resolution of the first image as RGB, upright, and micrometres a pixel."""
    with open_tiff(path) as file:
        page = image_levels(file)[0]
        check_size(page.imagewidth, page.imagelength, max_pixels)
        check_size(page.tilewidth or 1, page.tilelength or 1, max_pixels)
        mpp = tiff_mpp(file, page)
        if decodable(page):
            return page_rgb(file, page, whole_page(page)), mpp
        if page.compression not in LIBTIFF:
            raise ImageError(f"its pixels are compressed as {page.compression!r}. Open it with open_slide.")
    return read_picture(path, "TIFF", max_pixels)[0], mpp


def image_levels(file: Any) -> list[Any]:
    """The pages of the first image from fine to coarse; stacks and fluorescence are refused."""
    check_chain(file)
    check_ome(file)
    if not file.series:
        raise ImageError("it holds no image, or its end is missing. Copy it again from its source.")
    series = file.series[0]
    sizes = {axis: size for axis, size in zip(series.axes, series.shape, strict=True) if size > 1}
    stacked = {axis: size for axis, size in sizes.items() if axis not in "YXSC"}
    if stacked:
        said = " and ".join(f"{size} {STACKS.get(axis, 'pages')}" for axis, size in stacked.items())
        raise ImageError(f"it is a stack of {said}; wanted is one RGB image. Save the plane that you want by itself.")
    channels = sizes.get("C", 1) * sizes.get("S", 1)
    page = series.levels[0].keyframe
    if channels > 4 or sizes.get("C", 1) > 1 or (channels > 2 and page.photometric in GREY):
        raise ImageError(
            f"it has {channels} channels that are not red, green and blue, as fluorescence has; wanted is an RGB image "
            "of a stained section. Save an RGB rendering of it."
        )
    pages = [level.keyframe for level in series.levels]
    return pages if len(pages) > 1 else [page, *_coarser(page, [other.keyframe for other in file.series[1:]])]


def _coarser(page: Any, others: list[Any]) -> list[Any]:
    """Pages that say they are reduced copies and have the same shape: tifffile knows only steps of about 2."""

    def alike(other: Any) -> bool:
        across, down = page.imagewidth / other.imagewidth, page.imagelength / other.imagelength
        same = (other.dtype, other.samplesperpixel, other.is_tiled) == (page.dtype, page.samplesperpixel, page.is_tiled)
        return other.is_reduced and same and across > 1 and abs(across - down) < 0.02 * across

    return sorted(filter(alike, others), key=lambda other: -other.imagewidth)


def tiff_mpp(file: Any, page: Any) -> float | None:
    """From OME-XML, else Aperio's description, else ImageJ's, else the resolution tags where they make sense."""
    if file.is_ome:
        return from_ome(file.ome_metadata or "")
    description = page.description
    if description.startswith("Aperio"):
        return from_aperio(description)
    x, y = (_ratio(page.tags.get(name)) for name in ("XResolution", "YResolution"))
    if file.is_imagej:
        return from_imagej(description, x, y)
    unit = page.tags.valueof("ResolutionUnit", default=INCH)
    return from_dots(x, y, {INCH: 25_400.0, CENTIMETRE: 10_000.0}.get(int(unit), 0.0))


def decodable(page: Any) -> bool:
    """Whether tifffile alone decodes the page, and what it decodes needs no conversion of colours."""
    return page.compression in PLAIN and (page.photometric in GREY or page.photometric == COLOUR)


def whole_page(page: Any) -> np.ndarray:
    """All of a page as [height, width, channels]."""
    check_end(page)
    array = np.asarray(page.asarray())
    return np.moveaxis(array, 0, -1) if page.planarconfig == 2 and array.ndim == 3 else array


def page_rgb(file: Any, page: Any, array: np.ndarray, bits: int | None = None) -> np.ndarray:
    """What was stored in a page (or a part of it) as upright RGB."""
    bits = bits or declared_bits(file, page)
    if array.ndim == 3 and array.shape[2] in (2, 4) and not {UNASSOCIATED, ASSOCIATED} & set(page.extrasamples):
        array = array[:, :, :-1]  # a further channel of unknown meaning is not alpha
    pixels = rgb(array, bits=bits, premultiplied=ASSOCIATED in page.extrasamples)
    if page.photometric == 0:
        pixels = 255 - pixels
    turn = UPRIGHT.get(int(page.tags.valueof("Orientation", default=1)))
    return pixels if turn is None else np.ascontiguousarray(turn(pixels))


def declared_bits(file: Any, page: Any) -> int | None:
    """How many bits of a sample are used, where the file says so."""
    if page.dtype is None or page.dtype.kind not in "u":
        return None
    if page.bitspersample not in (8, 16, 32):
        return int(page.bitspersample)
    pixels = ome_pixels(file.ome_metadata or "") if file.is_ome else None
    said = pixels.get("SignificantBits", "") if pixels is not None else ""
    if said.isdecimal() and 0 < int(said) < page.bitspersample:
        return int(said)
    return 16 if page.dtype == np.uint16 and page.photometric == 0 else None


def check_chain(file: Any) -> None:
    """Refuse a file whose last page names a next one beyond the end."""
    form, handle = file.tiff, file.filehandle
    if form.is_ndpi or not len(file.pages):
        return
    handle.seek(file.pages[-1].offset)
    (tags,) = struct.unpack(form.tagnoformat, handle.read(form.tagnosize))
    handle.seek(tags * form.tagsize, 1)
    (following,) = struct.unpack(form.offsetformat, handle.read(form.offsetsize))
    if following >= handle.size:
        raise ImageError(CUT)


def check_ome(file: Any) -> None:
    """Refuse OME-XML that counts planes which are not there: tifffile would make room for all of them."""
    if not file.is_ome:
        return
    xml = file.ome_metadata or ""
    if "<!" in xml.replace("<!--", ""):
        raise ImageError("its OME-XML has a document type, which nothing needs. Save it anew.")
    try:
        nodes = list(ElementTree.fromstring(xml).iter())
    except ElementTree.ParseError:
        return
    said = [value for node in nodes for name, value in node.attrib.items() if name in COUNTS]
    if any(len(value) > 9 or int(value) > MOST_PLANES for value in said if value.strip("+- ").isdecimal()):
        raise ImageError(f"its OME-XML counts more than {MOST_PLANES:,} planes: it is damaged.")
    if any(node.tag[:-1].endswith("Along") for node in nodes):
        raise ImageError("it is a stack of further axes (ModuloAlong); wanted is one RGB image.")


def check_end(page: Any) -> None:
    """Refuse a page whose pixels lie beyond the end of the file."""
    ends = (offset + count for offset, count in zip(page.dataoffsets, page.databytecounts, strict=True))
    if max(ends, default=0) > page.parent.filehandle.size:
        raise ImageError(CUT)


def _ratio(tag: Any) -> float:
    numerator, denominator = tag.value if tag is not None else (0, 1)
    return numerator / denominator if denominator else 0.0
