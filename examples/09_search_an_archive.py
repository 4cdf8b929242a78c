# %% [markdown]
# # Which earlier cases look like this one, and why?
#
# Images of ten patients go into an archive, which is one file. An image of another patient is then asked for its like:
# hits come with the named features that make them near. The tissue is drawn, so the truth is known.

# %%
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image

from clearfold import Archive, read_image
from clearfold.datasets import synthetic_cohort
from clearfold.embedding import BeliefSpectralEmbedding

cohort = synthetic_cohort("cohort", n_patients=12, images_per_patient=2, size=160, seed=0)
images = [Path("cohort", name) for name in cohort.table["file"]]
asked = images[-1]

# %% [markdown]
# Stain is left out: each patient of the cohort is stained in another way, as by another laboratory.

# %%
archive = Archive.open("cases.clearfold")
archive.add(images[:-4], labels="cohort/labels.csv", mpp=0.5, extraction={"families": ["shape", "graph", "density"]})
archive.fit(BeliefSpectralEmbedding(n_trees=40, random_state=0))
print(archive)

# %%
answer = archive.query(read_image(asked, mpp=0.5), k=4)
print(answer.labels)  # with the share of each label by chance
print(answer[0].reasons)

# %% [markdown]
# The image that was asked, the nearest cases, and the first reason for each.

# %%
figure = Figure(figsize=(11, 3), layout="constrained")
axes = figure.subplots(1, 1 + len(answer))
axes[0].imshow(Image.open(asked))
axes[0].set_title(f"asked: {asked.stem}\n({cohort.table['label'].iloc[-1]})", fontsize=9)
for ax, hit in zip(axes[1:], answer, strict=True):
    case = archive.case(hit.case_id)
    ax.imshow(Image.open(Path("cohort", "images", f"{hit.case_id}.png")))
    ax.set_title(f"{hit.case_id}\n({case.label}, distance {hit.distance:.2f})", fontsize=9)
    ax.text(0.5, -0.04, hit.reasons.near[0].feature, transform=ax.transAxes, ha="center", va="top", fontsize=6.5)
for ax in axes:
    ax.set_axis_off()
figure.savefig("09_search_an_archive.png", dpi=120)
archive.close()
