"""Numbers of any kind as RGB in 8 bits: one rule for arrays and for files."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearfold.errors import ImageError, InputTypeError

DEPTHS = (8, 12, 16, 32)  # bits; what instruments write


def rgb(array: Any, *, bits: int | None = None, premultiplied: bool = False) -> np.ndarray:
    """[height, width] or [height, width, 1 to 4] of any numbers, as RGB in 8 bits over white.

    One or two channels are grey (and alpha), three or four red, green, blue (and alpha).
    """
    array = np.asarray(array)
    if array.dtype == object or array.dtype.kind not in "buif":
        raise InputTypeError(f"Pixels of the type {array.dtype} came; wanted are numbers, such as uint8 from 0 to 255.")
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 2, 3, 4):
        hint = " The channels come last." if array.ndim == 3 and array.shape[0] in (3, 4) else ""
        raise ImageError(
            f"Pixels of the shape {array.shape} came; wanted is [height, width, 3] or [height, width].{hint}"
        )
    if array.size == 0:
        raise ImageError(f"Pixels of the shape {array.shape} came: an image without any pixel.")
    levels = eight_bits(array, bits)
    channels = levels.shape[2]
    colours = levels[:, :, : channels - 1] if channels in (2, 4) else levels
    if channels in (2, 4):
        colours = over_white(colours, levels[:, :, -1:], premultiplied)
    return np.ascontiguousarray(np.broadcast_to(colours, (*colours.shape[:2], 3)))


def eight_bits(array: np.ndarray, bits: int | None = None) -> np.ndarray:
    """round(255 v / (2^bits - 1)); bits not declared are the fewest of 8, 12, 16, 32 that hold the largest v.

    Floats up to 1 are shares of full light; larger ones are levels, like whole numbers.
    """
    if array.dtype == bool:
        return array.astype(np.uint8) * np.uint8(255)
    if array.dtype == np.uint8 and bits in (None, 8):
        return array
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ImageError("Some pixels are not finite: fill them before, for example with the background.")
    least, most = array.min(), array.max()
    if least < 0:
        raise ImageError(f"Pixels from {least:g} to {most:g} came: light is not negative. Shift them to begin at 0.")
    if array.dtype.kind == "f":
        if most <= 1 and bits is None:
            return np.rint(array * 255).astype(np.uint8)
        array = np.rint(array)
        most = array.max()
    if bits is None or most >= 2**bits:
        bits = next((depth for depth in DEPTHS if most < 2**depth), None)
    if bits is None:
        raise ImageError(f"Pixels up to {most:g} came; wanted are at most 32 bits.")
    top = 2**bits - 1
    if bits <= 16:  # a table of all levels: no large array of wider numbers is made
        table = ((np.arange(top + 1, dtype=np.int64) * 255 + top // 2) // top).astype(np.uint8)
        return table[array.astype(np.uint16, copy=False)]
    return np.rint(array * (255 / top)).astype(np.uint8)


def over_white(colours: np.ndarray, alpha: np.ndarray, premultiplied: bool = False) -> np.ndarray:
    """c a + 255 (1 - a), rounded; colours that were already multiplied by alpha only get 255 (1 - a)."""
    if alpha.min() == 255:
        return colours
    if premultiplied:
        return np.minimum(colours.astype(np.uint16) + (255 - alpha), 255).astype(np.uint8)
    return (255 - ((255 - colours).astype(np.uint16) * alpha + 127) // 255).astype(np.uint8)
