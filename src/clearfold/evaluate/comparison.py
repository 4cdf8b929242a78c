"""Retrieval by every method on the same halves: what learns from labels, beside what is simple, beside chance."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier

from clearfold.embedding import BeliefSpectralEmbedding, BoostedGraphEmbedding, BoostedMetric, GraphEmbedding
from clearfold.embedding.belief_votes import Scaling
from clearfold.embedding.spectral import Matrix
from clearfold.errors import ClearfoldWarning, InputError
from clearfold.evaluate.retrieval import retrieval

if TYPE_CHECKING:
    import pandas as pd

N_TREES = 200


@dataclass(frozen=True)
class Comparison:
    """Macro average precision of every method on every split.

    table : DataFrame split, method, held_out (queries among other held-out samples), archive (held-out queries against
        the training samples), chance; methods "random labels" learned from shuffled labels and are at chance outside,
        "archive labels" in random order knows the archive's labels and nothing of the query
    """

    table: pd.DataFrame

    def summary(self) -> pd.DataFrame:
        """Means over splits, and in how many of them a method was the best outside."""
        means = self.table.groupby("method", sort=False)[["held_out", "archive", "chance"]].mean()
        best = self.table.loc[self.table.groupby("split")["held_out"].idxmax(), "method"].value_counts()
        return means.assign(best_in=best.reindex(means.index).fillna(0).astype(int)).reset_index()

    def mean(self, method: str, measure: str = "held_out") -> float:
        """One figure, averaged over splits."""
        return float(self.table[self.table["method"] == method][measure].mean())

    def __str__(self) -> str:
        return self.summary().round(3).to_string(index=False)


def compare(
    X: Any, y: Any, *, groups: Any = None, n_splits: int = 5, more: Mapping[str, Any] | None = None, seed: int = 0
) -> Comparison:
    """Learn on half of the patients, retrieve among the others; everything that learns, learns in the first half.

    Parameters
    ----------
    X : (n, m), NaN allowed; y : labels, all known
    groups : patient of each sample, or "each" if every sample is a patient of its own
    more : further names and unfitted transformers, given features scaled on the training half
    """
    import pandas as pd

    X, y = np.asarray(X, dtype=float), np.asarray(y)
    if groups is None:
        raise InputError("no groups came: give the patient of each sample, or groups='each' if each is its own.")
    patients = np.arange(len(y)) if isinstance(groups, str) else np.unique(np.asarray(groups), return_inverse=True)[1]
    rows = []
    for split in range(n_splits):
        train = half(y, patients, np.random.default_rng([seed, split]))
        scene = Scene(X, y, patients, train, seed + split)
        for name, method in {**METHODS, **{key: learned(value) for key, value in (more or {}).items()}}.items():
            with warnings.catch_warnings():  # the health of every graph is not the question here
                warnings.simplefilter("ignore", ClearfoldWarning)
                rows.append({"split": split, "method": name, **scene.judge(method(scene), y)})
        rows.append({"split": split, "method": "random labels", **scene.shuffled()})
        rows.append({"split": split, "method": "archive labels", **scene.by_archive_labels()})
    return Comparison(pd.DataFrame(rows))


def half(y: Any, patients: Any, random: np.random.Generator) -> Any:
    """A mask of the rows of half of the patients, of each class alike."""
    names, codes = np.unique(y, return_inverse=True)
    first = np.unique(patients, return_index=True)[1]
    chosen = []
    for code in np.unique(codes[first]):
        members = random.permutation(patients[first[codes[first] == code]])
        if len(members) < 2:
            raise InputError(f"class {names[code]} has one patient; two halves want at least two.")
        chosen.append(members[: len(members) // 2])
    return np.isin(patients, np.concatenate(chosen))


class Scene:
    """One split: training rows first, held-out rows after them."""

    def __init__(self, X: Matrix, y: Any, patients: Any, train: Any, seed: int) -> None:
        self.order = np.concatenate([np.flatnonzero(train), np.flatnonzero(~train)])
        self.n, self.seed = int(train.sum()), seed
        self.raw, self.y, self.patients = X[self.order], y[self.order], patients[self.order]
        self.Z = Scaling(self.raw[: self.n])(self.raw)
        self.labels = self.y[: self.n]

    def judge(self, distances: tuple[Matrix, str], y: Any) -> dict[str, float]:
        """Macro average precision of held-out queries, among each other and against the training rows."""
        table, metric = distances
        new = np.arange(self.n, len(self.y))
        figures = {}
        for name, database in (("held_out", new), ("archive", np.arange(self.n))):
            found = retrieval(
                table, y[self.order], groups=self.patients, queries=new, database=database,
                metric=metric, measure="average_precision", k=(), n_bootstrap=0,
            )  # fmt: skip
            figures[name] = found["macro"]
            figures.setdefault("chance", found["chance_macro"])
        return figures

    def shuffled(self) -> dict[str, float]:
        """The belief embedding after labels were dealt anew."""
        y = np.empty_like(self.y)
        y[self.order] = np.random.default_rng(self.seed).permutation(self.y)
        self.labels = y[self.order][: self.n]
        return self.judge(_belief(self), y)

    def by_archive_labels(self) -> dict[str, float]:
        """Archive sorted by its labels, classes in random order for each query."""
        random = np.random.default_rng(self.seed)
        _, codes = np.unique(self.y, return_inverse=True)
        order = random.random((len(codes), int(codes.max()) + 1)).argsort(axis=1)
        table = np.take_along_axis(order, np.tile(codes, (len(codes), 1)), axis=1).astype(float)
        y = np.empty_like(self.y)
        y[self.order] = self.y
        return self.judge((table, "precomputed"), y) | {"held_out": float("nan")}


def _stacked(fitted: Any, table: Matrix, n: int) -> tuple[Matrix, str]:
    """Coordinates of training rows and of the others."""
    return np.vstack([fitted.transform(table[:n]), fitted.transform(table[n:])]), "euclidean"


def learned(transformer: Any) -> Callable[[Scene], tuple[Matrix, str]]:
    """The coordinates of a transformer that is fitted on the training part."""
    from sklearn.base import clone

    return lambda scene: _stacked(clone(transformer).fit(scene.Z[: scene.n], scene.labels), scene.Z, scene.n)


def _belief(scene: Scene) -> tuple[Matrix, str]:
    embedding = BeliefSpectralEmbedding(random_state=scene.seed)
    return _stacked(embedding.fit(scene.raw[: scene.n], scene.labels, scene.patients[: scene.n]), scene.raw, scene.n)


def _forest(scene: Scene) -> RandomForestClassifier:
    return RandomForestClassifier(N_TREES, min_samples_leaf=2, random_state=scene.seed).fit(
        scene.Z[: scene.n], scene.labels
    )


def _proximity(scene: Scene) -> tuple[Matrix, str]:
    leaves = _forest(scene).apply(scene.Z)
    apart = np.zeros((len(leaves), len(leaves)), dtype=np.float32)
    for column in leaves.T:
        apart += column[:, None] != column
    return apart / leaves.shape[1], "precomputed"


def _posterior(scene: Scene) -> tuple[Matrix, str]:
    p = _forest(scene).predict_proba(scene.Z)
    return 1.0 - p @ p.T, "precomputed"


METHODS: dict[str, Callable[[Scene], tuple[Matrix, str]]] = {
    "belief": _belief,
    "discriminant": lambda s: _stacked(
        LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto").fit(s.Z[: s.n], s.labels), s.Z, s.n
    ),
    "forest proximity": _proximity,
    "forest posterior": _posterior,
    "BoSE": learned(BoostedGraphEmbedding(n_features=12)),
    "BoSE and labels": learned(BoostedGraphEmbedding(n_features=12, labels=True)),
    "boosted distance": learned(BoostedMetric(n_features=12)),
    "SSGE": learned(GraphEmbedding(n_components=3)),
    "plain distances": lambda s: (s.Z, "euclidean"),
}
