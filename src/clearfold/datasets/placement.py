"""Where nuclei and glands lie: a lattice shaken by a known amount, then moved apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from clearfold.datasets.recipes import Recipe

Real = NDArray[np.float64]
ROUNDS = 30
"""How often nuclei that touch are pushed apart."""
LUMEN, LINING = 0.5, 0.78
"""Radius of the lumen, and of the ring of nuclei, as shares of a gland's radius."""


@dataclass(frozen=True)
class Blobs:
    """Closed outlines around centres: radius(angle) = scale (ellipse of `ratio`, turned) (1 + waves).

    centres (n, 2) x, y; scale, ratio, turn (n,); waves (n, k) complex, for k + 2 waves around; lengths in pixels
    """

    centres: Real
    scale: Real
    ratio: Real
    turn: Real
    waves: NDArray[np.complex128]

    def __len__(self) -> int:
        return len(self.scale)

    def radius(self, which: int, angle: Real) -> Real:
        """Distance from the centre to the outline in a direction."""
        own = angle - self.turn[which]
        ratio = self.ratio[which]
        oval = 1 / np.sqrt(np.cos(own) ** 2 / ratio + np.sin(own) ** 2 * ratio)
        orders = np.arange(2, 2 + self.waves.shape[1])
        wave = (np.exp(1j * np.multiply.outer(own, orders)) @ self.waves[which]).real
        return self.scale[which] * oval * np.maximum(1 + wave, 0.3)

    def joined(self, other: Blobs) -> Blobs:
        """These and those."""
        return Blobs(*(np.concatenate([getattr(self, f), getattr(other, f)]) for f in self.__dataclass_fields__))


def lattice(count: int, width: float, height: float) -> Real:
    """`count` points in staggered rows, as near to a triangular lattice as so many fit: (count, 2) x, y."""
    rows = max(1, round(float(np.sqrt(count * height / width * 2 / 3**0.5))))
    ends = np.rint(np.linspace(0, count, rows + 1)).astype(int)
    points = []
    for row, number in enumerate(np.diff(ends)):
        x = (np.arange(number) + 0.25 + 0.5 * (row % 2)) * width / max(number, 1)
        points.append(np.column_stack([x, np.full(number, (row + 0.5) * height / rows)]))
    return np.concatenate(points) if points else np.zeros((0, 2))


def shaken(points: Real, amount: float, width: float, height: float, random: np.random.Generator) -> Real:
    """Each point moved by a Gaussian step; what leaves on one side comes back on the other."""
    box = np.array([width, height])
    return (points + random.normal(0.0, 1.0, points.shape) * amount) % box


def apart(points: Real, reach: Real, width: float, height: float) -> Real:
    """Points moved until no two are nearer than the sum of their reaches, or ROUNDS have passed."""
    points = points.copy()
    box = np.array([width, height])
    for _ in range(ROUNDS):
        pairs = cKDTree(points).query_pairs(2 * float(reach.max(initial=0.0)), output_type="ndarray")
        if not len(pairs):
            break
        first, second = pairs.T
        step = points[second] - points[first]
        far = np.linalg.norm(step, axis=1)
        lacking = reach[first] + reach[second] - far
        near = lacking > 1e-6
        if not near.any():
            break
        way = np.where(far[:, None] > 1e-9, step / np.maximum(far, 1e-9)[:, None], np.array([1.0, 0.0]))
        push = (way * lacking[:, None] * 0.5)[near]
        np.add.at(points, first[near], -push)
        np.add.at(points, second[near], push)
        points = np.clip(points, 0.0, np.nextafter(box, 0))
    return points


def nuclei(recipe: Recipe, centres: Real, mpp: float, random: np.random.Generator) -> Blobs:
    """Nuclei of this kind around the centres: areas log-normal with the wanted mean and spread."""
    count = len(centres)
    spread = np.sqrt(np.log1p(recipe.pleomorphism**2))
    area = recipe.area * np.exp(spread * np.clip(random.normal(size=count), -2.5, 2.5) - spread**2 / 2)
    ratio = 1 + (recipe.elongation - 1) * random.gamma(4.0, 0.25, count)
    orders = np.arange(2, 7)
    size = recipe.irregularity * 2**0.5 / np.sqrt((orders**-2.0).sum()) / orders
    waves = (random.normal(size=(count, 5)) + 1j * random.normal(size=(count, 5))) / 2**0.5 * size
    blobs = Blobs(centres, np.ones(count), ratio, random.uniform(0, np.pi, count), waves)
    return _with_area(blobs, area / mpp**2)


def glands(count: int, recipe: Recipe, width: int, height: int, mpp: float, random: np.random.Generator) -> Blobs:
    """Up to `count` glands that lie apart, lobed as irregular nuclei are: as many as find room in 60 tries each."""
    chosen: list[tuple[float, float, float]] = []
    for _ in range(60 * count):
        radius = random.uniform(24, 40) / mpp
        x, y = random.uniform(0, width), random.uniform(0, height)
        if len(chosen) < count and all(np.hypot(x - a, y - b) > 1.3 * (radius + r) for a, b, r in chosen):
            chosen.append((x, y, radius))
    table = np.array(chosen, dtype=float).reshape(-1, 3)
    found = len(table)
    orders = np.arange(2, 7)
    waves: NDArray[np.complex128] = (random.normal(size=(found, 5)) + 1j * random.normal(size=(found, 5))).astype(
        complex
    )
    waves *= recipe.irregularity / orders
    ratio = random.uniform(1.0, 1.5, found)
    return Blobs(
        table[:, :2], table[:, 2], ratio, random.uniform(0, np.pi, found), waves * recipe.irregularity / orders
    )


def lining(gland_blobs: Blobs, recipe: Recipe, mpp: float, random: np.random.Generator) -> tuple[Real, Real]:
    """Places in a ring within each gland, and the directions away from its lumen; disorder scatters the ring."""
    places, outward = [np.zeros((0, 2))], [np.zeros(0)]
    gap = 2.3 * np.sqrt(recipe.area / np.pi) / mpp
    for which in range(len(gland_blobs)):
        angle = np.linspace(0, 2 * np.pi, 200, endpoint=False)
        ring = gland_blobs.radius(which, angle) * LINING
        length = np.concatenate([[0.0], np.cumsum(np.hypot(ring * 2 * np.pi / 200, np.gradient(ring)))])
        number = max(3, int(length[-1] / gap))
        at = np.interp((np.arange(number) + random.uniform()) % number / number * length[-1], length[:-1], angle)
        depth = 1 + 0.25 * recipe.disorder * random.normal(size=number).clip(-1, 1)
        far = gland_blobs.radius(which, at) * np.clip(LINING * depth, LUMEN + 0.1, 0.92)
        places.append(gland_blobs.centres[which] + np.column_stack([far * np.cos(at), far * np.sin(at)]))
        outward.append(at)
    return np.concatenate(places), np.concatenate(outward)


def _with_area(blobs: Blobs, area: Real) -> Blobs:
    """The same outlines, each enclosing its area."""
    angle = np.linspace(0, 2 * np.pi, 64, endpoint=False)
    now = np.array([np.pi * (blobs.radius(which, angle) ** 2).mean() for which in range(len(blobs))])
    return Blobs(blobs.centres, np.sqrt(area / np.maximum(now, 1e-12)), blobs.ratio, blobs.turn, blobs.waves)
