"""From a table to a picture: 569 tumours, 30 features of their nuclei, two coordinates.

Run it with `python examples/first_embedding.py [picture.png]`.
"""

import sys

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from clearfold.embedding import Isomap


def main(picture: str = "first_embedding.png") -> None:
    tumours = load_breast_cancer()
    # Embeddings never rescale: areas in the thousands would drown smoothness, so a pipeline standardises first.
    steps = make_pipeline(StandardScaler(), Isomap(n_components=2, n_neighbors=10))
    coordinates = steps.fit_transform(tumours.data)

    figure, axes = plt.subplots(figsize=(7.5, 4), layout="constrained")
    for label, name in enumerate(tumours.target_names):
        of_class = tumours.target == label
        axes.scatter(*coordinates[of_class].T, s=14, alpha=0.8, linewidths=0, label=f"{name} ({of_class.sum()})")
    axes.set(xlabel="Isomap 1", ylabel="Isomap 2", title="569 breast tumours, placed by the shape of their nuclei")
    axes.set_aspect("equal")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(
        frameon=False, loc="center left", bbox_to_anchor=(1, 0.5), title="diagnosis (not used\nfor the embedding)"
    )
    figure.savefig(picture, dpi=120)
    print(f"wrote {picture}")


if __name__ == "__main__":
    main(*sys.argv[1:])
