"""Different features in different regions: one ranking would hold nowhere.

Where `site` is negative `nuclear_area` decides between the classes, where it is positive `gland_count` does.
"""

import numpy as np
import pandas as pd

from clearfold import VoronoiSaliency
from clearfold.plot import save

random = np.random.default_rng(0)
n = 240
site = np.where(np.arange(n) % 2, 3.0, -3.0) + random.normal(size=n)
names = ["site", "nuclear_area", "gland_count", "texture", "stain"]
X = pd.DataFrame(np.column_stack([site, random.normal(size=(n, 4))]), columns=names)
decides = np.where(site < 0, X["nuclear_area"], X["gland_count"])
y = np.where(decides + 0.3 * random.normal(size=n) > 0, "relapse", "none")

saliency = VoronoiSaliency(n_sites=4, n_perturbations=40, n_bootstraps=20, n_permutations=30, random_state=0).fit(X, y)
print(saliency.regions_[["mass", "p_value", "separates"]])
save(saliency.plot(5), "05_local_saliency.png")
