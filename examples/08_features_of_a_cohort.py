"""From images to a table to a ranking: what tells tissue of high from tissue of low grade?

Twelve patients with two drawn images each; rounds keep the images of a patient together.
"""

import pandas as pd

from clearfold import EmbeddingImportance, extract
from clearfold.datasets import synthetic_cohort
from clearfold.embedding import PCA
from clearfold.plot import grid, importance_bars, save, scatter

cohort = synthetic_cohort(n_patients=12, images_per_patient=2, size=160, seed=0)
families = ["shape", "graph", "density"]
table = pd.DataFrame([extract(tissue.image, mpp=0.5, families=families) for tissue in cohort.images])
table = table.dropna(axis=1).loc[:, lambda frame: frame.max() > frame.min()]
print(f"{len(table)} images, {table.shape[1]} features")

importance = EmbeddingImportance(embedding=PCA(n_components=3), n_rounds=10, n_permutations=200, random_state=0)
importance.fit(table, cohort.table["label"], groups=cohort.table["patient_id"])

figure, (left, right) = grid(2, width=6.0)
scatter(importance.embedding_.embedding_, cohort.table["label"].rename("grade"), ax=left)
left.set_title("24 images of 12 patients", loc="left")
importance_bars(importance, 10, ax=right).locator_params(axis="x", nbins=3)
save(figure, "08_features_of_a_cohort.png")
