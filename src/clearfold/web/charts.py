"""The map of cases, and features over all of them: whole columns as bytes, groups in a few numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from clearfold.table.roles import family
from clearfold.web.answers import Refused, array
from clearfold.web.cases import addresses, families

if TYPE_CHECKING:
    from clearfold.web.library import Library

MOST_NAMES = 30
MOST_COMPARED = 5000
"""Of a group, and of the rest, so many cases are compared."""
LISTED = 50
BINS = 40
EXTREMES = 8
NOTE = (
    "This describes a group that was chosen by eye on a map made of the same features: differences are expected, and "
    "no p-value would mean anything. Check what you see on other cases."
)


def points(library: Library, axes: Sequence[int]) -> dict[str, Any]:
    """Coordinates of every case on two or three axes."""
    version = library.version
    if not all(0 <= axis < version.dimension for axis in axes) or not 1 <= len(axes) <= 3:
        raise Refused(422, f"axes={list(axes)} came; the embedding has the axes 0 to {version.dimension - 1}.")
    known = library.kept(("coordinates", version.number), lambda: _coordinates(library, version))
    columns = [known[:, axis] for axis in axes]
    if len(columns) == 1:  # an embedding of one axis is still a map
        columns.append(np.zeros(len(known)))
    return {
        "version": version.number,
        "revision": library.revision,
        "embedding": version.embedding,
        "count": len(known),
        "dimension": version.dimension,
        **{name: array(column) for name, column in zip("xyz", columns, strict=False)},
    }


def _coordinates(library: Library, version: Any) -> Any:
    """In the order of the cases; one that has no place is NaN."""
    numbers, places = library.archive._store.coordinates(version.number)
    found = np.full((len(library.numbers), version.dimension), np.nan, dtype=np.float32)
    found[np.searchsorted(library.numbers, numbers)] = places
    return found


def colour(library: Library, by: str) -> dict[str, Any]:
    """A column of the cases: a feature, numbers, or the code of a name."""
    if by.startswith("feature:"):
        name = by.removeprefix("feature:")
        return {"by": by, **_numbers(library.column(name)), "unit": library.units.get(name, "")}
    if by not in library.cases:
        raise Refused(422, f"There is no column {by!r}. The columns are {', '.join(library.cases.columns)}.")
    values = library.cases[by]
    if values.dtype.kind in "if" and values.nunique() > 10:
        return {"by": by, **_numbers(values.to_numpy(dtype=float)), "unit": ""}
    return {"by": by, **library.kept(("codes", by), lambda: _codes(values))}


def _numbers(values: Any) -> dict[str, Any]:
    known = values[np.isfinite(values)]
    low, high = np.quantile(known, [0.02, 0.98]) if len(known) else (np.nan, np.nan)
    return {"kind": "number", "values": array(values), "low": low, "high": high}


def _codes(values: Any) -> dict[str, Any]:
    counts = values.dropna().map(str).value_counts()
    names = sorted(counts.index[: MOST_NAMES - 1 if len(counts) > MOST_NAMES else MOST_NAMES])
    code = {name: number for number, name in enumerate(names)}
    many = [int(counts[name]) for name in names]
    if len(counts) > MOST_NAMES:
        names, many = [*names, "other"], [*many, int(counts.sum()) - sum(many)]
    other = len(names) - 1
    codes = [-1 if value is None or value != value else code.get(str(value), other) for value in values]
    return {"kind": "category", "names": names, "counts": many, "codes": array(codes, "i4")}


# A group of cases --------------------------------------------------------------------------------------------


def group(library: Library, asked: dict[str, Any]) -> dict[str, Any]:
    """Which features tell a group from the rest: standardised differences and AUC."""
    if asked.get("revision") not in (None, library.revision):
        raise Refused(409, "The archive has changed since the map was drawn. Load the map again.")
    inside = _places(library, asked)
    rest = np.setdiff1d(np.arange(len(library.numbers)), inside)
    if len(inside) < 2 or len(rest) < 2:
        raise Refused(422, f"{len(inside)} cases are in the group and {len(rest)} outside; two are wanted in each.")
    ours, theirs = (library.rows(_spread(places)) for places in (inside, rest))
    table = _differences(library, ours, theirs)
    return {
        "count": len(inside),
        "rest": len(rest),
        "labels": _shares(library, inside, rest),
        "features": table[:LISTED],
        "sampled": max(len(inside), len(rest)) > MOST_COMPARED,
        "note": NOTE,
    }


def _places(library: Library, asked: dict[str, Any]) -> Any:
    rows, cases = asked.get("rows"), asked.get("cases")
    if isinstance(cases, list):
        at = {name: place for place, name in enumerate(library.ids)}
        unknown = [name for name in cases if not isinstance(name, str) or name not in at]
        if unknown:
            raise Refused(404, f"There is no case {unknown[0]!r} in {library.name}.")
        rows = [at[name] for name in cases]
    if not isinstance(rows, list) or not all(isinstance(row, int) and 0 <= row < len(library.numbers) for row in rows):
        raise Refused(422, 'Wanted is a list of rows of the map, or of cases: {"rows": [0, 5, 17]}.')
    return np.unique(np.array(rows, dtype=np.int64))


def _spread(places: Any) -> Any:
    if len(places) <= MOST_COMPARED:
        return places
    return places[np.linspace(0, len(places) - 1, MOST_COMPARED).astype(int)]


def _differences(library: Library, ours: Any, theirs: Any) -> list[dict[str, Any]]:
    """A line for each feature that varies and is known on both sides, strongest first."""
    known = np.flatnonzero(~np.isnan(ours).all(axis=0) & ~np.isnan(theirs).all(axis=0))
    ours, theirs = ours[:, known].astype(float), theirs[:, known].astype(float)
    spread = np.sqrt((np.nanvar(ours, axis=0) + np.nanvar(theirs, axis=0)) / 2)
    apart = np.nanmean(ours, axis=0) - np.nanmean(theirs, axis=0)
    gap = np.divide(apart, spread, out=np.zeros_like(apart), where=spread > 0)
    medians = np.nanmedian(ours, axis=0), np.nanmedian(theirs, axis=0)
    order = np.argsort(-np.abs(gap), kind="stable")[:LISTED]
    names = [library.names[at] for at in known.tolist()]
    return [
        {
            "feature": names[at],
            "family": family(names[at]),
            "difference": gap[at],
            "auc": auc(ours[:, at], theirs[:, at]),
            "inside": medians[0][at],
            "rest": medians[1][at],
            "unit": library.units.get(names[at], ""),
        }
        for at in order.tolist()
        if spread[at] > 0
    ]


def auc(ours: Any, theirs: Any) -> float:
    """P(ours > theirs) + P(ours = theirs) / 2."""
    from scipy.stats import rankdata

    ours, theirs = ours[~np.isnan(ours)], theirs[~np.isnan(theirs)]
    if not len(ours) or not len(theirs):
        return float("nan")
    ranks = rankdata(np.concatenate([ours, theirs]))[: len(ours)]
    return float((ranks.sum() - len(ours) * (len(ours) + 1) / 2) / (len(ours) * len(theirs)))


def _shares(library: Library, inside: Any, rest: Any) -> list[dict[str, Any]]:
    labels = library.cases["label"].map(lambda value: None if value is None or value != value else str(value))
    ours, theirs = (labels.iloc[places].value_counts(dropna=True) for places in (inside, rest))
    names = list(dict.fromkeys([*ours.index, *theirs.index]))
    return [
        {
            "label": name,
            "inside": int(ours.get(name, 0)),
            "share": int(ours.get(name, 0)) / max(int(ours.sum()), 1),
            "rest_share": int(theirs.get(name, 0)) / max(int(theirs.sum()), 1),
        }
        for name in names
    ]


# One feature -------------------------------------------------------------------------------------------------


def feature_list(library: Library) -> dict[str, Any]:
    """Every feature with its family and unit."""
    rows = [{"feature": n, "family": family(n), "unit": library.units.get(n, "")} for n in library.names]
    return {"families": families(library.names), "features": rows}


def one_feature(library: Library, name: str) -> dict[str, Any]:
    """Its distribution by class, and the cases at its extremes."""
    values = library.column(name).astype(float)
    known = np.isfinite(values)
    quantiles = (0.05, 0.25, 0.5, 0.75, 0.95)
    found = np.quantile(values[known], quantiles) if known.any() else np.full(len(quantiles), np.nan)
    edges = _edges(values[known])
    order = np.flatnonzero(known)[np.argsort(values[known], kind="stable")]
    return {
        "feature": name,
        "family": family(name),
        "unit": library.units.get(name, ""),
        **_declared(name),
        "missing": int((~known).sum()),
        "median": found[2],
        "quantiles": {f"{q:g}": value for q, value in zip(quantiles, found, strict=True)},
        "bins": edges,
        **_classes(library, values, edges),
        "lowest": _extremes(library, values, order[:EXTREMES]),
        "highest": _extremes(library, values, order[::-1][:EXTREMES]),
    }


def _edges(values: Any) -> Any:
    """Bins over all but the outermost values, which go into the first and the last bin."""
    if not len(values):
        return np.linspace(0, 1, BINS + 1)
    low, high = np.quantile(values, [0.005, 0.995])
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, BINS + 1)


def _classes(library: Library, values: Any, edges: Any) -> dict[str, Any]:
    labels = library.cases["label"].map(lambda label: None if label is None or label != label else str(label))
    codes, names = labels.factorize()
    rows, parts = [], dict[str, Any]()
    for code, label in [*enumerate(names), (-1, None)]:
        own = values[(codes == code) & np.isfinite(values)]
        if not len(own):
            continue
        low, median, high = np.quantile(own, [0.25, 0.5, 0.75])
        counts = np.histogram(np.clip(own, edges[0], edges[-1]), edges)[0]
        about = {"median": median, "low": low, "high": high, "histogram": counts}
        rows.append({"label": label, "count": len(own), **about})
        parts |= {} if label is None else {label: own}
    rows.sort(key=lambda row: (row["label"] is None, str(row["label"])))
    own = [parts[label] for label in sorted(parts)]
    return {"classes": rows, "auc": auc(own[1], own[0]) if len(own) == 2 else None, "kruskal_p": _kruskal(own)}


def _kruskal(parts: list[Any]) -> float | None:
    from scipy.stats import kruskal

    if len(parts) < 2 or np.ptp(np.concatenate(parts)) == 0:
        return None
    return float(kruskal(*parts).pvalue)


def _extremes(library: Library, values: Any, places: Any) -> list[dict[str, Any]]:
    cases = library.archive.cases_of([library.ids[place] for place in places.tolist()])
    return [
        {"case_id": case.case_id, "label": case.label, "value": values[place], **addresses(library, case)}
        for case, place in zip(cases, places.tolist(), strict=True)
    ]


def _declared(name: str) -> dict[str, Any]:
    """Formula and source of a feature that clearfold measures."""
    from clearfold.features.extraction import MEASURES

    for measures in MEASURES.values():
        for measure in measures:
            if name in measure.features:
                return {"formula": measure.formula, "source": measure.source}
    return {"formula": None, "source": None}
