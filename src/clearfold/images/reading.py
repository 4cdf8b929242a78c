"""One image: pixels, micrometres a pixel, a name; from a file, an array or a Pillow image."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from clearfold.errors import ClearfoldError, ImageError, InputError, InputTypeError
from clearfold.images.pictures import picture_rgb, read_picture
from clearfold.images.pixels import rgb
from clearfold.images.scale import given_mpp
from clearfold.images.tiff import read_tiff

MAX_PIXELS = 200_000_000
BEGINNINGS = {
    b"\x89PNG\r\n\x1a\n": "PNG",
    b"\xff\xd8\xff": "JPEG",
    b"II*\0": "TIFF",
    b"MM\0*": "TIFF",
    b"II+\0": "TIFF",
    b"MM\0+": "TIFF",
}


@dataclass(frozen=True, eq=False, repr=False)
class Image:
    """RGB pixels [height, width, 3] in 8 bits, and how many micrometres a pixel has (None: nobody said).

    >>> Image(np.zeros((20, 30, 3), np.uint8), mpp=0.5, name="tile")
    <Image 'tile': 30 x 20 pixels, 0.5 um a pixel>
    """

    pixels: np.ndarray
    mpp: float | None = None
    name: str = "image"

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        height, width = self.pixels.shape[:2]
        return width, height

    def __repr__(self) -> str:
        width, height = self.size
        scale = "scale unknown" if self.mpp is None else f"{self.mpp:.4g} um a pixel"
        return f"<Image {self.name!r}: {width} x {height} pixels, {scale}>"


def read_image(path: str | os.PathLike[str], *, mpp: float | None = None, max_pixels: int = MAX_PIXELS) -> Image:
    """A PNG, JPEG, TIFF or OME-TIFF as RGB in 8 bits, upright and over white.

    Parameters
    ----------
    mpp : micrometres a pixel; wins over what the file says
    max_pixels : an image whose header names more is refused before it is decoded
    """
    path, scale = Path(path), given_mpp(mpp)
    with named_errors(path):
        kind = kind_of(path)
        if kind is None:
            with path.open("rb") as file:
                begins = file.read(12)
            raise ImageError(f"it begins with {begins!r}; wanted is a PNG, JPEG or TIFF. Save it as one of these.")
        pixels, found = read_tiff(path, max_pixels) if kind == "TIFF" else read_picture(path, kind, max_pixels)
    return Image(pixels, scale or found, path.name)


def as_image(image: Any, mpp: float | None = None, name: str = "image") -> Image:
    """An array, a Pillow image, a path or an Image as Image: the check at every border.

    `mpp` and `name` are what the image does not say itself; a given `mpp` wins.

    >>> as_image(np.zeros((4, 6)), mpp=0.25)
    <Image 'image': 6 x 4 pixels, 0.25 um a pixel>
    """
    scale = given_mpp(mpp)
    if isinstance(image, Image):
        return image if scale is None else replace(image, mpp=scale)
    if isinstance(image, str | os.PathLike):
        return read_image(image, mpp=scale)
    if hasattr(image, "getbands"):  # Pillow, without importing it
        with named_errors(name):
            return Image(picture_rgb(image), scale, name)
    if isinstance(image, np.ndarray) or hasattr(image, "__array__") or isinstance(image, list | tuple):
        try:
            array = np.asarray(image)
        except ValueError as error:
            raise ImageError(f"{name}: what came is not an array ({error}); wanted is [height, width, 3].") from error
        return Image(rgb(array), scale, name)
    raise InputTypeError(
        f"An image of the type {type(image).__name__} came; wanted is an array [height, width, 3], a Pillow image, "
        "a path, or what read_image gives."
    )


def kind_of(path: Path) -> str | None:
    """PNG, JPEG or TIFF by the first bytes, None for another kind; what is no file is refused."""
    if not path.exists():
        raise ImageError("there is no such file. Check the name and the folder.")
    if not path.is_file():
        raise ImageError("this is a folder; wanted is a file. Name one of the images in it.")
    with path.open("rb") as file:
        start = file.read(16)
    if not start:
        raise ImageError("the file is empty. Copy it again from its source.")
    return next((kind for begins, kind in BEGINNINGS.items() if start.startswith(begins)), None)


@contextmanager
def named_errors(path: Path | str) -> Iterator[None]:
    """Whatever a decoder throws becomes an ImageError that names the file."""
    try:
        yield
    except InputError as error:
        raise ImageError(f"{path}: {error}") from error
    except ClearfoldError:
        raise
    except Exception as error:  # decoders throw struct.error, zlib.error, SyntaxError, IndexError and many more
        raise ImageError(
            f"{path}: it cannot be read ({type(error).__name__}: {error}). It may be cut off or damaged: copy it again "
            "from its source, or save it anew as PNG or TIFF."
        ) from error
