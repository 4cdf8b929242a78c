"""A fitted embedding as an archive uses it: what is done to a row before it is placed."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd

from clearfold.archive.store import Floats, Scalar, Store, Version
from clearfold.embedding.estimator import in_range
from clearfold.errors import ArchiveError

ROUNDING = 1e-9
"""A feature that varies by less than this share of its size is constant up to rounding: scaled, it would be noise."""
NOTHING = 1e-14
"""A feature that varies by less than this is zero up to rounding, whatever its unit."""
SCALE_THEMSELVES = ("BeliefSpectralEmbedding", "BoostedGraphEmbedding", "BoostedMetric")
"""Embeddings that standardise features on their own; others are put behind a StandardScaler."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted estimator, the `features` that it uses, and the `medians` that take the place of missing values.

    dropped : features that are always missing or never vary
    """

    version: int
    estimator: Any
    features: tuple[str, ...]
    medians: Floats
    dropped: tuple[str, ...] = ()

    def prepare(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The features in use as numbers without gaps."""
        values = frame[list(self.features)].to_numpy(dtype=np.float64, na_value=np.nan)
        values = np.where(np.isnan(values), self.medians, values)
        return pd.DataFrame(values, index=frame.index, columns=list(self.features))

    def place(self, frame: pd.DataFrame) -> Floats:
        """Coordinates (n, h) by the embedding's own rule for new samples."""
        return _finite(np.asarray(self.estimator.transform(self.prepare(frame)), dtype=np.float64))

    @property
    def preparation(self) -> dict[str, Any]:
        """What has to be kept of it besides the estimator."""
        return {"features": self.features, "medians": self.medians.tolist(), "dropped": self.dropped}


def fit_estimator(
    embedding: Any, frame: pd.DataFrame, labels: Sequence[Scalar], patients: Sequence[str | None], scale: bool | None
) -> tuple[Fitted, Floats]:
    """Fit an unfitted embedding to the rows of a frame; gives it and the coordinates of the rows."""
    from sklearn.base import clone
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    if not hasattr(embedding, "get_params") or isinstance(embedding, type):
        raise ArchiveError(f"{embedding!r} came to be fitted; wanted is an embedding, such as PCA(n_components=2).")
    values = in_range(frame.to_numpy())
    known = ~np.isnan(values).all(axis=0)
    kept = known.copy()
    low, high = np.nanmin(values[:, known], axis=0), np.nanmax(values[:, known], axis=0)
    kept[known] = high - low > np.maximum(ROUNDING * np.maximum(np.abs(low), np.abs(high)), NOTHING)
    if not kept.any():
        raise ArchiveError("no feature varies: there is nothing to embed. Add cases that differ.")
    medians = np.nanmedian(values[:, kept], axis=0)
    names = np.array(frame.columns, dtype=object)
    estimator = clone(embedding)
    if scale or (scale is None and not isinstance(embedding, Pipeline) and not _scales(embedding)):
        estimator = Pipeline([("scale", StandardScaler()), ("embed", estimator)])
    fitted = Fitted(0, estimator, tuple(names[kept]), medians, tuple(names[~kept]))
    table = fitted.prepare(frame)
    estimator.fit(table, *_labels(labels), **_groups(estimator, patients))
    last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    stored = getattr(last, "embedding_", None)
    coordinates = estimator.transform(table) if stored is None else stored
    return fitted, _finite(np.asarray(coordinates, dtype=np.float64))


def fit_version(store: Store, embedding: Any, name: str | None, activate: bool, scale: bool | None) -> Fitted:
    """Fit to what the store holds; model, coordinates and version are written in one transaction."""
    from clearfold.archive.model import dump_model

    with store.reading():
        state, table, (numbers, values) = store.state(), store.table(), store.features()
        names = store.settings().get("features", [])
    if not len(numbers):
        raise ArchiveError(f"{store.name} has no cases yet. Add some before fitting.")
    labels, patients = [row[4] for row in table], [row[2] for row in table]
    fitted, coordinates = fit_estimator(embedding, pd.DataFrame(values, columns=names), labels, patients, scale)
    model = dump_model(fitted.estimator)
    kind = type(embedding[-1] if hasattr(embedding, "steps") else embedding).__name__
    now, last = datetime.now(UTC).isoformat(timespec="seconds"), int(numbers[-1])
    said = fitted.preparation
    version = Version(0, name or kind, kind, now, coordinates.shape[1], last, len(numbers), said)
    with store.writing():
        if store.state().removals != state.removals and set(numbers.tolist()) - set(store.numbers().tolist()):
            raise ArchiveError("cases were removed while the embedding was fitted to them. Fit again.")
        number = store.add_version(version, model)
        store.place(number, numbers, coordinates)
        later, more = store.features(after=last)
        if len(later):
            store.place(number, later, fitted.place(pd.DataFrame(more, columns=names)))
        store.build_index(number)
        if activate:
            store.activate(number)
    return replace(fitted, version=number)


def load_version(store: Store, version: Version) -> Fitted:
    """The fitted embedding of a version."""
    from clearfold.archive.model import load_model

    if version.forgotten:
        raise ArchiveError(
            f"version {version.number} has to be fitted again: cases that it learned from were removed, and its model "
            "with them. Call archive.fit."
        )
    said = version.preparation
    estimator = load_model(store.model(version.number) or b"")
    medians = np.array(said["medians"], dtype=np.float64)
    return Fitted(version.number, estimator, tuple(said["features"]), medians, tuple(said["dropped"]))


def _scales(embedding: Any) -> bool:
    return type(embedding).__name__ in SCALE_THEMSELVES


def _labels(labels: Sequence[Scalar]) -> list[Any]:
    """y, or nothing when no case has a label; labels of different kinds are compared as text."""
    known = [label for label in labels if label is not None]
    if not known:
        return []
    as_text = len({isinstance(label, str) for label in known}) > 1
    y = np.empty(len(labels), dtype=object)
    y[:] = [str(label) if as_text and label is not None else label for label in labels]
    return [y]


def _groups(estimator: Any, patients: Sequence[str | None]) -> dict[str, Any]:
    """groups= for an estimator that takes it: the patient, or each case its own where none is known."""
    from sklearn.pipeline import Pipeline

    name, last = estimator.steps[-1] if isinstance(estimator, Pipeline) else ("", estimator)
    if "groups" not in inspect.signature(last.fit).parameters or not any(patients):
        return {}
    groups = np.array([f"p {p}" if p is not None else f"row {row}" for row, p in enumerate(patients)], dtype=object)
    return {f"{name}__groups" if name else "groups": groups}


def _finite(coordinates: Floats) -> Floats:
    if not np.isfinite(coordinates).all():
        raise ArchiveError("the embedding gave coordinates that are not finite. Check the features of these cases.")
    return coordinates
