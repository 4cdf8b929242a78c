"""OSE-SSL: Out-of-Sample Extrapolation using Semi-Supervised Manifold Learning (Sparks, Madabhushi, ISBI 2011).

The Swiss roll of section 5.1: how many training samples (M) and labels (S) does the placement of new samples need?
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed
from scipy import linalg
from scipy.spatial.distance import cdist

from clearfold.embedding import GraphEmbedding
from clearfold.embedding.affinity import exponential
from clearfold.embedding.spectral import Matrix
from clearfold.errors import ClearfoldWarning
from clearfold.evaluate import retrieval

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

DEPARTURES = (
    "Eq. 2 misses the query's degree; as printed, training samples do not return to their places. We divide by it.",
    "Eq. 4 sets far distances to 0, which makes far samples the most alike; we set their affinity to 0.",
    "Table 1 prints the silhouette with sums instead of means, which is negative on noise with unequal classes; we use "
    "means. `printed_silhouette` is the printed one.",
    "A query has no label of its own; a training sample shown again gets its stored coordinates.",
    "Neighbourhood and bandwidth are 'determined empirically'; we show two settings.",
    "The approximation error is given relative to the affinities it approximates; the printed one is divided by the "
    "sum of all training affinities.",
    "The prostate glands of section 5.2 are not public.",
)

SETTINGS = {"wide": (6.4, 1000.0), "tight": (4.0, 100.0)}
"""Neighbourhood radius and bandwidth."""
TRAINING = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9, 1.0)
"""M, share of the samples in the training set."""
LABELLED = (0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
"""S, share of the training set with a known label."""
BORDER = 3 * np.pi
"""Where the roll is cut into two classes."""


@dataclass(frozen=True)
class SwissRoll:
    """AUPRC and silhouette of all samples, for every seed, method, M and S.

    table : DataFrame seed, method, training, labelled, auprc, auprc_new (queries outside the training set), chance,
        silhouette, parts (of the graph)
    """

    table: pd.DataFrame

    def summary(self) -> pd.DataFrame:
        """Means over seeds."""
        keys = ["method", "labelled", "training"]
        return self.table.groupby(keys)[["auprc", "auprc_new", "silhouette", "chance"]].mean().reset_index()

    def mean(self, method: str, training: float = 1.0, labelled: float = 0.0, measure: str = "auprc") -> float:
        """One figure, averaged over seeds."""
        of = self.table
        of = of[(of["method"] == method) & np.isclose(of["training"], training) & np.isclose(of["labelled"], labelled)]
        return float(of[measure].mean())

    def plot(self, measure: str = "auprc", *, ax: Axes | None = None) -> Axes:
        """Fig. 1: a measure against M, one line for each method and S."""
        from clearfold.plot import lines

        frame = self.table.assign(
            method=[
                name if share == 0 else f"{name}, S = {share:.0%}"
                for name, share in zip(self.table["method"], self.table["labelled"], strict=True)
            ]
        )
        return lines(frame, "training", measure, "method", ax=ax)

    def __str__(self) -> str:
        return self.summary().round(3).to_string(index=False)


def swiss_roll(
    *,
    setting: str = "wide",
    n_samples: int = 2000,
    training: tuple[float, ...] = TRAINING,
    labelled: tuple[float, ...] = LABELLED,
    seeds: tuple[int, ...] = (0, 1, 2),
    n_queries: int = 500,
    n_jobs: int | None = None,
) -> SwissRoll:
    """GE and SSGE on all samples, NM-GE and OSE-SSL on a part of them with the others placed.

    The first `n_queries` samples ask all others; with n_queries=n_samples every sample does, as in the paper.
    """
    import pandas as pd

    cases = [(share, known) for share in training for known in (0.0, *labelled)]
    work = (delayed(_case)(seed, n_samples, n_queries, SETTINGS[setting], *case) for seed in seeds for case in cases)
    rows = Parallel(n_jobs=n_jobs)(work)
    return SwissRoll(pd.DataFrame(rows))


def roll(seed: int, n_samples: int = 2000) -> tuple[Matrix, Any]:
    """Points of a Swiss roll and their two classes."""
    from sklearn.datasets import make_swiss_roll

    X, along = make_swiss_roll(n_samples, random_state=seed)
    return X, (along > BORDER).astype(int)


def _case(
    seed: int, n_samples: int, n_queries: int, setting: tuple[float, float], training: float, labelled: float
) -> dict[str, Any]:
    X, labels = roll(seed, n_samples)
    random = np.random.default_rng([seed, round(100 * training), round(100 * labelled)])
    order = np.random.default_rng(seed).permutation(n_samples)
    rows = order[: round(training * n_samples)]
    known = np.full(len(rows), -1)
    some = random.permutation(len(rows))[: round(labelled * len(rows))]
    known[some] = labels[rows[some]]
    radius, bandwidth = setting
    with warnings.catch_warnings():  # parts of the graph are counted, isolated queries keep the nearest place
        warnings.simplefilter("ignore", ClearfoldWarning)
        embedding = GraphEmbedding(n_components=2, neighborhood=radius, bandwidth=bandwidth)
        embedding.fit(X[rows], known if labelled else None)
        coordinates = embedding.transform(X)
    part = np.full(n_samples, "new")
    part[rows] = "training"
    asking = np.arange(min(n_queries, n_samples))
    found = retrieval(coordinates, labels, groups="each", queries=asking, parts=part, k=(), n_bootstrap=0).table
    whole = training == 1.0
    method = ("SSGE" if whole else "OSE-SSL") if labelled else ("GE" if whole else "NM-GE")
    return {
        "seed": seed,
        "method": method,
        "training": training,
        "labelled": labelled,
        "auprc": found["micro"]["all"],
        "auprc_new": np.nan if whole else found["micro"].get("new", np.nan),
        "chance": found["chance_micro"]["all"],
        "silhouette": found["silhouette"]["all"],
        "parts": embedding.n_connected_components_,
    }


@dataclass(frozen=True)
class ApproximationError:
    """||W - B' V^-1 B||_F, W among new samples, V among training samples, B between them (Table 1).

    relative : divided by ||W||_F; printed : divided by the sum of V
    """

    relative: float
    printed: float


def approximation_error(affinity: Matrix, training: Any, new: Any) -> ApproximationError:
    """How far Nystrom's method is from the affinities among new samples."""
    inner, between = affinity[np.ix_(training, training)], affinity[np.ix_(training, new)]
    wanted = affinity[np.ix_(new, new)]
    missed = float(np.linalg.norm(wanted - between.T @ linalg.pinvh(inner) @ between))
    return ApproximationError(missed / float(np.linalg.norm(wanted)), missed / float(np.abs(inner).sum()))


def affinity(X: Matrix, setting: str = "wide") -> Matrix:
    """exp(-A / s), 0 from the neighbourhood radius on."""
    radius, bandwidth = SETTINGS[setting]
    distances = cdist(X, X)
    return np.where(distances < radius, exponential(np.square(distances), bandwidth, 1.0), 0.0)


def printed_silhouette(coordinates: Matrix, labels: Any) -> float:
    """Mean of (G - C) / max(C, G) with sums of distances to the own class (C) and to all others (G), as printed."""
    distances = cdist(coordinates, coordinates)
    same = np.equal.outer(labels, labels)
    own, other = (distances * same).sum(axis=1), (distances * ~same).sum(axis=1)
    return float(np.mean((other - own) / np.maximum(own, other)))
