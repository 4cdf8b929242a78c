"""PNG and JPEG by Pillow, and those TIFFs that its libtiff decodes."""

from __future__ import annotations

import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from clearfold.errors import ImageError
from clearfold.images.pixels import rgb
from clearfold.images.scale import from_dots

CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # by the colour type of a PNG
DEFLATE = 1100  # no stream of zlib unpacks to more than 1,032 times its size
JPEG = 2000  # pixels a byte; each block of 8 x 8 takes a bit at least, so a blank one has at most 512
_WARNINGS = threading.Lock()  # the filter of warnings belongs to the whole process


def read_picture(path: Path, kind: str, max_pixels: int) -> tuple[np.ndarray, float | None]:
    """The pixels of the first page as RGB, upright, and micrometres a pixel as the resolution says."""
    with open_picture(path, kind) as picture:
        check_size(picture.width, picture.height, max_pixels)
        if kind == "PNG":
            check_png(path)
        if kind == "JPEG" and picture.width * picture.height > JPEG * path.stat().st_size:
            raise _hollow(picture.width, picture.height)
        dots = picture.info.get("dpi", (0, 0))
        return picture_rgb(picture), from_dots(float(dots[0]), float(dots[1]), 25_400.0)


def open_picture(path: Path, kind: str) -> Any:
    """Only the header is read.

    The classes are called by name: `PIL.Image.open` would ask the process-wide limit of pixels, not ours, and try
    dozens of formats that nobody asked for.
    """
    from PIL import JpegImagePlugin, PngImagePlugin, TiffImagePlugin

    classes: dict[str, Any] = {
        "PNG": PngImagePlugin.PngImageFile,
        "JPEG": JpegImagePlugin.JpegImageFile,
        "TIFF": TiffImagePlugin.TiffImageFile,
    }
    with _WARNINGS, warnings.catch_warnings():  # damaged notes beside the pixels do no harm
        warnings.simplefilter("ignore")
        return classes[kind](path)


def check_size(width: int, height: int, max_pixels: int) -> None:
    """Refuse by the header, before anything is decoded."""
    if width < 1 or height < 1:
        raise ImageError(f"its header says {width} x {height} pixels: there is nothing to read.")
    if width * height > max_pixels:
        raise ImageError(
            f"its header says {width:,} x {height:,} pixels, more than the {max_pixels:,} that are read at once. "
            "Save it as a tiled TIFF and open it with open_slide, or give read_image a larger max_pixels."
        )


def check_png(path: Path) -> None:
    """Refuse a PNG whose header names more pixels than its bytes can ever unpack to, before room is made for them."""
    with path.open("rb") as file:
        header = file.read(26)
    if len(header) < 26:
        raise ImageError("its end is missing. Copy it again from its source.")
    width, height = int.from_bytes(header[16:20], "big"), int.from_bytes(header[20:24], "big")
    bits = header[24] * CHANNELS.get(header[25], 1)
    if width * height * bits // 8 > DEFLATE * path.stat().st_size:
        raise _hollow(width, height)


def _hollow(width: int, height: int) -> ImageError:
    return ImageError(
        f"its header says {width:,} x {height:,} pixels, far more than it holds: it is cut off or damaged."
    )


def picture_rgb(picture: Any) -> np.ndarray:
    """A Pillow image of any mode as RGB over white, turned upright by its EXIF orientation."""
    from PIL import ImageOps

    deep = deep_pixels(picture)
    if deep is not None:
        return rgb(deep)
    picture = ImageOps.exif_transpose(picture)
    if picture.mode.startswith("I") or picture.mode == "F":
        return rgb(np.asarray(picture))
    if picture.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in picture.info:
        return rgb(
            np.asarray(picture.convert("RGBa").convert("RGBA") if picture.mode == "RGBa" else picture.convert("RGBA"))
        )
    return rgb(np.asarray(picture.convert("RGB")))


def deep_pixels(picture: Any) -> np.ndarray | None:
    """All 16 bits of colour channels, of which Pillow keeps the upper 8; None for any other image.

    The same bytes are unpacked twice, once as if they were of the other byte order: that gives the lower 8.
    """
    from PIL import ImageOps

    tiles = list(getattr(picture, "tile", ())) if getattr(picture, "filename", "") else []
    modes = {tile[3] if isinstance(tile[3], str) else tile[3][0] for tile in tiles if tile[3]}
    if len(modes) != 1 or not (mode := str(modes.pop())).startswith(("RGB;16", "RGBA;16")):
        return None
    order = {"B": "L", "L": "B", "N": "B" if sys.byteorder == "little" else "L"}[mode[-1]]
    with open_picture(picture.filename, picture.format) as other:
        other.tile = [_with_mode(tile, mode[:-1] + order) for tile in tiles]
        halves = [np.asarray(ImageOps.exif_transpose(half)).astype(np.uint16) for half in (picture, other)]
    return halves[0] * np.uint16(256) + halves[1]


def _with_mode(tile: Any, mode: str) -> Any:
    args = mode if isinstance(tile[3], str) else (mode, *tile[3][1:])
    return tile._replace(args=args) if hasattr(tile, "_replace") else (*tile[:3], args)  # plain before Pillow 11
