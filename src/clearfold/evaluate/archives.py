"""How well does an archive answer for patients it has not seen? Its embedding beside simple means, beside chance."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import delayed
from sklearn.base import clone

from clearfold.cluster import parallel
from clearfold.embedding import PCA
from clearfold.embedding.belief_votes import folds
from clearfold.embedding.spectral import Matrix
from clearfold.errors import ClearfoldWarning, InputError
from clearfold.evaluate.archive_figures import (
    BY_LABELS,
    ArchiveEvaluation,
    K,
    class_table,
    confusion_table,
    method_table,
)
from clearfold.evaluate.comparison import METHODS, Scene, learned
from clearfold.evaluate.queries import Asked
from clearfold.evaluate.retrieval import Queries, asked_all

if TYPE_CHECKING:
    import pandas as pd

N_FOLDS = 5
MOST = 3000
"""At most so many labelled cases are judged."""
Method = Callable[[Scene], tuple[Matrix, str]]


def evaluate_archive(
    archive: Any, *, n_folds: int = N_FOLDS, n_bootstrap: int = 500, seed: int = 0, n_jobs: int | None = None
) -> ArchiveEvaluation:
    """Refit the archive's embedding without each fold of patients, ask with them, and do the same by simple means.

    Everything that learns (medians, scaling, embedding, discriminant, forest) learns from the other patients. Relevant
    is what has the query's label; archived cases are found with what the embedding knows of their labels, as in use,
    so look at the line that only sorts by labels and at `among_new`. Every fold by every means is a piece of work:
    n_jobs of them at once.
    """
    with archive.snapshot():
        fitted = archive.fitted()
        cases, X = archive.cases(), archive.features()[list(archive.feature_names)]
        estimator = clone(fitted.estimator)
    return evaluate_cases(
        estimator, X, cases["label"], cases["patient_id"], n_folds=n_folds, n_bootstrap=n_bootstrap, seed=seed,
        n_jobs=n_jobs,
    )  # fmt: skip


def evaluate_cases(
    estimator: Any, X: pd.DataFrame, labels: Any, patients: Any, *, n_folds: int = N_FOLDS, n_bootstrap: int = 500,
    seed: int = 0, n_jobs: int | None = None,
) -> ArchiveEvaluation:  # fmt: skip
    """`evaluate_archive` of cases that are in no archive: features, labels (None unknown) and patients."""
    if isinstance(n_folds, bool) or not isinstance(n_folds, int) or not 2 <= n_folds <= 10:
        raise InputError(f"n_folds={n_folds!r} came; a whole number from 2 to 10 is wanted.")
    judged = _Judged(X, labels, patients, seed, n_folds)
    name = type(estimator[-1] if hasattr(estimator, "steps") else estimator).__name__
    name = f"{name} of the archive" if name in BASELINES else name
    keys = [name, *BASELINES]
    stainless = [column for column in X.columns if not str(column).startswith("stain.")]
    if 0 < len(stainless) < X.shape[1]:
        keys.append(f"{name} without stain")
    if not judged.numbers:
        raise InputError("no fold of patients leaves two labels of two patients each to learn from. Add cases.")
    pieces = [(number, key) for number in judged.numbers for key in keys]
    work = (
        delayed(_answered)(judged, number, None if key in BASELINES else clone(estimator), key,
                           stainless if key == f"{name} without stain" else list(X.columns))
        for number, key in pieces
    )  # fmt: skip
    answers = dict(zip(pieces, parallel(n_jobs)(work), strict=True))
    pooled, fresh = (
        {key: _pooled([getattr(answers[number, key], part) for number in judged.numbers]) for key in keys}
        for part in ("found", "among")
    )
    mixed = np.sum([answers[number, name].mixed for number in judged.numbers], axis=0)
    table, curves = method_table(pooled, fresh, n_bootstrap, seed)
    classes, confusion = class_table(pooled[name], judged.names), confusion_table(mixed, judged.names)
    return ArchiveEvaluation(table, curves, classes, confusion, name, *judged.size, n_folds, tuple(judged.notes))


@dataclass(frozen=True)
class _Answers:
    """What the left-out cases of a fold found among the others, and among each other."""

    found: Queries
    among: Queries
    mixed: Matrix


def _answered(judged: _Judged, number: int, estimator: Any, key: str, columns: list[str]) -> _Answers:
    """One fold by one means: the archive's embedding on these columns, or a simple one by its name."""
    scene = judged.scene(number)
    with warnings.catch_warnings():  # the health of every graph is not the question here
        warnings.simplefilter("ignore", ClearfoldWarning)
        known = judged.by_archive(scene, estimator, columns) if estimator is not None else BASELINES[key](scene)
    asked = Asked(known[0], scene.y, scene.patients, known[1])
    new, old = np.arange(scene.n, asked.size), np.arange(scene.n)
    found, among = (
        _named(asked_all(asked, new, database, "area", K), asked, scene.patients[new]) for database in (old, new)
    )
    return _Answers(found, among, _mixed(asked, new, old, max(K), len(judged.names)))


class _Fold(Scene):
    """A split that knows which rows of the archive it holds."""

    def __init__(self, X: Matrix, y: Any, patients: Any, train: Any, seed: int, rows: Any) -> None:
        super().__init__(X, y, patients, train, seed)
        self.rows = rows[self.order]


class _Judged:
    """Cases with a label that at least three patients have; the others only help to fit."""

    def __init__(self, X: Any, labels: Any, patients: Any, seed: int, n_folds: int) -> None:
        import pandas as pd

        self.X, self.seed, self.notes = X, seed, []
        y = pd.Series(np.asarray(labels, dtype=object))
        unknown = y.isna() | (y.map(str) == "-1")
        self.labels = y.map(str).where(~unknown, None).to_numpy(dtype=object)
        given = pd.Series(np.asarray(patients, dtype=object))
        own = pd.Series([f"case {number}" for number in range(len(given))])
        self.patients = given.map(lambda p: f"patient {p}", na_action="ignore").where(given.notna(), own).to_numpy(str)
        if given.isna().any():
            self.notes.append(
                f"{int(given.isna().sum())} cases name no patient and count as patients of their own: if some share "
                "one, the figures are too good."
            )
        self.rows = self._chosen()
        self.names, self.codes = np.unique(self.labels[self.rows].astype(str), return_inverse=True)
        if len(self.names) < 2:
            raise InputError(
                "fewer than two labels are known for at least three patients each: nothing can be judged by leaving "
                "patients out. Add labelled cases."
            )
        self.owners = np.unique(self.patients[self.rows], return_inverse=True)[1]
        self.fold = folds(self.codes, self.owners, np.random.default_rng(seed)) % n_folds
        self.numbers = [int(number) for number in np.unique(self.fold) if self._kept(number) is not None]

    @property
    def size(self) -> tuple[int, int]:
        """Cases and patients that are judged."""
        return len(self.rows), len(np.unique(self.patients[self.rows]))

    def _chosen(self) -> Any:
        """Rows that ask and are asked."""
        known = np.array([label is not None for label in self.labels])
        of = {name: len(set(self.patients[self.labels == name])) for name in set(self.labels[known])}
        rare = sorted(name for name, count in of.items() if count < 3)
        if rare:
            self.notes.append(f"Labels of fewer than three patients are not judged: {', '.join(rare[:5])}.")
        rows = np.flatnonzero(known & ~np.isin(self.labels.astype(str), rare))
        if len(rows) <= MOST:
            return rows
        names = np.random.default_rng(self.seed).permutation(np.unique(self.patients[rows]))
        total = np.cumsum([np.count_nonzero(self.patients[rows] == name) for name in names])
        kept = names[: max(6, int(np.searchsorted(total, MOST, "right")))]
        self.notes.append(f"{MOST} of {len(rows)} labelled cases were judged, whole patients drawn at random.")
        return rows[np.isin(self.patients[rows], kept)]

    def _kept(self, number: int) -> Any:
        """Which rows take part in a fold: not those of labels that training lacks; None where none can be judged."""
        left = self.fold == number
        counts = {c: len(np.unique(self.owners[~left & (self.codes == c)])) for c in np.unique(self.codes)}
        keep = np.isin(self.codes, [c for c, count in counts.items() if count >= 2])
        return keep if len(np.unique(self.codes[keep])) >= 2 and (left & keep).any() else None

    def scene(self, number: int) -> _Fold:
        """Training and left-out rows of a fold."""
        keep, left = self._kept(number), self.fold == number
        X = self.X.iloc[self.rows[keep]].to_numpy(dtype=float)
        codes, owners, rows = self.codes[keep], self.owners[keep], self.rows[keep]
        return _Fold(X, codes, owners, ~left[keep], self.seed + number, rows)

    def by_archive(self, scene: _Fold, estimator: Any, columns: list[str]) -> tuple[Matrix, str]:
        """Coordinates by the archive's embedding, learned from every case of other patients, labelled or not."""
        left = np.unique(self.patients[scene.rows[scene.n :]])
        judged = np.isin(np.arange(len(self.X)), self.rows)
        unlabelled = np.array([label is None for label in self.labels])
        others = np.flatnonzero(unlabelled & ~judged & ~np.isin(self.patients, left))
        others = np.random.default_rng(self.seed).permutation(others)[:MOST]
        rows = np.concatenate([scene.rows[: scene.n], others])
        table = self.X[columns]
        median = table.iloc[rows].median()
        kept = [c for c in columns if not _constant(table[c].iloc[rows])]
        prepared = table[kept].fillna(median[kept])
        y = np.concatenate([scene.labels.astype(object), np.full(len(others), None, dtype=object)])
        model = fit_with_groups(clone(estimator), prepared.iloc[rows], y, self.patients[rows])
        last = model[-1] if hasattr(model, "steps") else model
        stored = getattr(last, "embedding_", None)
        old = model.transform(prepared.iloc[rows[: scene.n]]) if stored is None else stored[: scene.n]
        new = model.transform(prepared.iloc[scene.rows[scene.n :]])
        return np.vstack([np.asarray(old), np.asarray(new)]), "euclidean"


def fit_with_groups(estimator: Any, X: Any, y: Any, groups: Any) -> Any:
    """Fit an estimator, or a pipeline that ends in one, and tell it the patients if it asks for them."""
    last = estimator[-1] if hasattr(estimator, "steps") else estimator
    name = f"{estimator.steps[-1][0]}__groups" if hasattr(estimator, "steps") else "groups"
    wants = "groups" in inspect.signature(last.fit).parameters
    return estimator.fit(X, y, **({name: groups} if wants else {}))


def _random(scene: Scene) -> tuple[Matrix, str]:
    return np.random.default_rng(scene.seed).random((len(scene.y), len(scene.y))), "precomputed"


def _label_order(scene: Scene) -> tuple[Matrix, str]:
    """Cases sorted by their labels, the labels in random order for each query."""
    names, codes = np.unique(scene.y, return_inverse=True)
    order = np.random.default_rng(scene.seed).random((len(codes), len(names))).argsort(axis=1)
    return order[:, codes].astype(float), "precomputed"


def _principal(scene: Scene) -> tuple[Matrix, str]:
    return learned(PCA(n_components=min(10, scene.Z.shape[1], scene.n - 1)))(scene)


def _boosted(scene: Scene) -> tuple[Matrix, str]:
    try:
        return METHODS["boosted distance"](scene)
    except InputError:  # no feature is better than chance: then nothing is known
        return np.zeros((len(scene.y), 1)), "euclidean"


BASELINES: dict[str, Method] = {
    "standardised Euclid": METHODS["plain distances"],
    "PCA": _principal,
    "boosted distance": _boosted,
    "LDA (shrinkage)": METHODS["discriminant"],
    "forest proximity": METHODS["forest proximity"],
    "random": _random,
    BY_LABELS: _label_order,
}


def _constant(column: Any) -> bool:
    values = column.dropna()
    return values.empty or bool((values == values.iloc[0]).all())


def _named(queries: Queries, asked: Asked, patients: Any) -> Queries:
    """Labels and patients by their numbers in the whole archive: a fold may lack some."""
    return replace(queries, codes=asked.names[queries.codes], patients=patients)


def _pooled(parts: list[Queries]) -> Queries:
    return Queries(*(np.concatenate([getattr(p, name) for p in parts]) for name in Queries.__dataclass_fields__))


def _mixed(asked: Asked, new: Any, old: Any, k: int, n_labels: int) -> Matrix:
    """How often each label (columns) is among the first k for queries of each label (rows)."""
    counts, labels = np.zeros((n_labels, n_labels)), asked.names[asked.codes]
    order = np.argsort(asked.distances(new, old), axis=1, kind="stable")[:, :k]
    np.add.at(counts, (labels[new][:, None], labels[old][order]), 1.0)
    return counts
