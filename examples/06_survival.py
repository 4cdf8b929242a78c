"""Do patients of high risk fare worse, when the risk was made by a model that had not seen them?

686 breast cancer patients that come with lifelines; risk groups are made out of fold.
"""

from lifelines.datasets import load_gbsg2

from clearfold.plot import save
from clearfold.survival import CoxRisk, risk_groups

patients = load_gbsg2()
X = patients[["age", "tsize", "pnodes", "progrec", "estrec"]].assign(
    grade=patients["tgrade"].map({"I": 1.0, "II": 2.0, "III": 3.0}), hormone=(patients["horTh"] == "yes").astype(float)
)
groups = risk_groups(
    X,
    patients["time"] / 30.4,
    patients["cens"],
    estimator=CoxRisk(n_features=7),
    cuts=(1 / 3, 2 / 3),
    n_permutations=39,
    random_state=0,
)
print(groups)
ax = groups.plot()
ax.set(xlabel="months")
ax.get_legend().set_loc("upper right")
save(ax, "06_survival.png")
