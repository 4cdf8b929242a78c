"""Two contours laid upon each other: the best start, turn and mirror image first, then what is left to bend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from clearfold.features.closed_contours import ClosedContours, Complex, Real

ELASTIC = 64
"""Points of a contour in the elastic distance; the cost of a pair grows with their square."""
REACH = ELASTIC // 4
"""How far, in points, one contour may run ahead of the other."""
STEPS = ((1, 1), (1, 2), (2, 1), (1, 3), (3, 1), (2, 3), (3, 2))
"""Points that both contours advance in one step of the elastic match: slopes from 1/3 to 3."""
LANDMARKS = 32
STIFF = 0.05
"""Landmarks may be missed by a little: without it two that nearly touch would make any bending infinite."""


@dataclass(frozen=True)
class Alignment:
    """How each of many contours lies best on one: b[(i + shift) % m] turn ~ a[i], b perhaps mirrored."""

    shift: Any
    turn: Complex
    mirrored: Any
    agreement: Real


@dataclass(frozen=True)
class Curves:
    """Square-root velocities between points 1, 2 and 3 apart of n contours and of their mirror images: (2, 3, n, m)."""

    velocity: Complex

    def __len__(self) -> int:
        return self.velocity.shape[2]

    def take(self, rows: Any) -> Curves:
        """Some of the contours."""
        return Curves(self.velocity[:, :, rows])


@dataclass(frozen=True)
class Plates:
    """Landmarks of n contours and of their mirror images (2, n, m), and the energy to bend each (n, m, m)."""

    landmarks: Complex
    energy: Real

    def __len__(self) -> int:
        return len(self.energy)

    def take(self, rows: Any) -> Plates:
        """Some of the contours."""
        return Plates(self.landmarks[:, rows], self.energy[rows])


def curves(contours: ClosedContours) -> Curves:
    """(z_i - z_(i-p)) / sqrt|z_i - z_(i-p)| for p = 1, 2, 3, the whole contour of length 1."""
    points = with_mirror_images(contours.every(ELASTIC))
    points = points / np.abs(np.roll(points, 1, axis=-1) - points).sum(axis=-1, keepdims=True)
    chords = np.stack([points - np.roll(points, apart, axis=-1) for apart in (1, 2, 3)], axis=1)
    length = np.abs(chords)
    return Curves((chords / np.sqrt(np.where(length > 0, length, 1.0))).astype(np.complex128))


def elastic(one: Curves, many: Curves) -> Real:
    """arccos of the largest product of square-root velocities over start, turn, mirror image and reparametrisation.

    Srivastava, Klassen, Joshi and Jermyn (2011), for closed contours: start and turn come from one Fourier
    transform, the reparametrisation from dynamic programming over STEPS begun at the best matched place, with
    chords in place of the pieces that a step covers.
    """
    first = one.velocity[0, :, 0]
    alignment = align(first[0], many.velocity[:, 0])
    rows = np.arange(many.velocity.shape[2])[:, None]
    place = np.arange(ELASTIC)[None, :] + alignment.shift[:, None]
    chosen = many.velocity[alignment.mirrored[:, None], 0, rows, place % ELASTIC] * alignment.turn[:, None]
    fit = (first[0].conj() * chosen).real
    # the point whose two sides fit best: the same one whoever comes first and whichever way one runs
    anchor = np.argmax(fit + np.roll(fit, -1, axis=1), axis=1)
    at = (anchor[:, None] + np.arange(ELASTIC + 1)) % ELASTIC
    left = first[:, at]
    other = (at + alignment.shift[:, None]) % ELASTIC
    right = np.stack([many.velocity[alignment.mirrored[:, None], apart, rows, other] for apart in range(3)])
    gap = 1.0 - _best_match(left, right * alignment.turn[:, None])
    return np.arccos(1.0 - np.where(gap < 1e-12, 0.0, gap))


def _best_match(left: Complex, right: Complex) -> Real:
    """Largest sum of Re(conj(left_p) right_q) over paths of STEPS from (0, 0) to (m, m), within REACH of the diagonal.

    left, right : (3, n, m + 1), by how many points a chord spans
    """
    count, width = left.shape[1], 2 * REACH + 1
    padded = np.zeros((3, ELASTIC + 1 + 2 * REACH, count), dtype=complex)
    padded[:, REACH : REACH + ELASTIC + 1] = right.transpose(0, 2, 1)
    across, along = padded.real.copy(), padded.imag.copy()  # pairs lie side by side in memory
    wide, high = (part.transpose(0, 2, 1).copy() for part in (left.real, left.imag))
    best = np.full((ELASTIC + 1, width + 4, count), -np.inf)  # two rows more on both sides, never reached
    best[0, REACH + 2] = 0.0
    gain, more = np.empty((2, width, count))
    for i in range(1, ELASTIC + 1):
        for p, q in STEPS:
            if p <= i:
                np.multiply(wide[p - 1, i], across[q - 1, i : i + width], out=gain)
                np.multiply(high[p - 1, i], along[q - 1, i : i + width], out=more)
                gain += more
                gain += best[i - p, 2 + p - q : 2 + p - q + width]
                np.maximum(best[i, 2 : 2 + width], gain, out=best[i, 2 : 2 + width])
    return best[ELASTIC, REACH + 2]


def plates(contours: ClosedContours) -> Plates:
    """Landmarks at mean squared radius 1 and their bending energy matrices (Bookstein 1989)."""
    points = contours.every(LANDMARKS)
    points = points - points.mean(axis=1, keepdims=True)
    points = points / np.sqrt((np.abs(points) ** 2).mean(axis=1, keepdims=True))
    energy = np.array([_bending_energy(landmarks) for landmarks in points])
    return Plates(with_mirror_images(points), energy.reshape(-1, LANDMARKS, LANDMARKS))


def thin_plate(one: Plates, many: Plates) -> Real:
    """sqrt(r + (e_ab + e_ba) / 2): r the mean squared Procrustes residual, e the energy to bend a into b.

    Bending alone would not tell an ellipse from a circle: a thin plate is stretched for nothing.
    """
    first = one.landmarks[0, 0]
    alignment = align(first, many.landmarks)
    rows = np.arange(many.landmarks.shape[1])[:, None]
    steps = np.arange(LANDMARKS)[None, :]
    there = many.landmarks[alignment.mirrored[:, None], rows, (steps + alignment.shift[:, None]) % LANDMARKS]
    onto_one = there * alignment.turn[:, None] - first
    # the same residual in the order of the other contour's landmarks, a mirror image runs backwards; a turn or a
    # mirror costs no energy, so they need not be undone
    order = np.where(alignment.mirrored[:, None] == 1, -steps, steps) - alignment.shift[:, None]
    onto_many = onto_one[rows, order % LANDMARKS]
    bent = _energy_of(onto_one, one.energy[0])
    bent += (onto_many.conj() * (many.energy @ onto_many[:, :, None])[:, :, 0]).sum(axis=1).real
    residual = (np.abs(onto_one) ** 2).mean(axis=1)
    square = residual + bent / 2
    return np.sqrt(np.where(square < 1e-12, 0.0, square))


def align(one: Complex, many: Complex) -> Alignment:
    """Start, turn and mirror image with the largest |sum of conj(one) many|, for all starts by one Fourier transform.

    one : (m,); many : (2, n, m), the contours and their mirror images
    """
    product = np.fft.ifft(np.fft.fft(one).conj() * np.fft.fft(many, axis=-1), axis=-1)
    size = np.abs(product)
    shift = size.argmax(axis=-1)
    best = np.take_along_axis(product, shift[..., None], axis=-1)[..., 0]
    mirrored = (np.abs(best[1]) > np.abs(best[0])).astype(int)
    rows = np.arange(many.shape[1])
    agreement = best[mirrored, rows]
    length = np.abs(agreement)
    turn = np.where(length > 0, agreement.conj() / np.where(length > 0, length, 1.0), 1.0)
    return Alignment(shift[mirrored, rows], turn, mirrored, length)


def with_mirror_images(points: Complex) -> Complex:
    """(2, n, m): contours, and what a mirror shows, run through the other way so as to stay counter-clockwise."""
    mirrored = points.conj()[:, (-np.arange(points.shape[1])) % points.shape[1]]
    return np.stack([points, mirrored])


def _energy_of(displacements: Complex, matrix: Real) -> Real:
    return (displacements.conj() * (displacements @ matrix)).sum(axis=1).real


def _bending_energy(landmarks: Complex) -> Real:
    """The matrix E with d'Ed the energy that bends a thin plate by d at the landmarks, STIFF added to its kernel."""
    count = len(landmarks)
    square = np.abs(landmarks[:, None] - landmarks[None, :]) ** 2
    kernel = square * np.log(np.where(square > 0, square, 1.0)) + STIFF * np.eye(count)
    affine = np.column_stack([np.ones(count), landmarks.real, landmarks.imag])
    whole = np.block([[kernel, affine], [affine.T, np.zeros((3, 3))]])
    matrix = np.linalg.inv(whole)[:count, :count]
    return (matrix + matrix.T) / 2
