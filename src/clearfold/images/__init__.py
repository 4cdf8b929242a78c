"""Images of tissue: read them, open slides, find the tissue, separate the stains.

    read_image("tile.png", mpp=0.5)  ->  Image  ->  .pixels, .mpp, .name
    open_slide("case.svs")           ->  Slide  ->  .read(...), .tiles(...), .thumbnail()

Every function that takes an image takes what `as_image` takes: an array, a Pillow image, a path or an Image.
"""

from clearfold.images.reading import Image, as_image, read_image
from clearfold.images.slides import Slide, Tile, open_slide
from clearfold.images.stain import Stains, separate_stains, white_balance
from clearfold.images.tissue import tissue_mask

__all__ = [
    "Image",
    "Slide",
    "Stains",
    "Tile",
    "as_image",
    "open_slide",
    "read_image",
    "separate_stains",
    "tissue_mask",
    "white_balance",
]
