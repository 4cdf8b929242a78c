"""Long work on a whole archive: which features matter, where, how well it answers, and who lives longer."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearfold.errors import InputError
from clearfold.web.answers import records
from clearfold.web.tasks import Report

MOST_CASES = 1500
"""Cases that a ranking is made of; whole patients, spread over the archive."""
LEAST_PATIENTS = 3
ROUNDS, PERMUTATIONS = 20, 200
SURVIVAL_PERMUTATIONS = 49
CURVE_POINTS = 101
SURVIVAL_NOTE = (
    "A patient's risk, and the cut between the groups, come from a model that had not seen the patient. p is by "
    "permuted outcomes, everything learned again; the nominal one is too small."
)


def importance(report: Report, where: str) -> dict[str, Any]:
    """Which features the archive's embedding uses to tell the labels, with intervals over rounds of patients."""
    from sklearn.base import clone

    from clearfold.importance import EmbeddingImportance

    X, y, patients, estimator, notes = _labelled(report, where)
    report(None, f"{ROUNDS} rounds of patients, {PERMUTATIONS} permutations")
    embedding = clone(estimator[-1] if hasattr(estimator, "steps") else estimator)
    fitted = EmbeddingImportance(embedding=embedding, n_rounds=ROUNDS, n_permutations=PERMUTATIONS, random_state=0).fit(
        X, y, groups=patients
    )
    known = fitted.stability_
    return {
        "table": records(fitted.table_.sort_values("rank")),
        "families": records(fitted.family_importances_),
        "stability": None if known is None else {name: getattr(known, name) for name in known.__dataclass_fields__},
        "comparison": records(fitted.comparison_),
        "label_share": fitted.label_share_,
        "settings": {
            "cases": len(X), "patients": len(set(patients)), "rounds": ROUNDS, "permutations": PERMUTATIONS,
            "embedding": type(embedding).__name__,
        },
        "notes": notes,
    }  # fmt: skip


def saliency(report: Report, where: str) -> dict[str, Any]:
    """Regions of the archive in which different features decide."""
    from clearfold.saliency import VoronoiSaliency

    X, y, patients, _, notes = _labelled(report, where)
    report(None, "moving sites, permuting labels, drawing patients")
    sites = 4 if len(X) >= 200 else 2  # fewer samples cannot fill four cells with both classes
    fitted = VoronoiSaliency(n_sites=sites, n_perturbations=50, n_bootstraps=20, n_permutations=20, random_state=0)
    try:
        fitted.fit(X, y, groups=patients)
    except InputError as error:
        if "holds one class only" not in str(error):
            raise
        raise InputError(
            "the classes do not meet anywhere: every region holds one class only, so there is no boundary to explain."
        ) from error
    regions = fitted.regions_.drop(columns="centre")
    labels = regions["label"].tolist()
    rankings = [
        {"region": at, "label": labels[at], "features": records(table.head(30))}
        for at, table in enumerate(fitted.rankings_)
    ]
    members = fitted.memberships_.argmax(axis=1) if rankings else np.empty(0, dtype=int)
    return {
        "regions": records(regions),
        "rankings": rankings,
        "members": {"case_ids": [str(name) for name in X.index], "region": members} if rankings else None,
        "notes": notes,
    }


def evidence(report: Report, where: str) -> dict[str, Any]:
    """How well the archive answers for patients that it has not seen."""
    from clearfold.archive import Archive
    from clearfold.evaluate.archives import evaluate_archive

    report(None, "leaving patients out, fold by fold")
    with Archive.open(where, create=False, read_only=True) as archive:
        found = evaluate_archive(archive)
    return {
        "embedding": found.embedding,
        "verdict": found.verdict,
        "cases": found.n_cases,
        "patients": found.n_patients,
        "folds": found.n_folds,
        "table": records(found.table),
        "curves": {name: _thinned(curve) for name, curve in found.curves.items()},
        "classes": records(found.classes),
        "confusion": {"labels": list(found.confusion.index), "rows": found.confusion.to_numpy()},
        "notes": list(found.notes),
    }


def survival(report: Report, where: str) -> dict[str, Any]:
    """Survival of risk groups, the risk of each patient made by a model that had not seen that patient."""
    from clearfold.archive import Archive
    from clearfold.survival import risk_groups

    with Archive.open(where, create=False, read_only=True) as archive, archive.snapshot():
        cases, features = archive.cases(), archive.features()
    known = (cases["time"].notna() & cases["event"].notna()).to_numpy()
    cases, features = cases[known], features[known]
    patients = _patients(cases)
    rows, notes = _whole_patients(patients)
    report(None, f"risk of {len(rows)} cases out of fold, {SURVIVAL_PERMUTATIONS} permutations")
    found = risk_groups(
        _filled(features.iloc[rows]), cases["time"].iloc[rows], cases["event"].iloc[rows], groups=patients[rows],
        n_permutations=SURVIVAL_PERMUTATIONS,
    )  # fmt: skip
    counts = found.kaplan_meier.summary.set_index("group")
    columns = ["time", "survival", "low", "high", "at_risk"]
    groups = [
        {"name": name, "cases": counts.at[name, "n"], "events": counts.at[name, "events"]}
        | {column: curve[column].to_numpy() for column in columns}
        for name, curve in found.curves.groupby("group", sort=False)
    ]
    ratio, agreement = found.hazard_ratio, found.concordance
    return {
        "groups": groups,
        "log_rank_p": found.log_rank_p,
        "nominal_p": found.nominal_p,
        **{"hazard_ratio": ratio.value, "hazard_low": ratio.low, "hazard_high": ratio.high},
        **{"concordance": agreement.value, "concordance_low": agreement.low, "concordance_high": agreement.high},
        "patients": len(found.table),
        "notes": [*notes, SURVIVAL_NOTE, *found.kaplan_meier.notes],
    }


# Parts ------------------------------------------------------------------------------------------------------


def _labelled(report: Report, where: str) -> tuple[Any, Any, Any, Any, list[str]]:
    """Features, labels and patients of the labelled cases, the embedding, and what was left out."""
    from clearfold.archive import Archive

    report(None, "reading the archive")
    with Archive.open(where, create=False, read_only=True) as archive, archive.snapshot():
        cases, features, estimator = archive.cases(), archive.features(), archive.fitted().estimator
    labels = cases["label"].map(str).where(cases["label"].notna())
    patients = _patients(cases)
    many = labels.groupby(labels).aggregate(lambda own: len(set(patients[labels.index.isin(own.index)])))
    rare = many.index[many < LEAST_PATIENTS].tolist()
    if len(many) - len(rare) < 2:
        raise InputError("fewer than two labels are known for three patients each: features cannot be ranked by them.")
    known = (labels.notna() & ~labels.isin(rare)).to_numpy()
    rows, notes = _whole_patients(patients[known])
    rows = np.flatnonzero(known)[rows]
    if rare:
        notes.append(f"Labels of fewer than {LEAST_PATIENTS} patients were left out: {', '.join(rare[:5])}.")
    return _filled(features.iloc[rows]), labels.to_numpy()[rows], patients[rows], estimator, notes


def _whole_patients(patients: Any) -> tuple[Any, list[str]]:
    if len(patients) <= MOST_CASES:
        return np.arange(len(patients)), []
    names = np.random.default_rng(0).permutation(np.unique(patients))
    counts = {name: int(many) for name, many in zip(*np.unique(patients, return_counts=True), strict=True)}
    kept = names[np.cumsum([counts[name] for name in names]) <= MOST_CASES]
    rows = np.flatnonzero(np.isin(patients, kept))
    return rows, [f"{len(rows)} of {len(patients)} labelled cases were used, whole patients drawn at random."]


def _patients(cases: Any) -> Any:
    """A case without a patient is a patient of its own."""
    own = [f"case {name}" for name in cases.index]
    given = cases["patient_id"]
    return np.array([f"patient {p}" if p is not None and p == p else one for p, one in zip(given, own, strict=True)])


def _filled(features: Any) -> Any:
    """Missing values at the median; features without a value, or without two, left out."""
    filled = features.fillna(features.median())
    varies = filled.nunique(dropna=False) > 1
    return filled.loc[:, varies & filled.notna().all()]


def _thinned(curve: Any) -> dict[str, Any]:
    """At most so many points of a curve."""
    if len(curve) > CURVE_POINTS:
        curve = curve.iloc[np.linspace(0, len(curve) - 1, CURVE_POINTS).astype(int)]
    return {str(name): curve[name].to_numpy() for name in curve.columns}
