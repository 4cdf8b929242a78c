"""Distances of gland shapes: blind to what is not shape, ordered where shapes are, right on real glands."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearfold.embedding import GraphEmbedding, Isomap
from clearfold.errors import InputError
from clearfold.evaluate import retrieval
from clearfold.features.closed_contours import SAMPLES, as_closed_contours, harmonics
from clearfold.features.contour_matching import align, curves, elastic, plates, with_mirror_images
from clearfold.features.contour_profiles import concavity, elliptic, medial_axis
from clearfold.features.contours import METHODS, shape_distance, shape_distances, shape_distances_to

every_method = pytest.mark.parametrize("method", METHODS)


def blob(seed: int = 0, waves: int = 6, corners: int = 240) -> np.ndarray:
    """A smooth closed contour without any symmetry, elongated along x."""
    random = np.random.default_rng(seed)
    angle = 2 * np.pi * np.arange(corners) / corners
    radius = np.ones(corners)
    for wave in range(2, waves):
        radius += random.uniform(-0.3, 0.3) / wave * np.cos(wave * angle + random.uniform(0, 6))
    return np.column_stack([30 * radius * np.cos(angle), 18 * radius * np.sin(angle)])


def ellipse(ratio: float, corners: int = 200) -> np.ndarray:
    angle = 2 * np.pi * np.arange(corners) / corners
    return np.column_stack([np.cos(angle) * ratio**0.5, np.sin(angle) / ratio**0.5])


def turned(contour: np.ndarray, degrees: float) -> np.ndarray:
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return contour @ np.array([[c, s], [-s, c]])


def begun_within_a_side(contour: np.ndarray) -> np.ndarray:
    """The same contour from another start, which is no corner of the first."""
    rolled = np.roll(contour, 37, axis=0)
    return np.vstack([(rolled[-1] + 2 * rolled[0]) / 3, rolled])


SAME: dict[str, Any] = {
    "moved": lambda c: c + np.array([1234.5, -77.0]),
    "turned": lambda c: turned(c, 73.0),
    "turned by a right angle": lambda c: turned(c, 90.0),
    "another start": lambda c: np.roll(c, 51, axis=0),
    "another start within a side": begun_within_a_side,
    "backwards": lambda c: c[::-1],
    "in a mirror": lambda c: c * [-1, 1],
    "larger": lambda c: 17.0 * c,
    "closed by its first point": lambda c: np.vstack([c, c[:1]]),
    "every corner twice": lambda c: np.repeat(c, 2, axis=0),
    "with points on its sides": lambda c: np.stack([c, (c + np.roll(c, -1, axis=0)) / 2], axis=1).reshape(-1, 2),
}


# --- what is not shape does not count


@every_method
@pytest.mark.parametrize("change", SAME)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_distance_is_blind_to_what_is_not_shape(method: str, change: str, seed: int) -> None:
    assert shape_distance(blob(seed), SAME[change](blob(seed)), method) < 1e-6
    other = blob(seed + 10)
    distance = shape_distance(blob(seed), other, method)
    assert distance > 1e-2
    assert shape_distance(SAME[change](blob(seed)), other, method) == pytest.approx(distance, rel=1e-6)


@every_method
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), degrees=st.floats(0, 360), start=st.integers(0, 239), mirror=st.booleans())
def test_any_turn_and_any_start(method: str, seed: int, degrees: float, start: int, mirror: bool) -> None:
    contour = blob(seed)
    changed = np.roll(turned(contour, degrees), start, axis=0) * [1, -1 if mirror else 1]
    assert shape_distance(contour, changed, method) < 1e-6


@every_method
def test_a_square_has_no_long_axis_and_is_still_itself(method: str) -> None:
    square = np.array([(0, 0), (1, 0), (1, 1), (0, 1.0)])
    for degrees in (5.0, 33.0, 71.0):
        assert shape_distance(square, begun_within_a_side(turned(square, degrees)), method) < 1e-6


@every_method
def test_matrix_is_a_table_of_distances(method: str) -> None:
    contours = [blob(seed) for seed in range(12)]
    table = shape_distances(contours, method)
    assert table.shape == (12, 12)
    assert np.array_equal(table, table.T)
    assert np.array_equal(np.diag(table), np.zeros(12))
    assert (table[~np.eye(12, dtype=bool)] > 0).all()
    assert np.isfinite(table).all()
    np.testing.assert_allclose(shape_distances_to(contours, contours, method), table, atol=2e-6)
    np.testing.assert_allclose(shape_distances(contours[::-1], method), table[::-1, ::-1], atol=1e-9)
    assert shape_distance(contours[3], contours[5], method) == pytest.approx(table[3, 5], abs=1e-9)
    assert shape_distance(contours[5], contours[3], method) == pytest.approx(table[3, 5], abs=1e-9)


@pytest.mark.parametrize("method", ["elastic", "thin_plate"])
def test_threads_do_not_change_a_matrix(method: str) -> None:
    contours = [blob(seed) for seed in range(9)]
    alone = shape_distances(contours, method)
    assert np.array_equal(shape_distances(contours, method, n_jobs=2), alone)
    to = shape_distances_to(contours[:2], contours, method)
    assert np.array_equal(shape_distances_to(contours[:2], contours, method, n_jobs=2), to)


@every_method
def test_none_and_one_contour(method: str) -> None:
    assert shape_distances([], method).shape == (0, 0)
    assert np.array_equal(shape_distances([blob()], method), [[0.0]])
    assert shape_distances_to([], [blob()], method).shape == (0, 1)
    assert shape_distances_to([blob()], [], method).shape == (1, 0)


# --- shape does count


@every_method
def test_ellipses_are_ordered_by_their_axes(method: str) -> None:
    ratios = [1.2, 1.5, 2.0, 2.6, 3.3]
    table = shape_distances([ellipse(ratio) for ratio in ratios], method)
    for row in range(len(ratios)):
        assert (np.diff(table[row, row:]) > 0).all()
        assert (np.diff(table[row, : row + 1]) < 0).all()


@every_method
def test_deeper_bays_are_further_from_a_circle(method: str) -> None:
    angle = 2 * np.pi * np.arange(300) / 300
    stars = [
        np.column_stack([np.cos(angle), 0.7 * np.sin(angle)]) * (1 + deep * np.cos(5 * angle))[:, None]
        for deep in (0, 0.1, 0.2, 0.3)
    ]
    assert (np.diff(shape_distances(stars, method)[0]) > 0).all()


@every_method
def test_pixels_matter_little(method: str) -> None:
    """Rounding a contour of 240 by 140 pixels moves it less than half as far as another contour is away."""
    contours = [4 * blob(seed, waves=9) for seed in range(8)]
    rounded = [np.rint(contour) for contour in contours]
    grain = np.diag(shape_distances_to(rounded, contours, method))
    others = shape_distances(contours, method)[~np.eye(8, dtype=bool)]
    assert grain.max() < 0.5 * np.median(others)


@every_method
def test_size_counts_when_asked_for(method: str) -> None:
    small, large = blob(3), np.e * blob(3)
    assert shape_distance(small, large, method, size=0.25) == pytest.approx(0.25, abs=1e-6)
    without, with_size = (shape_distance(small, np.e * blob(4), method, size=size) for size in (0.0, 2.0))
    ratio = np.log(as_closed_contours([np.e * blob(4)]).size / as_closed_contours([small]).size)[0]
    assert with_size == pytest.approx(np.hypot(without, 2.0 * ratio))


# --- the parts are what they say


def test_harmonics_equal_elliptic_fourier_coefficients() -> None:
    pyefd = pytest.importorskip("pyefd")
    contour = blob(5, corners=40)
    closed = np.vstack([contour, contour[:1]])
    expected = pyefd.elliptic_fourier_descriptors(closed, order=12)
    points = closed[:, 0] + 1j * closed[:, 1]
    orders = np.arange(1, 13)
    forward, backward = harmonics(points, orders), harmonics(points, -orders)
    x, y = expected[:, 0] - 1j * expected[:, 1], expected[:, 2] - 1j * expected[:, 3]
    np.testing.assert_allclose(forward, (x + 1j * y) / 2, atol=1e-9)
    np.testing.assert_allclose(backward, (x.conj() + 1j * y.conj()) / 2, atol=1e-9)


def test_a_circle_is_one_elliptic_harmonic() -> None:
    profile = elliptic(as_closed_contours([ellipse(1.0)]))[0]
    others = np.delete(profile, (len(profile) - 1) // 2)  # the short axis of the first, as long as the long one
    assert np.abs(others).max() < 1e-9
    assert profile.sum() == pytest.approx(1.0)


def test_contours_are_normal_whatever_their_start() -> None:
    contour = blob(1)
    one, other = as_closed_contours([contour]), as_closed_contours([begun_within_a_side(contour)[::-1]])
    points, again = one.points[0], other.points[0]
    half = np.roll(again, SAMPLES // 2)
    assert min(np.abs(points - again).max(), np.abs(points - half).max()) < 1e-9
    area = (points.conj() * np.roll(points, -1)).imag.sum() / 2
    assert area == pytest.approx(1.0, abs=0.01)
    assert one.size[0] == pytest.approx(np.sqrt(_shoelace(contour)))


def _shoelace(contour: np.ndarray) -> float:
    x, y = contour.T
    return float(abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2)


def test_medial_axis_of_a_rectangle() -> None:
    """Sides 4 and 1: most of the axis is the line in the middle, half a side away from the border."""
    profile = medial_axis(as_closed_contours([[(0, 0), (4, 0), (4, 1), (0, 1)]]))[0]
    radii = profile[:-1] * len(profile[:-1]) ** 0.5
    assert np.median(radii) == pytest.approx(0.25, abs=0.005)  # area 1 makes the sides 2 and 1/2
    assert radii.max() <= 0.25 + 0.005
    # the middle is 3/2 long, and what is left of the four branches to the corners, each .35 long
    assert 1.5 < profile[-1] ** 2 < 1.5 + 4 * 0.25 * 2**0.5


def test_convex_contours_have_no_depth() -> None:
    profile = concavity(as_closed_contours([ellipse(2.0), blob(0, waves=6)]))
    assert profile[0, :SAMPLES].max() < 1e-6
    assert profile[1, :SAMPLES].max() > 1e-3


def test_alignment_equals_trying_every_start_turn_and_mirror() -> None:
    points = with_mirror_images(as_closed_contours([blob(0), blob(1), blob(2)]).every(32))
    found = align(points[0, 0], points)
    for which in range(3):
        tried = [
            abs(np.vdot(points[0, 0], np.roll(points[mirror, which], -shift)))
            for mirror in range(2)
            for shift in range(32)
        ]
        assert found.agreement[which] == pytest.approx(max(tried))
        laid = np.roll(points[found.mirrored[which], which], -found.shift[which]) * found.turn[which]
        assert np.vdot(points[0, 0], laid) == pytest.approx(max(tried))


def test_elastic_match_is_at_least_the_stiff_one() -> None:
    contours = as_closed_contours([blob(seed) for seed in range(6)])
    ready = curves(contours)
    stiff = align(ready.velocity[0, 0, 0], ready.velocity[:, 0]).agreement
    assert (elastic(ready.take([0]), ready) <= np.arccos(np.minimum(stiff, 1.0)) + 1e-7).all()


def test_elastic_distance_forgives_a_longer_arm() -> None:
    """A finger of the same kind further along its side costs less than no finger at all."""
    plain = [(0, 0), (10, 0), (10, 3), (0, 3)]
    finger, later = (
        [(0, 0), (10, 0), (10, 3), (at + 1, 3), (at + 1, 6), (at, 6), (at, 3), (0, 3)] for at in (6.5, 7.0)
    )
    assert shape_distance(finger, later, "elastic") < 0.5 * shape_distance(finger, plain, "elastic")


def test_bending_energy_forgives_what_is_affine() -> None:
    ready = plates(as_closed_contours([blob(2)]))
    landmarks = ready.landmarks[0, 0]
    straight = 0.3 + 0.2j + 1.1 * landmarks + 0.4 * landmarks.conj()
    assert (straight.conj() @ ready.energy[0] @ straight).real == pytest.approx(0.0, abs=1e-9)
    assert np.linalg.eigvalsh(ready.energy[0]).min() > -1e-9


# --- contours that are none


@pytest.mark.parametrize(
    ("contour", "reason"),
    [
        ([], "shape"),
        ([(0, 0)], "fewer than 3"),
        ([(0, 0), (1, 1)], "encloses no area|fewer than 3"),
        ([(1, 1)] * 9, "fewer than 3"),
        ([(0, 0), (1, 1), (2, 2), (3, 3)], "no area"),
        ([(0, 0), (2, 2), (2, 0), (0, 2)], "no area"),
        ([(0, 0), (1, 0), (np.nan, 1)], "NaN"),
        ([(0, 0), (1, 0), (np.inf, 1)], "infinite"),
        ([(0, 0, 0), (1, 0, 0), (1, 1, 0)], "shape"),
        ([0, 1, 2], "shape"),
        ("outline", "numbers"),
        (None, "shape|numbers"),
    ],
)
def test_an_unusable_contour_is_named(contour: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as caught:
        shape_distances([blob(), blob(1), contour])
    assert "contours[2]" in str(caught.value)
    with pytest.raises(InputError, match=r"new\[0\]"):
        shape_distances_to([contour], [blob()])


@every_method
@pytest.mark.parametrize(
    "contour",
    [
        [(0, 0), (1, 0), (0, 1)],
        [(0, 0), (4, 4), (4, 0), (0, 2)],  # crosses itself, and still encloses something
        [(0.5, 0), (1, 0.5), (0.5, 1), (0, 0.5)],  # a single pixel
        [(0, 0), (9, 0), (9, 1), (5, 0), (4, 1), (0, 1)],  # touches itself
        [(0, 0), (100, 0), (100, 0.1), (0, 0.1)],  # a needle
        1e9 + np.array([(0, 0), (3, 0), (3, 2), (0, 2)]),
        ellipse(1.0),
    ],
    ids=["triangle", "crossing", "pixel", "touching", "needle", "far away", "circle"],
)
def test_odd_contours_have_a_finite_distance(method: str, contour: Any) -> None:
    table = shape_distances([blob(), contour, turned(np.asarray(contour, dtype=float), 90.0)], method)
    assert np.isfinite(table).all()
    assert table[0, 1] > 0
    assert shape_distance(contour, contour, method) < 1e-6


@pytest.mark.parametrize("wrong", [{"method": "hausdorff"}, {"size": -1.0}, {"size": np.nan}, {"size": True}])
def test_wrong_options_are_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="came"):
        shape_distances([blob()], **wrong)


def test_one_contour_in_place_of_a_list_is_refused() -> None:
    with pytest.raises(InputError, match="shape"):
        shape_distances(blob())
    with pytest.raises(InputError, match="list"):
        shape_distances(7)  # type: ignore[arg-type]


# --- in use


def test_embeddings_take_the_matrix_and_place_new_glands() -> None:
    contours = [ellipse(ratio) for ratio in np.linspace(1.1, 4.0, 30)]
    table = shape_distances(contours, "fourier")
    coordinates = Isomap(n_components=1, n_neighbors=5, metric="precomputed").fit(table).embedding_[:, 0]
    assert (np.diff(coordinates * np.sign(coordinates[-1] - coordinates[0])) > 0).all()
    graph = GraphEmbedding(n_components=2, metric="precomputed").fit(table)
    placed = graph.transform(shape_distances_to(contours[:4], contours, "fourier"))
    np.testing.assert_allclose(placed, graph.embedding_[:4], atol=1e-6)


def test_default_finds_glands_of_the_same_grade_in_other_patients(data: Path) -> None:
    contours, grades, patients = real_glands(data)
    assert len(contours) == 1530
    found = retrieval(
        shape_distances(contours),
        grades,
        groups=patients,
        metric="precomputed",
        measure="average_precision",
        n_bootstrap=0,
    )
    assert found["chance_micro"] == pytest.approx(0.48, abs=0.01)
    assert found["micro"] >= 0.60
    assert found["macro"] >= found["chance_macro"] + 0.1


def real_glands(data: Path) -> tuple[list[np.ndarray], list[str], list[int]]:
    """Contours of all glands of GlaS, the grade and the patient of their image."""
    import pandas as pd
    from PIL import Image

    from clearfold.objects import Objects

    contours, grades, patients = [], [], []
    for row in pd.read_csv(data / "glas" / "glas_labels.csv").itertuples():
        mask = np.array(Image.open(data / "glas" / "masks" / f"{row.name}.png"))
        found = Objects.from_labels(mask, kind="gland").contours
        contours += found
        grades += [row.grade] * len(found)
        patients += [row.patient] * len(found)
    return contours, grades, patients
