"""The same samples in six embeddings: a rolled-up sheet, coloured along the roll.

Isomap, LLE and the Laplacian eigenmap unroll it; linear PCA cannot.
"""

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import make_swiss_roll

from clearfold import embedding
from clearfold.plot import save

X, along = make_swiss_roll(700, random_state=0)
methods = {
    "PCA": embedding.PCA(n_components=2),
    "KernelPCA": embedding.KernelPCA(n_components=2),
    "Isomap": embedding.Isomap(n_components=2, n_neighbors=10),
    "LocallyLinearEmbedding": embedding.LocallyLinearEmbedding(n_components=2, n_neighbors=12),
    "LaplacianEigenmap": embedding.LaplacianEigenmap(n_components=2, n_neighbors=10),
    "GraphEmbedding": embedding.GraphEmbedding(n_components=2, bandwidth=1.0),
}

figure = Figure(figsize=(9, 6), layout="constrained")
for ax, (name, method) in zip(figure.subplots(2, 3).flat, methods.items(), strict=True):
    coordinates = method.fit_transform(X)
    agreement = abs(np.corrcoef(coordinates[:, 0], along)[0, 1])
    ax.scatter(*coordinates.T, c=along, s=8, cmap="viridis", linewidths=0)
    ax.set_title(f"{name}\n|r| with the roll {agreement:.2f}", fontsize=10, loc="left")
    ax.set(xticks=[], yticks=[])
save(figure, "03_compare_embeddings.png")
