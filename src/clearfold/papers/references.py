"""What to cite: the software, the five papers, and where the methods that a report used come from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Reference:
    """A publication: authors (given names as initials), title, where, when; `short` is the journal in few letters."""

    authors: str
    title: str
    where: str
    year: int
    short: str = ""

    def __str__(self) -> str:
        return f"{self.authors}. {self.title}. {self.where}, {self.year}."

    @property
    def journal(self) -> str:
        """Where, in few letters if there are some."""
        return self.short or self.where

    @property
    def families(self) -> list[str]:
        """The authors' family names, in order."""
        return [name.split(". ")[-1] for name in self.authors.split(", ")]


SOFTWARE = "The clearfold developers. clearfold: manifolds one can see through. Version {version}."
PAPERS = {
    "fine": Reference(
        "S. B. Ginsburg, G. Lee, S. Ali, A. Madabhushi",
        "Feature Importance in Nonlinear Embeddings (FINE): Applications in Digital Pathology",
        "IEEE Transactions on Medical Imaging",
        2016,
        "IEEE TMI",
    ),
    "vink": Reference(
        "S. Ginsburg, S. Ali, G. Lee, A. Basavanhally, A. Madabhushi",
        "Variable Importance in Nonlinear Kernels (VINK): Classification of Digitized Histopathology",
        "Medical Image Computing and Computer-Assisted Intervention (MICCAI)",
        2013,
        "MICCAI",
    ),
    "ose-ssl": Reference(
        "R. Sparks, A. Madabhushi",
        "Out-of-Sample Extrapolation Using Semi-Supervised Manifold Learning (OSE-SSL): Content-Based Image Retrieval "
        "for Prostate Histology Grading",
        "IEEE International Symposium on Biomedical Imaging (ISBI)",
        2011,
        "ISBI",
    ),
    "bose": Reference(
        "A. Sridhar, S. Doyle, A. Madabhushi",
        "Boosted Spectral Embedding (BoSE): Applications to Content-Based Image Retrieval of Histopathology",
        "IEEE International Symposium on Biomedical Imaging (ISBI)",
        2011,
        "ISBI",
    ),
    "rve": Reference("F. Masulli, S. Rovetta", "Random Voronoi ensembles for gene selection", "Neurocomputing", 2003),
}
"""The five papers that clearfold is built on."""
OTHERS = {
    "isomap": Reference(
        "J. B. Tenenbaum, V. de Silva, J. C. Langford",
        "A Global Geometric Framework for Nonlinear Dimensionality Reduction",
        "Science 290",
        2000,
    ),
    "lle": Reference(
        "S. T. Roweis, L. K. Saul",
        "Nonlinear Dimensionality Reduction by Locally Linear Embedding",
        "Science 290",
        2000,
    ),
    "laplacian": Reference(
        "M. Belkin, P. Niyogi",
        "Laplacian Eigenmaps for Dimensionality Reduction and Data Representation",
        "Neural Computation 15",
        2003,
    ),
    "kernel-pca": Reference(
        "B. Schölkopf, A. Smola, K.-R. Müller",
        "Nonlinear Component Analysis as a Kernel Eigenvalue Problem",
        "Neural Computation 10",
        1998,
    ),
    "nogueira": Reference(
        "S. Nogueira, K. Sechidis, G. Brown",
        "On the Stability of Feature Selection Algorithms",
        "Journal of Machine Learning Research 18",
        2018,
    ),
    "q": Reference(
        "Y. Benjamini, Y. Hochberg",
        "Controlling the False Discovery Rate: A Practical and Powerful Approach to Multiple Testing",
        "Journal of the Royal Statistical Society B 57",
        1995,
    ),
    "kaplan-meier": Reference(
        "E. L. Kaplan, P. Meier",
        "Nonparametric Estimation from Incomplete Observations",
        "Journal of the American Statistical Association 53",
        1958,
    ),
    "cox": Reference(
        "D. R. Cox", "Regression Models and Life-Tables", "Journal of the Royal Statistical Society B 34", 1972
    ),
    "lifelines": Reference(
        "C. Davidson-Pilon",
        "lifelines: survival analysis in Python",
        "Journal of Open Source Software 4",
        2019,
    ),
}
"""Where other methods come from."""
USES: dict[str, tuple[str, ...]] = {
    "EmbeddingImportance": ("fine", "vink", "nogueira", "q"),
    "Isomap": ("isomap",),
    "LocallyLinearEmbedding": ("lle",),
    "LaplacianEigenmap": ("laplacian",),
    "KernelPCA": ("kernel-pca",),
    "GraphEmbedding": ("ose-ssl",),
    "BoostedGraphEmbedding": ("bose", "ose-ssl"),
    "BoostedMetric": ("bose",),
    "BeliefSpectralEmbedding": ("ose-ssl",),
    "VoronoiSaliency": ("rve",),
    "RiskGroups": ("kaplan-meier", "cox", "lifelines"),
}
"""Class or result -> keys of PAPERS and OTHERS; what is not listed here needs no paper of its own."""


def references(methods: Iterable[str]) -> list[Reference]:
    """The publications behind these methods (names of classes, or keys), the five papers first, each once."""
    wanted = {key for method in methods for key in USES.get(method, (method,))}
    return [reference for key, reference in (PAPERS | OTHERS).items() if key in wanted]
