"""Samples whose local truth is known: x0 tells two regions apart, other features decide in each; 5 % wrong labels."""

from typing import Any

import numpy as np

TRUTH: dict[str, dict[int, dict[int, int]]] = {
    "switch": {-1: {1: 1}, 1: {2: 1}},
    "flip": {-1: {1: 1}, 1: {1: -1}},
    "mixed": {-1: {1: 1, 2: 1}, 1: {1: 1, 2: -1}},
    "global": {-1: {1: 1, 2: 1}, 1: {1: 1, 2: 1}},
}
"""Side of x0 -> features that decide there, and their signs."""
KINDS = list(TRUTH)


def samples(kind: str, seed: int, n: int = 400, m: int = 10) -> tuple[Any, Any, Any]:
    """X (n, m), y -1 or 1, and the side of each sample."""
    random = np.random.default_rng(seed)
    side = np.where(random.random(n) < 0.5, -1, 1)
    X = random.normal(size=(n, m))
    X[:, 0] = 3 * side + 0.5 * random.normal(size=n)
    decides = {
        "switch": np.where(side < 0, X[:, 1], X[:, 2]),
        "flip": -side * X[:, 1],
        "mixed": X[:, 1] - side * X[:, 2],
        "global": X[:, 1] + 0.5 * X[:, 2],
    }[kind]
    y = np.where(decides > 0, 1, -1)
    return X, np.where(random.random(n) < 0.05, -y, y), side


def passes(fitted: Any, side: Any, kind: str) -> bool:
    """On either side at least 90 % of the mass has exactly the true first features with true signs, x0 left aside."""
    t = fitted.region_saliency_.copy()
    t[:, 0] = 0
    for where, truth in TRUTH[kind].items():
        mass = fitted.memberships_[side == where].sum(axis=0)
        right = [
            set(np.argsort(-np.abs(row))[: len(truth)]) == set(truth) and all(row[j] * s > 0 for j, s in truth.items())
            for row in t
        ]
        if mass[right].sum() < 0.9 * mass.sum():
            return False
    return True
