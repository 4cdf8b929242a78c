"""image + objects -> named numbers.

extract(image, objects, mpp=0.5)          ->  Series, one number for each name `family.structure.statistic`
extract_objects(image, objects, mpp=0.5)  ->  DataFrame, one row for each nucleus or gland
shape_distances(contours)                 ->  distances of gland shapes, for `metric="precomputed"`
"""

from clearfold.features.contours import shape_distance, shape_distances, shape_distances_to
from clearfold.features.extraction import FAMILIES, expected_names, extract, extract_objects, measure_table

__all__ = [
    "FAMILIES",
    "expected_names",
    "extract",
    "extract_objects",
    "measure_table",
    "shape_distance",
    "shape_distances",
    "shape_distances_to",
]
