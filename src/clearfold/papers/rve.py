"""RVE: input selection by a Random Voronoi Ensemble (Masulli, Rovetta, Neurocomputing 2003).

Section 4: the 38 leukemia samples of Golub et al. (1999), ALL against AML, as printed and as corrected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from clearfold.errors import InputError
from clearfold.papers import cohorts
from clearfold.papers.claims import Between, Claim, Figure, Near, mean_figure
from clearfold.papers.pieces import Findings, Piece
from clearfold.saliency import GradedPossibilisticClustering, VoronoiSaliency
from clearfold.saliency.ensemble import mixed_cells
from clearfold.saliency.joint import joint_vectors
from clearfold.saliency.local_svm import CellMachines
from clearfold.saliency.voronoi import Partitions, quantised_sites
from clearfold.selection import FILTERS, ranking

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

DEPARTURES = (
    "Section 2 prints t = w / max(w_i); we divide by max|w_i|, or all-negative weights would flip every sign.",
    "The schedule of the width, 0.1 to 0.01, fragments (9 to 10 centres where 2 are true): we take the finest width on "
    "which both halves of the ensemble agree, and join clusters that predict each other's left-out samples.",
    "A region's ranking is one machine on all its samples, by membership; the paper's is the centre of a cluster.",
    "A cell's place is the mean of its members, not the moved site.",
    "Sites know the labels: the space is stretched along cuts across which local classifiers differ.",
    "alpha and the weight of places are not printed; we use 0.7 and 0.5.",
    "Table 1 names GPX1 with the accession of interleukin 8 (Y00787; GPX1 is Y00433). The row is kept as printed.",
    "'Normalised data' is read as features of unit variance.",
)

N_SITES, N_PERTURBATIONS, AMPLITUDE = 4, 100, 0.5
BETA_START, BETA_END, BETA_STEPS = 0.1, 0.01, 10
USEFUL_SHARE, SHARED_GENES, FIRST = 0.61, 8, 20
"""Printed: useful cells, and genes of Golub's 50 among the first 20."""

TABLE_1 = {
    "Y00787": "AML",
    "X17042": "AML",
    "M27891": "AML",
    "M69043": "AML",
    "M28130": "AML",
    "M96326": "AML",
    "U05259": "ALL",
    "M13792": "ALL",
}
"""Accession -> correlated class; the sign of saliency is - for AML and + for ALL."""

GOLUB_50 = {
    "ALL": "U22376 X59417 U05259 M92287 M31211 X74262 D26156 S50223 M31523 L47738 U32944 Z15115 X15949 X63469 M91432 "
    "U29175 Z69881 U20998 D38073 U26266 M31303 Y08612 U35451 M29696 M13792",
    "AML": "M55150 X95735 U50136 M16038 U82759 M23197 M84526 Y12670 M27891 X17042 Y00787 M96326 U46751 M80254 L08246 "
    "M62762 M28130 M63138 M57710 M69043 M81695 X85116 M19045 M83652 X04085",
}
"""The 50 genes of Golub et al., by the class in which they are high."""


@dataclass(frozen=True)
class Leukemia:
    """The table beside the paper's, and the numbers printed with it."""

    table: pd.DataFrame
    facts: pd.DataFrame

    def __str__(self) -> str:
        return f"{self.table.to_string(index=False)}\n\n{self.facts.to_string(index=False)}"


def corrected(*, random_state: Any = None, **options: Any) -> VoronoiSaliency:
    """The estimator with the paper's sites, perturbations and amplitude."""
    settings = {"n_sites": N_SITES, "n_perturbations": N_PERTURBATIONS, "amplitude": AMPLITUDE, **options}
    return VoronoiSaliency(random_state=random_state, **settings)


@dataclass(frozen=True)
class Printed:
    """Signed saliency (m,) of the heaviest cluster as printed, the share of useful cells, and the distinct ones."""

    saliency: Any
    useful_share: float
    n_distinct: int


def printed(X: Any, positive: Any, *, random_state: int = 0) -> Printed:
    """Steps 1 to 7 of section 3: one quantisation, 100 perturbations, joint clustering, the centre of most mass."""
    X = np.asarray(X, dtype=float)
    deviation = X.std(axis=0)
    X = np.divide(X - X.mean(axis=0), deviation, out=np.zeros_like(X), where=deviation > 0)
    random = np.random.default_rng(random_state)
    partitions = Partitions.drawn(X, quantised_sites(X, N_SITES, random), N_PERTURBATIONS, AMPLITUDE, random)
    cells = mixed_cells(partitions, CellMachines(X, np.asarray(positive, dtype=bool), 1.0), X)
    mixed = cells.number >= 0
    Z = joint_vectors(cells.T[cells.number[mixed]], partitions.sites[mixed])
    clusters = GradedPossibilisticClustering(
        n_clusters=10, beta=BETA_END, beta_start=BETA_START, n_steps=BETA_STEPS, init="random", split=False,
        random_state=random_state,
    ).fit(Z)  # fmt: skip
    weight = clusters.memberships_[:, clusters.memberships_.sum(axis=0).argmax()]
    t = weight @ cells.T[cells.number[mixed]] / weight.sum()
    return Printed(t, cells.useful, len(cells.times))


def leukemia(X: Any, label: Any, accession: Sequence[str], *, random_state: int = 0) -> Leukemia:
    """Both runs on (38, genes) expression, `label` ALL or AML; positive saliency speaks for ALL, as in Table 1."""
    import pandas as pd

    positive = np.asarray(label).astype(str) == "ALL"
    place = {str(name).split("_")[0]: j for j, name in reversed(list(enumerate(accession)))}
    missing = [gene for gene in TABLE_1 if gene not in place]
    if missing:
        raise InputError(f"genes of Table 1 are missing ({', '.join(missing)}). Pass all genes with their accessions.")
    old = printed(X, positive, random_state=random_state)
    new = corrected(random_state=random_state).fit(X, positive)
    t = {"printed": old.saliency, "corrected": new.region_saliency_[0]}
    rank = {name: ranking(np.abs(values)) for name, values in t.items()}
    rows = [
        {"accession": gene, "class": high, "paper": "+" if high == "ALL" else "-"}
        | {f"{name}_sign": "+" if t[name][place[gene]] > 0 else "-" for name in t}
        | {f"{name}_rank": int(rank[name][place[gene]]) for name in t}
        for gene, high in TABLE_1.items()
    ]
    known = [place[gene] for genes in GOLUB_50.values() for gene in genes.split() if gene in place]
    shared = {name: int((rank[name][known] <= FIRST).sum()) for name in t}
    facts = [
        ("share of useful cells", USEFUL_SHARE, old.useful_share, new.useful_share_),
        (f"of Golub's 50 among the first {FIRST}", SHARED_GENES, shared["printed"], shared["corrected"]),
        ("distinct cells", np.nan, old.n_distinct, new.n_distinct_cells_),
        ("rankings", 1, 1, len(new.rankings_)),
    ]
    return Leukemia(pd.DataFrame(rows), pd.DataFrame(facts, columns=["what", "paper", "printed", "corrected"]))


# Reproduction -----------------------------------------------------------------------------------------------

CLAIMS = (
    Claim(
        "rve.signs", "The sign of saliency names the class in which a gene is high, for all eight genes", "Table 1",
        "8 of 8", "Golub", Between(("signs as printed",), len(TABLE_1), len(TABLE_1)),
    ),
    Claim(
        "rve.useful", "Share of the 400 cells that hold both classes", "section 4", "61 %", "Golub",
        Near(("useful cells",), USEFUL_SHARE, USEFUL_SHARE, "share"),
    ),
    Claim(
        "rve.shared", "Genes of Golub's 50 among the first 20", "section 4, Table 1", "8", "Golub",
        Near(("of Golub's 50 among the first 20",), SHARED_GENES, SHARED_GENES, "count"),
        why="simple rankings share as many or more: see the table",
    ),
    Claim(
        "rve.table", "The eight genes of Table 1 are all among the first 20", "Table 1", "8 of 8", "Golub",
        Near(("genes of Table 1 among the first 20",), len(TABLE_1), len(TABLE_1), "count"),
    ),
)  # fmt: skip


def pieces(*, quick: bool = False) -> list[Piece]:
    """What `clearfold reproduce rve` does; quick: 5 seeds instead of 20."""
    settings = {"seeds": 5 if quick else 20}
    return [Piece("rve-leukemia", "rve", table_1, settings, "Golub", cost=1.5 * settings["seeds"])]


def table_1(seeds: int) -> Findings:
    """Table 1 for every seed: signs, ranks, useful cells and shared genes, as printed and as corrected."""
    import pandas as pd

    X, label, accession = cohorts.leukemia()
    runs = [leukemia(X, label, accession, random_state=seed) for seed in range(seeds)]
    figures = {name: _figures(runs, name) for name in ("printed", "corrected")}
    first = runs[0].table
    genes = pd.DataFrame(
        {"accession": first["accession"], "class": first["class"], "sign in the paper": first["paper"]}
    )
    for name in figures:
        genes[f"right sign, {name}"] = sum((run.table[f"{name}_sign"] == run.table["paper"]) for run in runs) / seeds
        ranks = np.array([run.table[f"{name}_rank"] for run in runs])
        genes[f"median rank, {name}"] = np.median(ranks, axis=0)
    simple = shared_by_simple_rankings(X, label, accession)
    facts = pd.concat([run.facts.assign(seed=seed) for seed, run in enumerate(runs)], ignore_index=True)
    return Findings(
        figures,
        {"Leukemia: Table 1": genes, "Leukemia: simple rankings": simple, "Leukemia: every seed": facts},
        {"seeds": list(range(seeds))},
    )


def shared_by_simple_rankings(X: Any, label: Any, accession: Sequence[str]) -> pd.DataFrame:
    """Genes of Golub's 50 among the first 20 by the difference of class means and by filters."""
    import pandas as pd

    place = {str(name).split("_")[0]: j for j, name in reversed(list(enumerate(accession)))}
    known = [place[gene] for genes in GOLUB_50.values() for gene in genes.split() if gene in place]
    first = np.asarray(label) == "ALL"
    values = {"difference of class means": np.abs(X[first].mean(axis=0) - X[~first].mean(axis=0))}
    values |= {name: FILTERS[name](X, label) for name in ("t", "fisher", "gini")}
    counts = {name: int((ranking(value)[known] <= FIRST).sum()) for name, value in values.items()}
    return pd.DataFrame({"ranking": list(counts), f"of Golub's 50 among the first {FIRST}": list(counts.values())})


def _figures(runs: list[Leukemia], name: str) -> dict[str, Figure]:
    facts = {
        title: mean_figure([float(run.facts.set_index("what")[name][what]) for run in runs])
        for title, what in (
            ("useful cells", "share of useful cells"),
            ("of Golub's 50 among the first 20", f"of Golub's 50 among the first {FIRST}"),
        )
    }
    right = [int((run.table[f"{name}_sign"] == run.table["paper"]).sum()) for run in runs]
    first = [int((run.table[f"{name}_rank"] <= FIRST).sum()) for run in runs]
    return facts | {
        "signs as printed": mean_figure(right),
        "genes of Table 1 among the first 20": mean_figure(first),
    }
