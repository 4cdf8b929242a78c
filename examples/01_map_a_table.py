"""A map of a table, and new cases on it.

Three quarters of 569 breast tumours make the map; the others are placed on it without fitting again.
"""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from clearfold.embedding import Isomap
from clearfold.plot import save, scatter

tumours = load_breast_cancer(as_frame=True)
diagnosis = tumours.target.map({0: "malignant", 1: "benign"}).rename("diagnosis")
known, new, known_diagnosis, new_diagnosis = train_test_split(tumours.data, diagnosis, random_state=0)

# Embeddings never rescale: areas in the thousands would drown smoothness, so a pipeline standardises first.
steps = make_pipeline(StandardScaler(), Isomap(n_components=2, n_neighbors=10))
coordinates = steps.fit_transform(known)
placed = steps.transform(new)

ax = scatter(coordinates, known_diagnosis, placed=(placed, new_diagnosis))
ax.set_title("Breast tumours by 30 features of their nuclei (Isomap)", loc="left")
save(ax, "01_map_a_table.png")
