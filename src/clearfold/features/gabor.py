"""Gabor bank: how strongly a region is striped at wavelengths that scale with nuclei.

Tissue has no up and down, so responses are told for all directions together, and how much they differ between them.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from clearfold.errors import InputError
from clearfold.features.catalogue import Features, Measure
from clearfold.features.grid import as_labels
from clearfold.features.texture import as_channel

Floats: TypeAlias = NDArray[np.float64]

WAVELENGTHS = {"w1": 1 / 8, "w2": 1 / 4, "w3": 1 / 2, "w4": 1.0}
"""Wavelengths as shares of the diameter of nuclei."""
SHORTEST = 3.0
"""Shortest wavelength in pixels: two pixels cannot be told from noise."""
ORIENTATIONS = 4
WIDTH = 0.56
"""SD of the envelope in wavelengths: a bandwidth of one octave."""
REACH = 3.0
"""SDs after which the envelope is cut."""
GABOR = {
    f"gabor_{kind}_{name}": Measure(
        f"texture.gabor_{kind}_{name}",
        f"{formula}; |channel * Gabor filter| with a wavelength of {share:g} diameters, {ORIENTATIONS} directions",
        unit,
        "Gabor 1946; FINE",
    )
    for name, share in WAVELENGTHS.items()
    for kind, formula, unit in (
        ("mean", "mean of the region, mean of the directions", "channel"),
        ("sd", "SD over the region, mean of the directions", "channel"),
        ("anisotropy", "SD / mean over the directions of the region's mean", "1"),
    )
}
"""What `gabor` measures, by column."""


def gabor(channel: Any, diameter: float, mask: Any = None, *, structure: str = "region") -> Features:
    """The measures of GABOR over a region: `texture.<structure>.<column>`.

    diameter : of nuclei, in pixels; mask : the region, everything by default. The mean of the region is taken away
    first and stands for what lies outside; borders of the image are mirrored.
    """
    values = as_channel(channel, mask)
    inside = np.ones(values.shape, bool) if mask is None else as_labels(mask) > 0
    if not (np.isfinite(diameter) and diameter > 0):
        raise InputError(f"diameter={diameter} came; the diameter of nuclei in pixels is wanted, a number above 0.")
    if not inside.any():
        names = [f"texture.{structure}.{column}" for column in GABOR]
        return Features(dict.fromkeys(names, float("nan")), dict.fromkeys(names, "the region is empty"))
    centred = np.where(inside, values - values[inside].mean(), 0.0)
    found: dict[str, float] = {}
    for name, share in WAVELENGTHS.items():
        size = gabor_responses(centred, max(SHORTEST, share * diameter))[:, inside]
        means = size.mean(axis=1)
        found[f"gabor_mean_{name}"] = float(means.mean())
        found[f"gabor_sd_{name}"] = float(size.std(axis=1).mean())
        found[f"gabor_anisotropy_{name}"] = float(means.std() / means.mean()) if means.mean() > 0 else 0.0
    return Features({f"texture.{structure}.{column}": found[column] for column in GABOR})


def gabor_responses(channel: Floats, wavelength: float) -> Floats:
    """Magnitude of the channel filtered with exp(-|r|^2 / 2 s^2) exp(2 pi i r.d / wavelength) / (2 pi s^2).

    One (height, width) array for each of ORIENTATIONS directions d; s = WIDTH wavelength. The filter is a product of
    one in x and one in y, so its spectrum is as well: an image is transformed once, and back once for each direction.
    """
    from scipy import fft

    height, width = channel.shape
    reach = int(np.ceil(REACH * WIDTH * wavelength))
    padded = np.pad(channel, reach, mode="symmetric")
    shape = [fft.next_fast_len(length) for length in padded.shape]
    spectrum = fft.fft2(padded, shape)
    found = np.empty((ORIENTATIONS, height, width))
    for turn in range(ORIENTATIONS):
        angle = np.pi * turn / ORIENTATIONS
        down, along = (
            fft.fft(_wave(reach, wavelength, part), length)
            for part, length in zip((np.sin(angle), np.cos(angle)), shape, strict=True)
        )
        response = fft.ifft2(spectrum * down[:, None] * along, overwrite_x=True)
        found[turn] = np.abs(response[2 * reach : 2 * reach + height, 2 * reach : 2 * reach + width])
    return found


def _wave(reach: int, wavelength: float, part: float) -> NDArray[np.complex128]:
    """The filter along one axis, where the wave goes by so much of its direction."""
    t, s = np.arange(-reach, reach + 1), WIDTH * wavelength
    wave: NDArray[np.complex128] = np.exp(-(t**2) / (2 * s**2) + 2j * np.pi * part * t / wavelength)
    return wave / (np.sqrt(2 * np.pi) * s)
