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
from clearfold.papers import as_printed, glands
from clearfold.papers.claims import ALIKE, Above, All, Between, Claim, Figure, alike, mean_figure
from clearfold.papers.pieces import Findings, Piece

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

DEPARTURES = (
    "Eq. 2 misses the query's degree; as printed, training samples do not return to their places. We divide by it.",
    "Eq. 4 sets far distances to 0, which makes far samples the most alike; we set their affinity to 0.",
    "Table 1 prints the silhouette with sums instead of means, which is negative on noise with unequal classes; we use "
    "means. `as_printed.printed_silhouette` is the printed one.",
    "A query has no label of its own; a training sample shown again gets its stored coordinates.",
    "Neighbourhood and bandwidth are 'determined empirically'; we show two settings.",
    "The approximation error is given relative to the affinities it approximates; the printed one is divided by the "
    "sum of all training affinities.",
    "The prostate glands of section 5.2 are not public; whole glands of GlaS (healthy, adenomatous, malignant) stand "
    "in. Shapes are compared by their medial axis, without diffeomorphisms, or by concavity.",
    "The paper draws glands; ours are also drawn by patient, and a gland never finds one of its own patient.",
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


# Reproduction -----------------------------------------------------------------------------------------------

ROLL = "Swiss roll"
SHOWN_M, SHOWN_S = (0.1, 0.2, 0.4, 0.5, 0.7, 1.0), (0.1, 0.5, 0.9)
"""What the quick run computes, and what the claims look at."""


def _at(what: str, training: float, labelled: float) -> str:
    return f"{ROLL} {what}, M = {training:.0%}, S = {labelled:.0%}"


CLAIMS = (
    Claim(
        "ose-ssl.roll.labels", f"{ROLL}: labels help; OSE-SSL retrieves better than NM-GE (S = 90 %)", "5.1, Fig. 1b",
        "higher AUPRC", ROLL,
        Above(tuple(_at("AUPRC of OSE-SSL minus NM-GE", m, 0.9) for m in (0.1, 0.2, 0.5, 0.7))),
    ),
    Claim(
        "ose-ssl.roll.forty", f"{ROLL}: from M > 40 % on OSE-SSL retrieves as well as SSGE, whatever S", "5.1, Fig. 1b",
        "equal AUPRC", ROLL, alike(*(_at("AUPRC of OSE-SSL minus SSGE", m, s) for m in (0.5, 0.7) for s in SHOWN_S)),
    ),
    Claim(
        "ose-ssl.roll.many-labels", f"{ROLL}: with S = 90 % only M = 20 % is needed to cluster as SSGE does",
        "5.1, Fig. 1a", "equal SI", ROLL, alike(_at("SI of OSE-SSL minus SSGE", 0.2, 0.9)),
    ),
    Claim(
        "ose-ssl.roll.more-labels", f"{ROLL}: a higher S gives a higher AUPRC (90 % against 10 %, M = 50 %)", "5.1",
        "higher", ROLL, Above((_at("AUPRC of S = 90 % minus", 0.5, 0.1),)),
    ),
    Claim(
        "ose-ssl.roll.nm-ge", f"{ROLL}: NM-GE needs M = 70 % to cluster as the full embedding does", "5.1, Fig. 1a",
        "M = 70 %", ROLL,
        All((
            alike(_at("SI of NM-GE minus GE", 0.7, 0.0)),
            Between((_at("SI of NM-GE minus GE", 0.4, 0.0),), -1.0, -ALIKE),
        )),
    ),
    Claim(
        "ose-ssl.roll.error", f"{ROLL}: the error of the approximated similarities", "5.1, Table 1",
        "about 1e-4 for all M", ROLL,
        Between(tuple(f"{ROLL} approximation error, M = {m:.0%}" for m in (0.1, 0.5, 0.9)), 10**-4.5, 10**-3.5),
    ),
    *glands.CLAIMS,
)  # fmt: skip


def pieces(*, quick: bool = False) -> list[Piece]:
    """What `clearfold reproduce ose-ssl` does; quick: 4 rolls instead of 10, 5 draws of glands instead of 10."""
    shares = {"training": list(SHOWN_M if quick else TRAINING), "labelled": list(SHOWN_S if quick else LABELLED)}
    rolls = [
        Piece(
            f"ose-ssl-roll-{name}",
            "ose-ssl",
            figure_1,
            {"setting": name, "seeds": 4 if quick else 10, **shares},
            ROLL,
            cost=50,
        )
        for name in SETTINGS
    ]  # fmt: skip
    error = Piece("ose-ssl-roll-error", "ose-ssl", errors, {"n_samples": 1000, "seeds": 3}, ROLL, cost=8)
    formulas = Piece("ose-ssl-formulas", "ose-ssl", as_printed.ose_ssl_formulas, {"n_samples": 1000}, ROLL, cost=5)
    return [*rolls, error, formulas, *glands.pieces(quick=quick)]


def figure_1(setting: str, seeds: int, training: list[float], labelled: list[float]) -> Findings:
    """Fig. 1a and b; the setting, wide or tight, is the name of the protocol: the paper prints neither."""
    found = swiss_roll(setting=setting, training=tuple(training), labelled=tuple(labelled), seeds=tuple(range(seeds)))
    of = {
        (row.method, round(row.training, 3), round(row.labelled, 3)): part
        for (_, part) in found.table.groupby(["method", "training", "labelled"], sort=False)
        for row in [part.iloc[0]]
    }

    def apart(measure: str, a: tuple[str, float, float], b: tuple[str, float, float]) -> Figure:
        return mean_figure(of[a][measure].to_numpy() - of[b][measure].to_numpy())

    figures: dict[str, Figure] = {}
    for m in (share for share in training if share < 1):
        figures[_at("SI of NM-GE minus GE", m, 0.0)] = apart("silhouette", ("NM-GE", m, 0.0), ("GE", 1.0, 0.0))
        for s in labelled:
            own, whole, plain = ("OSE-SSL", m, s), ("SSGE", 1.0, s), ("NM-GE", m, 0.0)
            figures[_at("AUPRC of OSE-SSL minus NM-GE", m, s)] = apart("auprc", own, plain)
            figures[_at("AUPRC of OSE-SSL minus SSGE", m, s)] = apart("auprc", own, whole)
            figures[_at("SI of OSE-SSL minus SSGE", m, s)] = apart("silhouette", own, whole)
            figures[_at("AUPRC of S = 90 % minus", m, s)] = apart("auprc", ("OSE-SSL", m, 0.9), own)
    return Findings(
        {setting: figures}, {f"{ROLL}, {setting} neighbourhood": found.summary()}, {"seeds": list(range(seeds))}
    )


def errors(n_samples: int, seeds: int) -> Findings:
    """Table 1's approximation error: as printed, and relative to the affinities (corrected)."""
    figures: dict[str, dict[str, Figure]] = {"printed": {}, "corrected": {}}
    for share in (0.1, 0.5, 0.9):
        cut = round(share * n_samples)
        every = [
            approximation_error(affinity(roll(seed, n_samples)[0]), np.arange(cut), np.arange(cut, n_samples))
            for seed in range(seeds)
        ]
        name = f"{ROLL} approximation error, M = {share:.0%}"
        figures["printed"][name] = mean_figure([error.printed for error in every])
        figures["corrected"][name] = mean_figure([error.relative for error in every])
    return Findings(figures, {}, {"seeds": list(range(seeds))})
