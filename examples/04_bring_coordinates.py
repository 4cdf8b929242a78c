"""Coordinates from elsewhere, and the features behind them.

`fine_importance` takes any coordinates, here those of t-SNE: what made them need not be known. The papers' formula
(`method="fine"`, the default) stands beside ours (`method="auto"`): where coordinates work together, the former squares
the sign away.
"""

import pandas as pd
from sklearn.datasets import load_wine
from sklearn.manifold import TSNE
from sklearn.preprocessing import StandardScaler

from clearfold.importance import fine_importance
from clearfold.plot import COLOURS, grid, save, scatter

wine = load_wine(as_frame=True)
X = StandardScaler().set_output(transform="pandas").fit_transform(wine.data)
coordinates = TSNE(n_components=2, random_state=0).fit_transform(X)

shares = pd.DataFrame(
    {method: fine_importance(coordinates, X, wine.target, method=method) for method in ("auto", "fine")},
    index=X.columns,
).sort_values("auto")

figure, (left, right) = grid(2)
scatter(coordinates, wine.target.map(lambda code: f"cultivar {code}").rename(None), ax=left)
left.set_title("178 wines (t-SNE)", loc="left")
right.barh(shares.index, 100 * shares["auto"], color=COLOURS[0], label="auto")
right.plot(100 * shares["fine"], shares.index, "o", color=COLOURS[1], label="fine")
right.axvline(100 / len(shares), color="0.5", linewidth=1, linestyle=":")
right.set(xlabel="importance (%); dotted: even shares")
right.legend(frameon=False, loc="lower right")
right.spines[["top", "right"]].set_visible(False)
save(figure, "04_bring_coordinates.png")
