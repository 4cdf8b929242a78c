"""A slide, tile by tile: the density of nuclei over tissue that grows denser from left to right.

The slide is a tiled TIFF, written here so that the example needs no file; any slide that OpenSlide reads is the same.
"""

import numpy as np
import pandas as pd
import tifffile

from clearfold import extract, open_slide
from clearfold.datasets import synthetic_tissue
from clearfold.plot import heat_map, save

MPP, TILE = 0.5, 256
strips = [synthetic_tissue("low", density=1800 + 500 * i, size=(3 * TILE, TILE), mpp=MPP, seed=i) for i in range(6)]
pixels = np.hstack([strip.image for strip in strips])
per_cm = 1e4 / MPP
tifffile.imwrite(
    "slide.tif", pixels, tile=(TILE, TILE), resolution=(per_cm, per_cm), resolutionunit="CENTIMETER", photometric="rgb"
)

lines = []
with open_slide("slide.tif") as slide:
    print(slide)
    for tile in slide.tiles(TILE, mpp=MPP):
        measured = extract(tile.image, families=["density"])
        lines.append({"x": tile.x, "y": tile.y, "width": tile.width, "height": tile.height, **measured})
    tiles = pd.DataFrame(lines)
    per_mm2 = 1e6 * tiles["density.per_area"]
    figure = heat_map(slide.thumbnail(900), tiles, per_mm2, size=slide.size, name="nuclei in a square millimetre")
save(figure, "10_heat_map_of_a_slide.png")
