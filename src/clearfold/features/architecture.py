"""The arrangement of nuclei or glands, from their places and directions alone: families graph, density, orientation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from clearfold.features import cell_clusters, density, graph, orientation
from clearfold.features.catalogue import Features, feature_names, not_measured
from clearfold.features.points import as_points

MEASURES = (*graph.MEASURES, *cell_clusters.MEASURES, *density.MEASURES, *orientation.MEASURES)
"""Every measure of the arrangement, declared beside the code that computes it."""
NAMES = feature_names(MEASURES)
"""The names of all numbers that `architecture` gives, whatever it is given."""


def architecture(
    points: Any, orientations: Any = None, *, region_area: float | None = None, unit: str = "um"
) -> Features:
    """All numbers of the arrangement of points: Voronoi, Delaunay, spanning tree, clusters, density, orientation.

    Parameters
    ----------
    points : (n, 2) x and y of each object; points at one place count once
    orientations : (n,) angles of long axes in radians (NaN for a round object), or None
    region_area : area of the tissue in which they lie, in the square of the unit
    unit : "um", or "px" when the scale is not known (see `density_features`)

    The names are `NAMES` for any input; what cannot be measured is NaN, and `reasons` says why. Neither the order of
    the rows nor shifts, turns by 90 degrees and mirroring change anything. Radii apart, lengths grow with the scale.

    >>> found = architecture([[0, 0], [10, 0], [0, 10], [10, 10], [5, 5]])
    >>> found.values["graph.voronoi.area.mean"], found.reasons["orientation.region.entropy"]
    (50.0, 'no directions were given')
    """
    where = as_points(points)
    clusters = cell_clusters.find_clusters(where)
    found = graph.graph_features(where) | cell_clusters.cluster_features(where, clusters)
    found |= density.density_features(where, unit=unit, region_area=region_area)
    if orientations is None:
        return found | not_measured(orientation.MEASURES, "no directions were given")
    return found | orientation.orientation_features(where, orientations, clusters)


def neighborhood(points: Any, orientations: Any = None, *, unit: str = "um") -> pd.DataFrame:
    """One row for each object: its Voronoi cell, neighbours, links, cluster and the directions around it.

    Rows are in the order given, index 1..n; objects at one place have equal rows. NaN where a Voronoi cell has no end
    inside the bounding box, or there are not so many neighbours.

    >>> neighborhood([[0, 0], [0, 4], [3, 0]])["density.distance_1nn"].tolist()
    [3.0, 4.0, 3.0]
    """
    where = as_points(points)
    cells, clusters = graph.voronoi_cells(where), cell_clusters.find_clusters(where)
    columns = {
        "graph.voronoi.area": np.where(cells.inside, cells.area, np.nan),
        "graph.voronoi.perimeter": np.where(cells.inside, cells.perimeter, np.nan),
        "graph.voronoi.chord": np.where(cells.inside, cells.chord, np.nan),
        "graph.cluster.degree": clusters.degrees.astype(float),
        "graph.cluster.size": clusters.sizes[clusters.label].astype(float),
        "graph.cluster.label": clusters.label.astype(float),
    }
    if len(where) > 1:
        within = density.neighbor_counts(where, density.scaled_radii(where, unit))
    else:
        within = np.zeros((len(where), len(density.RADII)))
    columns |= {f"density.neighbors_{r}um": within[:, i] for i, r in enumerate(density.RADII)}
    columns |= {f"density.distance_{k}nn": where.nearest[:, k - 1] for k in (1, *density.NEIGHBORS)}
    if orientations is not None:
        entropy, variance = orientation.local_orientation(where, orientations)
        columns |= {"orientation.local.entropy": entropy, "orientation.local.variance": variance}
    table = pd.DataFrame(columns).iloc[where.point_of]
    return table.set_index(pd.RangeIndex(1, len(where.point_of) + 1))
