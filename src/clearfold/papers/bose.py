"""BoSE: Boosted Spectral Embedding (Sridhar, Doyle, Madabhushi, ISBI 2011).

The half-split of section 6, judged as printed (on rows that the metric has seen) and held out, on any labelled table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_score

from clearfold.embedding import BoostedGraphEmbedding, BoostedMetric, GraphEmbedding
from clearfold.embedding.spectral import Matrix
from clearfold.evaluate import Retrieval, half, retrieval

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

DEPARTURES = (
    "The paper embeds and judges all rows, half of which the metric has learned from; we print that beside the figure "
    "of the other half alone, placed as new samples.",
    "The paper does not say that features are scaled; the boosted metric is on z-scores, and spectral embedding is "
    "shown on raw and on standardised features. Most of the printed gap is this scaling.",
    "Eq. 5 has exp(-D / s), plain spectral embedding exp(-D^2 / s); s is the median, which the paper does not name.",
    "Alphas of a perfect learner are infinite in AdaBoost; errors are kept at 1 / (2n) or above.",
    "Ranking by the boosted distances themselves is shown too: it needs no embedding.",
    "The paper's two cohorts are not public; any labelled table takes their place and is named.",
)

TABLE_2 = {
    ("prostate", "BoSE"): (0.95, 0.93),
    ("prostate", "SE"): (0.67, 0.79),
    ("breast", "BoSE"): (0.88, 0.98),
    ("breast", "SE"): (0.88, 0.98),
}
"""AUPRC and accuracy of a forest as printed."""
N_COMPONENTS = 3
N_FOREST_ROUNDS = 50


@dataclass(frozen=True)
class HalfSplits:
    """AUPRC and forest accuracy of every seed and method, as printed and held out.

    table : DataFrame seed, method, judged ("as printed" or "held out"), auprc, chance, accuracy
    curves : DataFrame method, judged, recall, precision, of all seeds
    """

    table: pd.DataFrame
    curves: pd.DataFrame

    def summary(self) -> pd.DataFrame:
        """Mean and standard deviation over seeds."""
        groups = self.table.groupby(["judged", "method"], sort=False)[["auprc", "accuracy", "chance"]]
        table = groups.agg(["mean", "std"])
        table.columns = ["_".join(name) for name in table.columns]
        return table.drop(columns="chance_std").rename(columns={"chance_mean": "chance"}).reset_index()

    def mean(self, method: str, judged: str = "held out", measure: str = "auprc") -> float:
        """One figure, averaged over seeds."""
        of = self.table
        return float(of[(of["method"] == method) & (of["judged"] == judged)][measure].mean())

    def plot(self, judged: str = "held out", *, ax: Axes | None = None) -> Axes:
        """Fig. 2: precision against recall, one line for each method."""
        from clearfold.plot import lines

        return lines(self.curves[self.curves["judged"] == judged], "recall", "precision", "method", ax=ax)

    def __str__(self) -> str:
        return self.summary().round(3).to_string(index=False)


def half_splits(
    X: Any,
    y: Any,
    *,
    groups: Any = "each",
    n_features: int = 4,
    learner: str = "gamma",
    seeds: tuple[int, ...] = tuple(range(10)),
    n_forest_rounds: int = N_FOREST_ROUNDS,
) -> HalfSplits:
    """Learn on half of the patients; judge everyone on all rows (as printed) and on the other half (held out)."""
    import pandas as pd

    X, y = np.asarray(X, dtype=float), np.asarray(y)
    patients = np.arange(len(y)) if isinstance(groups, str) else np.unique(np.asarray(groups), return_inverse=True)[1]
    rows, curves = [], []
    for seed in seeds:
        train = half(y, patients, np.random.default_rng(seed))
        for method, judged, at, coordinates in _placed(X, y, train, n_features, learner):
            found = retrieval(coordinates, y[at], groups=patients[at], k=(), n_bootstrap=0)
            accuracy = forest_accuracy(coordinates, y[at], n_forest_rounds, seed)
            figures = {"auprc": found["micro"], "chance": found["chance_micro"], "accuracy": accuracy}
            rows.append({"seed": seed, "method": method, "judged": judged, **figures})
            curves.append(_curve(found, seed, method, judged))
    return HalfSplits(pd.DataFrame(rows), pd.concat(curves, ignore_index=True))


def _placed(X: Matrix, y: Any, train: Any, n_features: int, learner: str) -> Iterator[tuple[str, str, Any, Matrix]]:
    """Coordinates by every method, of all rows embedded at once and of the held-out half placed as new."""
    mean, deviation = X[train].mean(axis=0), X[train].std(axis=0)
    scaled = (X - mean) / np.where(deviation > 0, deviation, 1.0)
    metric = BoostedMetric(n_features=n_features, learner=learner).fit(X[train], y[train])
    boosted = metric.transform(X)
    plain: Callable[[], Any] = lambda: GraphEmbedding(n_components=N_COMPONENTS, power=2)  # noqa: E731
    printed: Callable[[], Any] = lambda: GraphEmbedding(n_components=N_COMPONENTS)  # noqa: E731
    everyone = np.arange(len(y))
    new = everyone[~train]
    for name, table, graph in (
        ("SE", X, plain),
        ("SE standardised", scaled, plain),
        ("BoSE as printed", boosted, printed),
    ):
        yield name, "as printed", everyone, graph().fit(table).embedding_
        yield name, "held out", new, graph().fit(table[train]).transform(table[~train])
    yield "boosted distance", "as printed", everyone, boosted
    yield "boosted distance", "held out", new, boosted[~train]
    for name, labels in (("BoSE", False), ("BoSE and labels", True)):
        fitted = BoostedGraphEmbedding(
            n_components=N_COMPONENTS, n_features=n_features, learner=learner, labels=labels
        ).fit(X[train], y[train])
        yield name, "held out", new, fitted.transform(X[~train])


def forest_accuracy(coordinates: Matrix, y: Any, n_rounds: int, seed: int) -> float:
    """Mean accuracy of a forest on the coordinates, 3-fold, repeated (section 5.3)."""
    values = []
    for round_ in range(n_rounds):
        folds = StratifiedKFold(3, shuffle=True, random_state=seed + 1000 * round_)
        forest = RandomForestClassifier(n_estimators=50, random_state=round_)
        values.append(cross_val_score(forest, coordinates, y, cv=folds).mean())
    return float(np.mean(values)) if values else float("nan")


def _curve(found: Retrieval, seed: int, method: str, judged: str) -> Any:
    return found.curve[["recall", "precision"]].assign(seed=seed, method=method, judged=judged)
