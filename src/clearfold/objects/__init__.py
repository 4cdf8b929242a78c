"""Nuclei and glands: found in an image, or brought as a label mask, GeoJSON or HoVer-Net JSON."""

from clearfold.objects.agreement import Agreement, match
from clearfold.objects.collection import Objects, as_objects
from clearfold.objects.files import read_objects, write_objects
from clearfold.objects.geojson import read_polygons
from clearfold.objects.glands import segment_glands
from clearfold.objects.nuclei import segment_nuclei
from clearfold.objects.polygons import Polygons

__all__ = [
    "Agreement",
    "Objects",
    "Polygons",
    "as_objects",
    "match",
    "read_objects",
    "read_polygons",
    "segment_glands",
    "segment_nuclei",
    "write_objects",
]
