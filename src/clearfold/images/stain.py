"""Stains: how much hematoxylin and eosin each pixel has, and the light that no stain has touched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from clearfold.errors import InputError
from clearfold.images.reading import as_image

# Unit optical densities in red, green, blue of usual hematoxylin and eosin.
HEMATOXYLIN, EOSIN = (0.65, 0.70, 0.29), (0.22, 0.80, 0.56)
FIXED = np.array([HEMATOXYLIN, EOSIN]) / np.linalg.norm([HEMATOXYLIN, EOSIN], axis=1, keepdims=True)
DENSITY = -np.log10(np.maximum(np.arange(256), 1) / 255)  # of each level; 0 is taken as 1
STAINED = 0.065  # a fainter pixel in any channel tells nothing of its stain (Macenko's 0.15 in natural logarithms)
FEW = 400  # stained pixels
EXTREME = 1.0  # percent of the angles beyond a stain vector
APART = (8.0, 60.0)  # degrees between two believable stains
ASTRAY = 30.0  # degrees from the fixed vector of the same stain
ORDER = 0.05  # difference in redness below which nobody can say which stain is which


@dataclass(frozen=True, eq=False)
class Stains:
    """Concentrations [height, width] in optical density (log 10), and the rows of `matrix` they belong to.

    `method` is "macenko", "fixed" or "given"; `reason` says why the image's own stains were not taken.
    """

    hematoxylin: np.ndarray
    eosin: np.ndarray
    matrix: np.ndarray
    method: str
    reason: str = ""

    def __repr__(self) -> str:
        height, width = self.hematoxylin.shape
        return f"<Stains: {width} x {height} pixels, {self.method}{f' ({self.reason})' if self.reason else ''}>"


def separate_stains(pixels: Any, *, matrix: Any = None) -> Stains:
    """Least squares of optical density = c_hematoxylin h + c_eosin e; white has 0 of both.

    h and e are the image's own by Macenko et al. (2009) where they are believable, else fixed ones after Ruifrok and
    Johnston (2001), or the rows of `matrix` (2, 3). Concentrations of a colour that no mixture gives can be negative.
    """
    levels = as_image(pixels).pixels
    if matrix is not None:
        rows, method, reason = _given(matrix), "given", ""
    else:
        rows, reason = _macenko(levels)
        method = "fixed" if reason else "macenko"
    solve = np.linalg.pinv(rows)  # (3, 2)
    hematoxylin, eosin = (sum((DENSITY * solve[c, s])[levels[:, :, c]] for c in range(3)) for s in range(2))
    return Stains(np.asarray(hematoxylin), np.asarray(eosin), rows, method, reason)


def _macenko(levels: np.ndarray) -> tuple[np.ndarray, str]:
    """The two extreme directions in the plane of stained pixels; or the fixed ones and the reason."""
    density = DENSITY[levels.reshape(-1, 3)[:: max(1, levels.size // 3 // 1_000_000)]]
    density = density[(density > STAINED).all(axis=1)]
    if len(density) < FEW:
        return FIXED, f"{len(density)} stained pixels, fewer than {FEW}"
    # Not centred, as Macenko's is: stains mix along rays from the origin, so their plane goes through it.
    plane = np.linalg.svd(density.T @ density)[0][:, :2]
    plane *= np.where(plane.sum(axis=0) < 0, -1, 1)
    angles = np.arctan2(*(density @ plane).T[::-1])
    extremes = np.percentile(angles, [EXTREME, 100 - EXTREME])
    rows = np.clip(np.column_stack([np.cos(extremes), np.sin(extremes)]) @ plane.T, 0, None)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if (lengths < 0.5).any():
        return FIXED, "a stain would absorb less than nothing"
    rows = rows / lengths
    rows = rows[np.argsort(-_redness(rows))]
    return _believable(rows)


def _redness(rows: np.ndarray) -> np.ndarray:
    """Hematoxylin takes the red light, eosin lets it through: the share of red among what is absorbed."""
    return rows[:, 0] / rows.sum(axis=1)


def _believable(rows: np.ndarray) -> tuple[np.ndarray, str]:
    between = _degrees(rows[0], rows[1])
    if not APART[0] <= between <= APART[1]:
        return FIXED, f"{between:.0f} degrees between the stains, not {APART[0]:.0f} to {APART[1]:.0f}"
    if (difference := -np.diff(_redness(rows))[0]) < ORDER:
        return FIXED, f"both stains absorb red nearly alike (shares differ by {difference:.2f})"
    for name, row, usual in zip(("hematoxylin", "eosin"), rows, FIXED, strict=True):
        if (off := _degrees(row, usual)) > ASTRAY:
            return FIXED, f"the stain taken for {name} is {off:.0f} degrees from the usual one"
    return rows, ""


def _degrees(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.degrees(np.arccos(np.clip(a @ b, -1, 1))))


def _given(matrix: Any) -> np.ndarray:
    try:
        rows = np.asarray(matrix, dtype=float)
    except (TypeError, ValueError):
        rows = np.empty(0)
    if rows.shape != (2, 3) or not np.isfinite(rows).all() or (rows < 0).any() or np.linalg.matrix_rank(rows) < 2:
        raise InputError(
            f"matrix={matrix!r} came; wanted are two different rows, hematoxylin and eosin, with their optical "
            "densities in red, green and blue, none of them negative."
        )
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def white_balance(pixels: Any) -> np.ndarray:
    """255 v / b in each channel, with b the colour of the background: the background becomes white.

    An image that shows no background is given back as it came. Applied twice it gives the same as once.
    """
    levels = as_image(pixels).pixels
    background = _background(levels)
    if background is None:
        return levels
    table = np.minimum(np.rint(np.arange(256)[:, None] * 255 / background), 255).astype(np.uint8)
    return np.stack([table[levels[:, :, c], c] for c in range(3)], axis=2)


def _background(levels: np.ndarray) -> np.ndarray | None:
    """The colour that most of the brightest 2 % reach; None when it is white already, or dark, coloured or purple.

    Bright is what is bright in its darkest channel: a strong pink is as red as glass. At least 85 % of those pixels
    become white, more than the 1 % from which an image counts as white already.
    """
    flat = levels.reshape(-1, 3)
    darkest = np.minimum(np.minimum(flat[:, 0], flat[:, 1]), flat[:, 2])
    if (darkest >= 254).mean() >= 0.01:
        return None
    brightest = flat[darkest >= np.percentile(darkest, 98, method="lower")]
    red, green, blue = background = np.percentile(brightest, 5, axis=0, method="lower").astype(float)
    stained = min(red, blue) - green > 20
    return None if background.min() < 160 or np.ptp(background) > 50 or stained else background
