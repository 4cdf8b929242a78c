"""VINK: Variable Importance in Nonlinear Kernels (Ginsburg, Ali, Lee, Basavanhally, Madabhushi, MICCAI 2013).

The evaluation of section 3.3: keep the k most important features, embed again, compare with all features.
"""

from __future__ import annotations

from clearfold.embedding import PCA, Isomap, KernelPCA, LaplacianEigenmap
from clearfold.evaluate import Protocol

DEPARTURES = (
    "Geodesic distances as the kernel of Isomap (section 2.2) are read as K = -1/2 H G^2 H.",
    "'Bootstrap-sampled 75 %' is read as drawn without replacement: 25 % must remain to judge on.",
    "The paper's three cohorts are not public; any table with labels or values takes their place and is named.",
)

N_FEATURES = 5
"""Features kept for prostate and breast; 2 for the oropharyngeal set of seven features."""


def protocol(
    *,
    n_components: int | str = 5,
    n_neighbors: int = 10,
    n_selected: int = N_FEATURES,
    n_rounds: int = 30,
    classifiers: tuple[str, ...] = ("logistic",),
) -> Protocol:
    """Section 3.3: 30 rounds of 75 / 25, the k best features embedded again; AUC, or MSE with ("linear",)."""
    return Protocol(
        embeddings={
            "PCA": PCA(n_components=n_components),
            "KPCA": KernelPCA(n_components=n_components),
            "Isomap": Isomap(n_components=n_components, n_neighbors=n_neighbors),
            "LE": LaplacianEigenmap(n_components=n_components, n_neighbors=n_neighbors),
        },
        importances=("fine", "auto"),
        filters=(),
        classifiers=classifiers,
        n_rounds=n_rounds,
        n_selected=n_selected,
        again=True,
    )
