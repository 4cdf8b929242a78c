"""Features of point sets equal plain loops, keep their invariances, and are defined for any set of points."""

from __future__ import annotations

import math
import re
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from scipy.spatial import Delaunay, Voronoi
from scipy.spatial.distance import cdist, pdist, squareform

from clearfold.errors import InputError
from clearfold.features import cell_clusters, density, graph, orientation
from clearfold.features.architecture import MEASURES, NAMES, architecture, neighborhood
from clearfold.features.catalogue import STATISTICS, Measure
from clearfold.features.cell_clusters import cluster_features, find_clusters
from clearfold.features.density import density_features, neighbor_counts
from clearfold.features.graph import graph_features, voronoi_cells
from clearfold.features.matchings import hosoya_index, hosoya_of_pieces
from clearfold.features.orientation import orientation_features
from clearfold.features.points import as_points, nearest_within
from clearfold.features.statistics import summarise, summarise_table

seeds = st.integers(0, 10_000)
few = settings(max_examples=15, deadline=None)


def scattered(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((n, 2)) * 10 * math.sqrt(n)


def axes(n: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0, np.pi, n)


def square_lattice(side: int, step: float = 10.0) -> np.ndarray:
    return step * np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2)


def hexagonal_lattice(side: int, step: float = 10.0) -> np.ndarray:
    points = square_lattice(side, 1.0)
    return step * np.stack([points[:, 0] + 0.5 * (points[:, 1] % 2), points[:, 1] * math.sqrt(3) / 2], axis=1)


def assert_equal(first: dict[str, float], second: dict[str, float], tolerance: float = 1e-12) -> None:
    assert list(first) == list(second)
    for name, value in first.items():
        assert value == pytest.approx(second[name], rel=tolerance, abs=tolerance, nan_ok=True), name


# ----------------------------------------------------------------------------------------------------- statistics


@few
@given(seeds)
def test_the_six_statistics_are_the_textbook_ones(seed: int) -> None:
    values = np.random.default_rng(seed).gamma(2.0, size=seed % 50 + 2)
    mean, sd = values.mean(), values.std()
    expected = [mean, sd, np.median(values), values.min() / values.max(), stats.skew(values), 1 - 1 / (1 + sd / mean)]
    assert_equal(summarise(values), dict(zip(STATISTICS, expected, strict=True)))
    assert summarise(values) == summarise(values[::-1])


def test_values_that_are_not_finite_are_left_out() -> None:
    assert summarise([np.nan, 1.0, 2.0, np.inf]) == summarise([1.0, 2.0])
    assert all(math.isnan(value) for value in summarise([np.nan]).values())


def test_equal_values_have_no_disorder_and_no_skewness() -> None:
    for values in ([0.0, 0.0], [7.0] * 5, [0.1 + 0.2, 0.3]):
        found = summarise(values)
        assert (found["min_max"], found["skewness"], found["disorder"]) == (pytest.approx(1, abs=1e-15), 0, 0)


def test_magnitudes_have_no_influence_on_ratios() -> None:
    small, large = summarise([1e-300, 3e-300, 4e-300]), summarise([1e300, 3e300, 4e300])
    assert [small[name] for name in STATISTICS[3:]] == pytest.approx([large[name] for name in STATISTICS[3:]])


def test_values_of_both_signs_keep_ratios_between_0_and_1() -> None:
    found = summarise([-2.0, -1.0, 4.0])
    assert found["min_max"] == 0.25
    assert 0 <= found["disorder"] <= 1


def test_a_table_is_summarised_column_by_column() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"a": rng.random(20), "b": np.where(rng.random(20) < 0.3, np.nan, rng.random(20)), "c": np.nan}
    )
    expected = {name: value for c in frame for name, value in summarise(frame[c], f"shape.nucleus.{c}").items()}
    assert_equal(summarise_table(frame, "shape.nucleus"), expected)


# ------------------------------------------------------------------------------------ equal to loops over cells


def voronoi_by_cell(points: np.ndarray) -> dict[int, tuple[float, float, float, bool]]:
    diagram = Voronoi(points)
    low, high = points.min(axis=0), points.max(axis=0)
    found = {}
    for i, region in enumerate(diagram.point_region):
        if -1 in diagram.regions[region]:
            continue
        corners = diagram.vertices[diagram.regions[region]]
        pairs = list(zip(corners, np.roll(corners, -1, axis=0), strict=True))
        area = abs(sum(p[0] * q[1] - p[1] * q[0] for p, q in pairs)) / 2
        inside = bool(((corners >= low) & (corners <= high)).all())
        found[i] = area, sum(math.dist(p, q) for p, q in pairs), max(pdist(corners)), inside
    return found


@few
@given(seeds)
def test_voronoi_cells_equal_a_loop_over_cells(seed: int) -> None:
    points = scattered(10 + seed % 200, seed)
    where, cells = as_points(points), voronoi_cells(points)
    expected = voronoi_by_cell(points)
    assert set(where.rows[cells.bounded]) == set(expected)
    for i, (area, perimeter, chord, inside) in expected.items():
        at = where.point_of[i]
        assert (cells.area[at], cells.perimeter[at], cells.chord[at]) == pytest.approx(
            (area, perimeter, chord), rel=1e-9
        )
        assert cells.inside[at] == inside


def test_statistics_of_voronoi_cells_with_and_without_the_border() -> None:
    points = scattered(200)
    cells = voronoi_by_cell(points).values()
    for border in (True, False):
        areas = [area for area, _, _, inside in cells if inside or border]
        found = graph_features(points, border=border).values
        assert_equal(
            {name: found[f"graph.voronoi.area.{name}"] for name in STATISTICS}, summarise(areas), tolerance=1e-9
        )


@few
@given(seeds)
def test_delaunay_features_equal_a_loop_over_triangles(seed: int) -> None:
    points = scattered(4 + seed % 100, seed)
    areas, perimeters, sides = [], [], {}
    for triangle in Delaunay(points).simplices:
        a, b, c = (math.dist(points[i], points[j]) for i, j in combinations(triangle, 2))
        half = (a + b + c) / 2
        perimeters.append(a + b + c)
        areas.append(math.sqrt(max(0.0, half * (half - a) * (half - b) * (half - c))))
        sides |= {frozenset(pair): math.dist(*points[list(pair)]) for pair in combinations(triangle, 2)}
    found = graph_features(points).values
    assert found["graph.delaunay.area.mean"] == pytest.approx(np.mean(areas), rel=1e-9)
    for name, values in (("perimeter", perimeters), ("edge_length", list(sides.values()))):
        expected = summarise(values, f"graph.delaunay.{name}")
        assert_equal({key: found[key] for key in expected}, expected, tolerance=1e-9)


@few
@given(seeds)
def test_the_spanning_tree_is_that_of_all_distances(seed: int) -> None:
    points = scattered(2 + seed % 150, seed)
    expected = np.sort(minimum_spanning_tree(squareform(pdist(points))).data)
    np.testing.assert_allclose(np.sort(as_points(points).spanning[1]), expected, rtol=1e-12)


@few
@given(seeds)
def test_density_equals_all_distances(seed: int) -> None:
    points = scattered(10 + seed % 150, seed)
    distances = np.sort(cdist(points, points), axis=1)
    found = density_features(points, region_area=500.0).values
    for radius in density.RADII:
        expected = summarise((distances <= radius).sum(axis=1) - 1, f"density.neighbors_{radius}um")
        assert_equal({key: found[key] for key in expected}, expected)
    for k in (1, 3, 5, 7):
        expected = summarise(distances[:, k], f"density.distance_{k}nn")
        assert_equal({key: found[key] for key in expected}, expected)
    assert found["density.per_area"] == len(points) / 500


def test_crowds_are_counted_without_listing_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    points = scattered(300)
    listed = neighbor_counts(points, density.RADII)
    monkeypatch.setattr(density, "MOST_PAIRS", 0)
    np.testing.assert_array_equal(neighbor_counts(points, density.RADII), listed)


@pytest.mark.parametrize("kind", ["scattered", "a lattice", "a row", "far apart", "crowds"])
def test_machine_code_counts_the_same(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    points = {
        "scattered": scattered(1500),
        "a lattice": square_lattice(40),
        "a row": np.stack([np.arange(1200.0), np.arange(1200) % 3], axis=1),
        "far apart": scattered(1500) * 1000,
        "crowds": np.concatenate([scattered(1000), scattered(1000) / 100]),
    }[kind]
    quick, nearest = neighbor_counts(points, density.RADII), as_points(points).nearest
    monkeypatch.setenv("CLEARFOLD_NUMBA", "0")
    np.testing.assert_array_equal(quick, neighbor_counts(points, density.RADII))
    np.testing.assert_allclose(nearest, as_points(points).nearest, rtol=1e-15)
    distances = np.sqrt(cdist(as_points(points).xy, as_points(points).xy, "sqeuclidean"))
    expected = [(distances <= radius * density.TOUCHING).sum(axis=1) - 1 for radius in density.RADII]
    np.testing.assert_array_equal(quick, np.stack(expected, axis=1))
    plain = density.within(
        np.array([0.0, 3.0]), np.array([0.0, 4.0]), np.array([0, 0, 2, 2, 2]), 2, np.array([16.0, 25.0])
    )
    assert plain.tolist() == [[0, 1], [0, 1]]
    x, y, start = np.array([0.0, 3.0, 3.0]), np.array([0.0, 4.0, 1.0]), np.array([0, 0, 3, 3, 3, 3, 3])
    assert nearest_within(x, y, start, 3, 2).tolist() == [[10, 25], [9, 25], [9, 10]]


# ----------------------------------------------------------------------------------------------------- known by hand


def test_five_points_by_hand() -> None:
    found = architecture([[0, 0], [10, 0], [0, 10], [10, 10], [5, 5]]).values
    assert found["graph.voronoi.area.mean"] == pytest.approx(50)  # a square on its corner, with diagonals of 10
    assert found["graph.voronoi.perimeter.mean"] == pytest.approx(4 * math.sqrt(50))
    assert found["graph.voronoi.chord.mean"] == pytest.approx(10)
    assert found["graph.delaunay.area.mean"] == pytest.approx(25)
    assert found["graph.mst.edge_length.mean"] == pytest.approx(math.sqrt(50))
    assert found["density.neighbors_10um.mean"] == pytest.approx((4 * 3 + 4) / 5)
    assert found["graph.cluster.transitivity"] == pytest.approx(3 * 4 / (6 + 4 * 3))  # a wheel: 4 triangles


def test_a_chain_by_hand() -> None:
    found = cluster_features([[0, 0], [1, 0], [2, 0], [3, 0]]).values
    assert found["graph.cluster.count"] == 1
    assert found["graph.cluster.diameter.mean"] == pytest.approx(3)
    assert found["graph.cluster.eccentricity.mean"] == pytest.approx((3 + 2 + 2 + 3) / 4)
    assert found["graph.cluster.path_length.mean"] == pytest.approx((3 * 1 + 2 * 2 + 3) / 6)
    assert found["graph.cluster.hosoya_log.mean"] == pytest.approx(math.log(5))
    assert found["graph.cluster.clustering"] == 0


def test_a_nucleus_in_a_ring_has_a_cell_with_many_corners() -> None:
    angle = np.linspace(0, 2 * np.pi, 61)[:-1] + 0.01
    points = np.concatenate([10 * np.stack([np.cos(angle), np.sin(angle)], axis=1), [[0, 0]]])
    cells = voronoi_cells(points)
    assert cells.inside.sum() == 1
    corner = 5 / math.cos(np.pi / 60)
    assert cells.chord[cells.inside] == pytest.approx(2 * corner, rel=1e-9)
    assert cells.area[cells.inside] == pytest.approx(30 * corner**2 * math.sin(np.pi / 30), rel=1e-9)


# ------------------------------------------------------------------------------------------------------- invariances

TURNED = {
    "rows": lambda points, angles: (points[::-1], angles[::-1]),
    "shuffled": lambda points, angles: (points[np.random.default_rng(5).permutation(len(points))], None),
    "moved": lambda points, angles: (points + np.array([1234.5, -77.25]), angles),
    "turned": lambda points, angles: (points @ [[0, 1], [-1, 0]], angles + np.pi / 2),
    "mirrored": lambda points, angles: (points * [-1, 1], -angles),
    "transposed": lambda points, angles: (points[:, ::-1], np.pi / 2 - angles),
}


@pytest.mark.parametrize("change", TURNED)
def test_order_place_and_quarter_turns_have_no_influence(change: str) -> None:
    points, angles = scattered(400), axes(400)
    moved, turned = TURNED[change](points, angles)
    expected = architecture(points, None if turned is None else angles)
    assert_equal(architecture(moved, turned).values, expected.values, tolerance=1e-11)
    if change in ("rows", "shuffled"):
        assert_equal(architecture(moved, turned).values, expected.values, tolerance=0)


@pytest.mark.parametrize("lattice", [square_lattice, hexagonal_lattice])
def test_order_has_no_influence_on_a_lattice_or_duplicates(lattice: Any) -> None:
    points = np.concatenate([lattice(9), lattice(9)[:20]])
    angles = axes(len(points))
    order = np.random.default_rng(0).permutation(len(points))
    assert_equal(architecture(points, angles).values, architecture(points[order], angles[order]).values, tolerance=0)


def test_what_a_lattice_leaves_open_does_not_reach_cells_trees_and_links() -> None:
    points = square_lattice(8) + np.array([0.3, 0.1])
    first, second = (architecture(p).values for p in (points, points @ [[0, 1], [-1, 0]]))
    stable = [name for name in NAMES if name.startswith(("graph.voronoi", "graph.mst", "graph.delaunay", "density"))]
    stable += [f"graph.cluster.{name}" for name in ("size.mean", "degree.mean", "degree.sd", "transitivity", "count")]
    assert_equal({n: first[n] for n in stable}, {n: second[n] for n in stable}, tolerance=1e-10)


@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_lengths_and_areas_grow_with_the_scale_and_the_rest_stays(scale: float) -> None:
    points, angles = scattered(300), axes(300)
    power = {"um": 1, "um2": 2, "1/um2": -2, "1": 0, "rad": 0}
    first, second = (architecture(points * k, angles, unit="px").values for k in (1.0, scale))
    for measure in MEASURES:
        for name in measure.features:
            grows = not measure.summarised or name.endswith((".mean", ".sd", ".median"))
            factor = scale ** power[measure.unit] if grows else 1.0
            assert second[name] == pytest.approx(factor * first[name], rel=1e-9, abs=1e-9, nan_ok=True), name


def test_a_hexagonal_lattice_has_no_disorder_and_jitter_adds_it_step_by_step() -> None:
    rng = np.random.default_rng(0)
    lattice, noise = hexagonal_lattice(25), rng.standard_normal((625, 2))
    names = [f"graph.voronoi.{kind}.disorder" for kind in ("area", "perimeter", "chord")] + [
        "graph.mst.edge_length.disorder"
    ]
    runs = [graph_features(lattice + jitter * noise).values for jitter in (0.0, 0.3, 0.8, 1.5, 2.5)]
    for name in names:
        values = [run[name] for run in runs]
        assert values[0] == pytest.approx(0, abs=1e-9)
        assert values == sorted(values), name
        assert values[1] > 1e-3


def test_clustered_random_and_regular_tissue_are_told_apart() -> None:
    rng = np.random.default_rng(3)
    parents = rng.random((40, 2)) * 200
    clustered = np.repeat(parents, 10, axis=0) + rng.normal(0, 3, (400, 2))
    random = rng.random((400, 2)) * 200
    regular = square_lattice(20) + rng.normal(0, 1, (400, 2))
    found = [architecture(points, region_area=4e4).values for points in (clustered, random, regular)]
    for name, order in (
        ("density.clark_evans", 1),
        ("graph.voronoi.area.disorder", -1),
        ("density.neighbors_10um.mean", -1),
    ):
        values = [order * run[name] for run in found]
        assert values == sorted(values), name


# -------------------------------------------------------------------------------------------------- any set of points

DEGENERATE = {
    "none": np.zeros((0, 2)),
    "one": [[1.0, 2.0]],
    "two": [[1.0, 2.0], [4.0, 6.0]],
    "three": [[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]],
    "on a line": np.stack([np.arange(12.0), 0.3 * np.arange(12) + 1], axis=1),
    "nearly on a line": np.stack([np.arange(40.0), 1e-9 * axes(40)], axis=1),
    "rather on a line": np.stack([np.arange(40.0), 1e-6 * axes(40)], axis=1),
    "a lattice": square_lattice(12),
    "a turned lattice": square_lattice(12) @ [[0.8, 0.6], [-0.6, 0.8]],
    "pairs": np.repeat(scattered(20), 2, axis=0),
    "all at one place": np.full((50, 2), 3.7),
    "two places": np.repeat([[0.0, 0.0], [5.0, 5.0]], 10, axis=0),
    "nearly pairs": np.concatenate([scattered(30), scattered(30) + 1e-9]),
    "less nearly pairs": np.concatenate([scattered(30), scattered(30) + 1e-6]),
    "one far away": np.concatenate([scattered(30), [[1e12, 1e12]]]),
    "a ring": np.stack([np.cos(np.arange(50) / 8), np.sin(np.arange(50) / 8)], axis=1),
    "enormous": scattered(30) * 1e50,
    "tiny": scattered(30) * 1e-50,
    "integers": np.random.default_rng(0).integers(0, 12, (200, 2)),
}


@pytest.mark.parametrize("kind", DEGENERATE)
@pytest.mark.parametrize("unit", ["um", "px"])
def test_any_points_give_all_names_and_a_reason_for_each_nan(kind: str, unit: str) -> None:
    points = DEGENERATE[kind]
    for angles in (None, np.zeros(len(points)), np.full(len(points), np.nan), axes(len(points))):
        found = architecture(points, angles, unit=unit)
        assert tuple(found.values) == NAMES
        assert {name for name, value in found.values.items() if math.isnan(value)} == set(found.reasons)
        assert all(found.reasons.values())
        assert not any(math.isinf(value) for value in found.values.values())
        assert len(neighborhood(points, angles, unit=unit)) == len(points)


def test_what_few_points_have_is_measured() -> None:
    three = architecture(DEGENERATE["three"])
    assert three.values["graph.delaunay.area.mean"] == pytest.approx(6)
    assert three.reasons["graph.voronoi.area.mean"] == "no Voronoi cell ends inside the bounding box of the points"
    two = architecture(DEGENERATE["two"])
    assert two.values["graph.mst.edge_length.mean"] == pytest.approx(5)
    assert two.reasons["graph.delaunay.area.mean"] == "fewer than 3 distinct points"
    line = architecture(DEGENERATE["on a line"])
    assert line.reasons["graph.voronoi.area.mean"] == "all points lie on a line"
    assert line.values["graph.mst.edge_length.disorder"] == pytest.approx(0, abs=1e-9)


def test_points_at_one_place_count_once() -> None:
    points = scattered(60)
    assert_equal(architecture(np.repeat(points, 3, axis=0)).values, architecture(points).values, tolerance=0)


def test_a_hundred_thousand_points() -> None:
    points = np.random.default_rng(0).random((100_000, 2)) * 3162
    found = architecture(points, axes(100_000), region_area=1e7)
    assert not found.reasons
    assert found.values["density.clark_evans"] == pytest.approx(1, abs=0.01)  # random by construction
    assert found.values["density.neighbors_50um.mean"] == pytest.approx(0.01 * np.pi * 2500, rel=0.03)
    assert found.values["graph.voronoi.area.mean"] == pytest.approx(100, rel=0.01)


def test_a_lattice_of_a_hundred_thousand_points() -> None:
    found = architecture(square_lattice(317)).values
    assert found["graph.voronoi.area.disorder"] == 0
    assert found["graph.cluster.giant_share"] == 1
    assert found["graph.mst.edge_length.mean"] == 10


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ([[1.0, np.nan]], "1 of 1 points"),
        ([1.0, 2.0, 3.0], r"shape \(3,\)"),
        ([[1.0, 2.0, 3.0]], r"shape \(1, 3\)"),
        ([["a", "b"]], "numbers of shape"),
        ([[0.0, 0.0], [1e300, 0.0]], "span 1e"),
    ],
)
def test_points_that_cannot_be_used_say_why(points: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        architecture(points)


def test_other_arguments_that_cannot_be_used_say_why() -> None:
    points = scattered(5)
    with pytest.raises(InputError, match="4 orientations came for 5 points"):
        architecture(points, axes(4))
    with pytest.raises(InputError, match="unit='mm'"):
        architecture(points, unit="mm")
    with pytest.raises(InputError, match="region_area=0"):
        architecture(points, region_area=0)


# ---------------------------------------------------------------------------------------------------------- clusters


@few
@given(seeds)
def test_clusters_are_those_of_all_pairs_within_the_radius(seed: int) -> None:
    clusters = find_clusters(scattered(5 + seed % 200, seed))
    near = squareform(pdist(clusters.points.xy)) <= clusters.radius
    count, labels = connected_components(near)
    assert len(clusters.sizes) == count
    assert len({*zip(labels.tolist(), clusters.label.tolist(), strict=True)}) == count


def test_clustering_coefficients_equal_networkx() -> None:
    nx = pytest.importorskip("networkx")
    points = scattered(300)
    clusters = find_clusters(points)
    linked = nx.Graph()
    linked.add_nodes_from(range(300))
    linked.add_edges_from(clusters.links.tolist())
    found = cluster_features(points).values
    local = nx.clustering(linked)
    assert found["graph.cluster.transitivity"] == pytest.approx(nx.transitivity(linked))
    assert found["graph.cluster.clustering"] == pytest.approx(np.mean(list(local.values())))
    several = [local[node] for node, degree in linked.degree if degree > 1]
    assert found["graph.cluster.clustering_linked"] == pytest.approx(np.mean(several))


def test_ways_along_the_tree_equal_all_shortest_paths() -> None:
    nx = pytest.importorskip("networkx")
    points = scattered(300)
    clusters = find_clusters(points)
    tree = nx.Graph()
    for (a, b), length in zip(clusters.tree[0].tolist(), clusters.tree[1].tolist(), strict=True):
        tree.add_edge(a, b, weight=length)
    longest, means = [], []
    for nodes in nx.connected_components(tree):
        paths = dict(nx.all_pairs_dijkstra_path_length(tree.subgraph(nodes)))
        longest += [max(path.values()) for path in paths.values()]
        means.append(np.mean([paths[a][b] for a, b in combinations(nodes, 2)]))
    found = cluster_features(points).values
    for name, values in (("eccentricity", longest), ("path_length", means)):
        expected = summarise(values, f"graph.cluster.{name}")
        assert_equal({key: found[key] for key in expected}, expected, tolerance=1e-9)


def test_pieces_are_connected_parts_of_clusters_and_not_too_large() -> None:
    clusters = find_clusters(hexagonal_lattice(15) + np.random.default_rng(0).normal(0, 0.1, (225, 2)))
    assert len(clusters.sizes) == 1
    assert np.bincount(clusters.pieces).max() <= cell_clusters.LARGEST_PIECE
    inside = clusters.links[clusters.pieces[clusters.links[:, 0]] == clusters.pieces[clusters.links[:, 1]]]
    near = np.zeros((225, 225))
    near[tuple(inside.T)] = 1
    assert connected_components(near)[0] == clusters.pieces.max() + 1


# ------------------------------------------------------------------------------------------------------ Hosoya index


def lattice_graph(width: int, height: int) -> list[tuple[int, int]]:
    across = [(height * i + j, height * (i + 1) + j) for i in range(width - 1) for j in range(height)]
    return across + [(height * i + j, height * i + j + 1) for i in range(width) for j in range(height - 1)]


def close_pairs(n: int, seed: int) -> list[tuple[int, int]]:
    """Edges of a planar graph: short edges of a triangulation."""
    points = scattered(n, seed)
    where = as_points(points)
    kept = where.edges[where.edge_lengths < np.quantile(where.edge_lengths, 0.6)]
    return [(int(a), int(b)) for a, b in kept]


def test_paths_are_fibonacci_cycles_lucas_and_complete_graphs_involutions() -> None:
    fibonacci, lucas, involutions = [1, 1], [2, 1], [1, 1]
    for i in range(2, 90):
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
        lucas.append(lucas[-1] + lucas[-2])
        involutions.append(involutions[-1] + (i - 1) * involutions[-2])
    assert [hosoya_index(n, [(i, i + 1) for i in range(n - 1)]) for n in range(90)] == fibonacci
    assert [hosoya_index(n, [(i, (i + 1) % n) for i in range(n)]) for n in range(3, 90)] == lucas[3:]
    assert [hosoya_index(n, combinations(range(n), 2)) for n in range(13)] == involutions[:13]
    assert hosoya_index(12, [(0, i) for i in range(1, 12)]) == 12


def test_domino_counts_of_a_chessboard_are_among_its_matchings() -> None:
    # the matching polynomial of an 8 x 8 board at 1: monomer-dimer coverings (OEIS A028420)
    assert hosoya_index(64, lattice_graph(8, 8)) == 179788343101980135


@pytest.mark.parametrize("n", [10, 30, 60])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_matchings_equal_graphillion(n: int, seed: int) -> None:
    graphillion = pytest.importorskip("graphillion")
    edges = close_pairs(n, seed)
    graphillion.GraphSet.set_universe(edges)
    nodes = {node for edge in edges for node in edge}
    counted = graphillion.GraphSet.graphs(degree_constraints={node: range(2) for node in nodes}).len()
    assert hosoya_index(n, edges) == counted


@few
@given(seeds)
def test_an_edge_is_in_a_matching_or_not(seed: int) -> None:
    edges = close_pairs(4 + seed % 20, seed)
    if edges:
        (a, b), rest = edges[0], edges[1:]
        apart = [edge for edge in rest if not {a, b} & set(edge)]
        assert hosoya_index(24, edges) == hosoya_index(24, rest) + hosoya_index(24, apart)


def test_names_of_nodes_have_no_influence_and_parts_multiply() -> None:
    edges = close_pairs(15, 4)
    names = np.random.default_rng(0).permutation(15)
    once = hosoya_index(15, edges)
    assert hosoya_index(15, [(names[a], names[b]) for a, b in edges]) == once
    assert hosoya_index(30, edges + [(a + 15, b + 15) for a, b in edges]) == once**2


def test_pieces_are_counted_like_single_graphs() -> None:
    rng = np.random.default_rng(0)
    piece = np.sort(rng.integers(0, 30, 200))
    edges = np.array(
        [pair for pair in combinations(range(200), 2) if rng.random() < 0.35 and np.ptp(piece[list(pair)]) < 2]
    )
    found = hosoya_of_pieces(piece, edges)
    for i in range(30):
        nodes = np.flatnonzero(piece == i).tolist()
        inside = [(nodes.index(a), nodes.index(b)) for a, b in edges.tolist() if {a, b} <= set(nodes)]
        assert found[i] == hosoya_index(len(nodes), inside)


def test_a_graph_that_would_take_forever_is_refused() -> None:
    with pytest.raises(InputError, match="too dense"):
        hosoya_index(60, combinations(range(60), 2))


# ------------------------------------------------------------------------------------------------------- orientation


def test_parallel_axes_have_no_entropy_and_no_contrast() -> None:
    found = orientation_features(scattered(100), np.full(100, 0.7)).values
    for name in ("region.entropy", "region.variance", "pairs.entropy", "pairs.contrast", "local.entropy.mean"):
        assert found[f"orientation.{name}"] == pytest.approx(0, abs=1e-12)
    assert found["orientation.pairs.energy"] == found["orientation.pairs.correlation"] == 1


def test_axes_at_random_have_all_the_entropy_there_is() -> None:
    found = orientation_features(scattered(20_000), axes(20_000)).values
    assert found["orientation.region.entropy"] == pytest.approx(math.log(orientation.BINS), abs=1e-3)
    assert found["orientation.pairs.entropy"] == pytest.approx(2 * math.log(orientation.BINS), abs=0.01)
    assert found["orientation.pairs.information"] == pytest.approx(0, abs=0.01)
    assert found["orientation.region.variance"] > 0.98
    assert found["orientation.local.difference.mean"] == pytest.approx(np.pi / 4, abs=0.01)


def test_an_axis_has_no_front() -> None:
    points, angles = scattered(100), axes(100)
    turns = np.random.default_rng(0).integers(-2, 3, 100)
    assert_equal(
        orientation_features(points, angles + np.pi * turns).values, orientation_features(points, angles).values
    )


@pytest.mark.parametrize("bins", [1, 3, 6, 7])
def test_turning_all_axes_by_whole_bins_changes_nothing(bins: int) -> None:
    points, angles = scattered(200), axes(200)
    turned = orientation_features(points, angles + bins * np.pi / orientation.BINS).values
    assert_equal(turned, orientation_features(points, angles).values)


@pytest.mark.parametrize("degrees", [0, 30, 45, 60, 90, 135, 180])
def test_common_angles_are_not_torn_apart_by_rounding(degrees: int) -> None:
    angles = np.deg2rad(degrees) + np.random.default_rng(0).normal(0, 1e-6, 50)
    assert orientation_features(scattered(50), angles).values["orientation.region.entropy"] == 0


def test_cooccurrence_by_hand() -> None:
    # one cluster: a path of three nuclei at 0, 0 and 90 degrees
    found = orientation_features([[0, 0], [1, 0], [2, 0]], [0, 0, np.pi / 2]).values
    assert found["orientation.pairs.contrast"] == pytest.approx(0.5 * 36)
    assert found["orientation.pairs.energy"] == pytest.approx(0.5**2 + 2 * 0.25**2)
    assert found["orientation.pairs.entropy"] == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(4))
    assert found["orientation.pairs.correlation"] == pytest.approx(0, abs=1e-12)
    assert found["orientation.cluster.contrast.mean"] == found["orientation.pairs.contrast"]


def test_a_gland_that_turns_slowly_is_locally_ordered() -> None:
    points = square_lattice(20) + np.random.default_rng(0).normal(0, 1, (400, 2))
    slow = points[:, 0] / 200 * np.pi
    ordered = orientation_features(points, slow).values
    shuffled = orientation_features(points, np.random.default_rng(1).permutation(slow)).values
    assert ordered["orientation.region.entropy"] == pytest.approx(shuffled["orientation.region.entropy"])
    for name in (
        "local.entropy.mean",
        "local.variance.mean",
        "pairs.entropy",
        "pairs.contrast",
        "local.difference.mean",
    ):
        assert ordered[f"orientation.{name}"] < 0.8 * shuffled[f"orientation.{name}"]


def test_round_objects_have_no_direction() -> None:
    points, angles = scattered(60), axes(60)
    angles[::3] = np.nan
    found = orientation_features(points, angles)
    assert not found.reasons
    alone = orientation_features(points, np.full(60, np.nan))
    assert set(alone.reasons.values()) == {"no object has a direction"}


# ---------------------------------------------------------------------------------------------- names, units, tables


def test_every_number_has_one_name_of_the_agreed_form() -> None:
    assert len(set(NAMES)) == len(NAMES) >= 250
    assert all(re.fullmatch(r"(graph|density|orientation)(\.[a-z0-9_]+){1,3}", name) for name in NAMES)
    assert all(measure.formula and measure.source for measure in MEASURES)
    assert {measure.unit for measure in MEASURES} <= {"um", "um2", "1/um2", "1", "rad"}
    assert len({measure.name for measure in MEASURES}) == len(MEASURES)


def test_a_measure_is_of_a_family_and_has_features() -> None:
    one = Measure("density.count", "n", "1", "VINK", summarised=False)
    assert (one.family, one.features) == ("density", ("density.count",))


def test_families_can_be_had_alone() -> None:
    points = scattered(80)
    whole = architecture(points).values
    for part in (graph_features(points), cluster_features(points), density_features(points)):
        assert part.values.items() <= whole.items()


def test_a_series_carries_the_reasons() -> None:
    series = architecture([[0, 0], [1, 1]]).to_series()
    assert list(series.index) == list(NAMES)
    assert series.attrs["reasons"]["graph.delaunay.area.mean"] == "fewer than 3 distinct points"


def test_rows_of_the_table_of_objects_follow_the_points() -> None:
    points, angles = scattered(50), axes(50)
    table = neighborhood(points, angles)
    assert table.index.tolist() == list(range(1, 51))
    np.testing.assert_allclose(table["density.distance_1nn"], np.sort(squareform(pdist(points)), axis=1)[:, 1])
    order = np.random.default_rng(0).permutation(50)
    again = neighborhood(points[order], angles[order])
    np.testing.assert_array_equal(again.to_numpy(), table.to_numpy()[order])
    found = architecture(points, angles).values
    for column in ("graph.voronoi.area", "density.neighbors_20um", "orientation.local.entropy", "graph.cluster.degree"):
        assert table[column].mean() == pytest.approx(found[f"{column}.mean"])


def test_without_a_scale_radii_are_multiples_of_the_spacing() -> None:
    points = scattered(100)
    factor = 10 / as_points(points).spacing
    in_pixels, in_um = (density_features(points, unit="px").values, density_features(points * factor).values)
    names = [name for name in in_um if "neighbors" in name]
    assert_equal({n: in_pixels[n] for n in names}, {n: in_um[n] for n in names})


def test_all_parts_are_declared_where_they_are_computed() -> None:
    parts = (graph.MEASURES, cell_clusters.MEASURES, density.MEASURES, orientation.MEASURES)
    assert tuple(measure for part in parts for measure in part) == MEASURES
