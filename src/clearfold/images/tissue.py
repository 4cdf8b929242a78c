"""Where the tissue is: coloured, while glass is grey whatever its brightness."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import ndimage

from clearfold.images.reading import as_image
from clearfold.images.stain import DENSITY, white_balance

COLOURED = 12.0  # levels between the strongest and the weakest channel; glass has 0 to 5
DARK = 0.06  # optical density of tissue in an image without any colour
SMOOTH = 200  # the shorter side of an image is so many times the width of the smoothing


def tissue_mask(pixels: Any, *, ink: bool = True) -> np.ndarray:
    """max(r, g, b) - min(r, g, b) > 12 after white balance and smoothing, as a mask [height, width].

    In an image without colours tissue is what is darker than the brightest. `ink=False` leaves out whatever does not
    absorb green most, as hematoxylin and eosin do: pen marks in green, blue and black, but also brown (DAB).
    """
    levels = white_balance(as_image(pixels).pixels)
    sigma = max(0.5, min(levels.shape[:2]) / SMOOTH)
    r, g, b = (levels[:, :, channel] for channel in range(3))
    if (r == g).all() and (g == b).all():
        blank = g.min() == g.max()  # whatever its brightness
        return np.asarray((ndimage.gaussian_filter(DENSITY[g], sigma) > DARK) & ~blank)
    r, g, b = (ndimage.gaussian_filter(channel.astype(np.float32), sigma) for channel in (r, g, b))
    mask = np.maximum(np.maximum(r, g), b) - np.minimum(np.minimum(r, g), b) > COLOURED
    return np.asarray(mask if ink else mask & (g < np.minimum(r, b)))
