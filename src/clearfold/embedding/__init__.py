"""Where does each case lie? Nonlinear embeddings, also for cases that arrive later."""

from clearfold.embedding.belief import BeliefSpectralEmbedding
from clearfold.embedding.boosted import BoostedGraphEmbedding
from clearfold.embedding.choice import ResidualVariance, Search, residual_variance, search
from clearfold.embedding.graph_embedding import GraphEmbedding
from clearfold.embedding.isomap import Isomap
from clearfold.embedding.kernel_pca import KernelPCA
from clearfold.embedding.landmarks import LandmarkEmbedding
from clearfold.embedding.laplacian_eigenmap import LaplacianEigenmap
from clearfold.embedding.locally_linear import LocallyLinearEmbedding
from clearfold.embedding.metric import BoostedMetric
from clearfold.embedding.pca import PCA
from clearfold.embedding.precision import Separation

__all__ = [
    "PCA",
    "BeliefSpectralEmbedding",
    "BoostedGraphEmbedding",
    "BoostedMetric",
    "GraphEmbedding",
    "Isomap",
    "KernelPCA",
    "LandmarkEmbedding",
    "LaplacianEigenmap",
    "LocallyLinearEmbedding",
    "ResidualVariance",
    "Search",
    "Separation",
    "residual_variance",
    "search",
]
