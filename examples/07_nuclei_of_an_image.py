"""Nuclei of an image, each measured: outlines coloured by how round they are.

The tissue is drawn, so that the number of nuclei is known.
"""

from clearfold import segment_nuclei
from clearfold.datasets import synthetic_tissue
from clearfold.features import extract_objects
from clearfold.plot import overlay, save

tissue = synthetic_tissue("high", size=256, seed=3)  # or read_image("patch.png", mpp=0.5).pixels
nuclei = segment_nuclei(tissue.image, mpp=0.5)  # or read_objects("nuclei.geojson"), from QuPath
print(f"{len(nuclei)} nuclei found, {tissue.nuclei.max()} were drawn")

measured = extract_objects(tissue.image, nuclei, mpp=0.5)
roundness = measured["shape.circularity"]
save(overlay(tissue.image, nuclei, roundness, name="circularity"), "07_nuclei_of_an_image.png")
