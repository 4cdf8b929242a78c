"""Colour: hematoxylin and eosin as optical densities, light let through as exp(-density)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.ndimage import gaussian_filter, map_coordinates

from clearfold.datasets.placement import LUMEN, Real
from clearfold.datasets.recipes import Recipe

HEMATOXYLIN = np.array([0.65, 0.70, 0.29])
EOSIN = np.array([0.15, 0.94, 0.30])
"""Optical density of red, green and blue for one unit of each stain."""
GRAIN = 2.0
"""SD of the camera's noise in grey levels."""


def stained(
    wanted: Recipe, nuclei: Any, depth: Real, glands: Any, gland_depth: Real, mpp: float, random: np.random.Generator
) -> NDArray[np.uint8]:
    """The image: stroma with fibres, glands with a lumen, nuclei with chromatin; then optics and camera."""
    shape = nuclei.shape
    hematoxylin = 0.10 + 0.03 * smooth(shape, 12 / mpp, random)
    eosin = np.clip(0.34 + 0.06 * smooth(shape, 14 / mpp, random) + 0.07 * fibres(shape, mpp, random), 0.05, None)
    eosin += 0.03 * smooth(shape, 0.8 / mpp, random)
    clefts = np.clip(smooth(shape, 6 / mpp, random) - 1.6, 0, 1)
    eosin *= 1 - 0.9 * clefts
    _glands(hematoxylin, eosin, glands, gland_depth, mpp, random)
    inside = nuclei > 0
    chromatin = _chromatin(wanted, nuclei, depth, mpp, random)
    hematoxylin[inside] = chromatin[inside]
    eosin[inside] = 0.45 * eosin[inside] + 0.04
    hematoxylin = gaussian_filter(hematoxylin, 0.35 / mpp) * wanted.hematoxylin
    eosin = gaussian_filter(eosin, 0.35 / mpp) * wanted.eosin
    density = hematoxylin[..., None] * HEMATOXYLIN + eosin[..., None] * EOSIN
    light = 245 * np.exp(-density) + random.normal(0.0, GRAIN, (*shape, 3))
    return np.clip(np.rint(light), 0, 255).astype(np.uint8)


def smooth(shape: Any, width: float, random: np.random.Generator) -> Real:
    """Gaussian noise of SD 1 without detail finer than `width` pixels."""
    return _blurred_noise(shape, width, width, random)


def fibres(shape: Any, mpp: float, random: np.random.Generator) -> Real:
    """Streaks along a direction that changes slowly: noise looked up where a wavy shear moves it."""
    streaks = _blurred_noise(shape, 0.9 / mpp, 7 / mpp, random)
    bend = smooth(shape, 22 / mpp, random) * 7 / mpp
    rows, columns = np.indices(shape)
    tilt = np.tan(random.uniform(-0.7, 0.7))
    return np.asarray(map_coordinates(streaks, [rows + bend + tilt * columns, columns], order=1, mode="grid-wrap"))


def _blurred_noise(shape: Any, down: float, across: float, random: np.random.Generator) -> Real:
    """White noise through a Gaussian of these widths in pixels, at SD 1; by Fourier, so that wide ones cost no more."""
    waves = [np.fft.fftfreq(shape[0])[:, None] * down, np.fft.rfftfreq(shape[1])[None, :] * across]
    window = np.exp(-2 * np.pi**2 * (waves[0] ** 2 + waves[1] ** 2))
    noise = fft.irfft2(fft.rfft2(random.normal(size=shape)) * window, s=shape)
    noise -= noise.mean()
    return noise / max(float(noise.std()), 1e-12)


def _glands(hematoxylin: Real, eosin: Real, glands: Any, depth: Real, mpp: float, random: np.random.Generator) -> None:
    """Cytoplasm of the epithelium, then an empty lumen with a soft border."""
    inside = glands > 0
    if not inside.any():
        return
    texture = smooth(glands.shape, 2 / mpp, random)
    hematoxylin[inside] = 0.20 + 0.03 * texture[inside]
    eosin[inside] = 0.30 + 0.04 * texture[inside]
    uneven = depth + 0.03 * smooth(glands.shape, 3 / mpp, random)
    filled = np.clip((uneven - LUMEN) / 0.06 + 0.5, 0, 1)[inside]
    hematoxylin[inside] = 0.01 + (hematoxylin[inside] - 0.01) * filled
    eosin[inside] = 0.02 + (eosin[inside] - 0.02) * filled


def _chromatin(wanted: Recipe, nuclei: Any, depth: Real, mpp: float, random: np.random.Generator) -> Real:
    """Hematoxylin in nuclei: each its own darkness, coarse grains, a darker rim, and nucleoli when irregular."""
    count = int(nuclei.max(initial=0))
    coarse = 0.5 + 4 * wanted.irregularity
    own = np.append(0.0, wanted.darkness * np.exp(random.normal(0.0, 0.10 + wanted.irregularity, count)))
    grains = smooth(nuclei.shape, coarse / mpp, random)
    rim = np.exp(-(((depth - 0.92) / 0.12) ** 2))
    spots = np.clip(smooth(nuclei.shape, 0.7 / mpp, random) - 1.9, 0, 1) * min(8 * wanted.irregularity, 1.0)
    paler = 1 - 2.0 * wanted.irregularity * np.clip(1 - depth, 0, 1)
    return np.clip(own[nuclei] * (paler + 0.13 * grains + 0.16 * rim + 0.6 * spots), 0.15, None)
