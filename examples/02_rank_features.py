# %% [markdown]
# # Which features put the cases where they lie?
#
# An embedding of 569 breast tumours sees no diagnosis. `EmbeddingImportance` then says which of the 30 features set
# malignant and benign tumours apart on it: a share for each feature, with an interval over patients drawn anew, a
# permutation null, and the ranks by a t-test and the Gini index beside it.

# %%
from sklearn.datasets import load_breast_cancer

from clearfold import EmbeddingImportance
from clearfold.embedding import Isomap
from clearfold.plot import save

tumours = load_breast_cancer(as_frame=True)
diagnosis = tumours.target.map({0: "malignant", 1: "benign"})
features = tumours.data.rename(columns=lambda name: name.replace(" ", "_"))

# %% [markdown]
# Names without dots have no family, so we say which belong together: the mean, its error, or the worst nuclei.

# %%
families = {name: "error" if name.endswith("_error") else name.split("_")[0] for name in features}
importance = EmbeddingImportance(
    embedding=Isomap(n_components=5, n_neighbors=10),
    n_rounds=20,
    n_permutations=200,
    families=families,
    random_state=0,
).fit(features, diagnosis)

# %%
print(importance.table_.sort_values("rank").head(8).to_string(index=False))
print(importance.family_importances_)

# %% [markdown]
# Can it be trusted? Look at the intervals, and at whether the simple filters agree.

# %%
save(importance.plot(12), "02_rank_features.png")
