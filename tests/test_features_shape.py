"""Shape of objects: equal to scikit-image and pyefd, the same however an object lies, defined for every object."""

import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyefd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage
from skimage import measure

from clearfold.errors import InputError, ObjectsError
from clearfold.features import kernels
from clearfold.features.shape import MISSING, POWERS, SHAPE, object_shape, of_structure, positions

ELLIPTIC = [f"elliptic_{k}" for k in range(1, 11)]
FOURIER = [f"fourier_{k}" for k in range(1, 11)]
HU = [f"hu_{k}" for k in range(1, 8)]
REFERENCE = {
    "area": "area",
    "filled_area": "area_filled",
    "convex_area": "area_convex",
    "perimeter": "perimeter",
    "equivalent_diameter": "equivalent_diameter_area",
    "major_axis": "axis_major_length",
    "eccentricity": "eccentricity",
    "extent": "extent",
    "solidity": "solidity",
    "feret_max": "feret_diameter_max",
    "euler_number": "euler_number",
} | {f"hu_{k + 1}": f"moments_hu-{k}" for k in range(7)}
"""Our columns and scikit-image's, for objects of any form; minor axes of lines are noise in the latter."""


@pytest.fixture(params=["numpy", "numba"], autouse=True)
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every truth holds on both paths."""
    monkeypatch.setenv("CLEARFOLD_NUMBA", "1" if request.param == "numba" else "0")
    if request.param == "numba" and kernels.compiled(kernels.harmonics) is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("numba is not installed")
    return request.param


def blobs(seed: int, shape: tuple[int, int] = (70, 90), sigma: float = 2.0, share: float = 0.5) -> np.ndarray:
    """Pieces of smooth noise: holes, concave forms, single pixels, objects at the border and objects that touch."""
    rng = np.random.default_rng(seed)
    noise = ndimage.gaussian_filter(rng.normal(size=shape), sigma)
    labels, count = ndimage.label(noise > np.quantile(noise, 1 - share))
    halves = np.where((labels > 0) & (noise > np.quantile(noise, 0.85)), labels + count, labels)
    return consecutive(halves)


def consecutive(labels: np.ndarray) -> np.ndarray:
    return np.unique(labels, return_inverse=True)[1].reshape(labels.shape).astype(np.int32)


def ellipse(a: float, b: float, angle: float, size: int = 81) -> np.ndarray:
    y, x = np.mgrid[:size, :size] - size // 2
    along, across = x * np.cos(angle) - y * np.sin(angle), x * np.sin(angle) + y * np.cos(angle)
    return ((along / a) ** 2 + (across / b) ** 2 <= 1).astype(np.int32)


def reference(labels: np.ndarray) -> dict[str, np.ndarray]:
    names = [
        name.split("-")[0] for name in (*REFERENCE.values(), "centroid", "bbox", "orientation", "axis_minor_length")
    ]
    return measure.regionprops_table(labels, properties=tuple(dict.fromkeys(names)))


def contours(labels: np.ndarray) -> Iterator[np.ndarray]:
    """The outline of each object that encloses most, by scikit-image."""
    for label, box in enumerate(ndimage.find_objects(labels), start=1):
        mask = np.pad(labels[box] == label, 1).astype(float)
        found = measure.find_contours(mask, 0.5, fully_connected="high")
        yield max(found, key=lambda line: (abs(shoelace(line)), len(line)))


def shoelace(line: np.ndarray) -> float:
    return float(np.sum(line[:-1, 0] * line[1:, 1] - line[1:, 0] * line[:-1, 1]) / 2)


# --- references


@given(seed=st.integers(0, 10_000), sigma=st.sampled_from([0.7, 1.5, 3.0]), share=st.sampled_from([0.3, 0.6]))
@settings(max_examples=12, deadline=None)
def test_measures_are_scikit_images(seed: int, sigma: float, share: float) -> None:
    labels = blobs(seed, sigma=sigma, share=share)
    ours, theirs = object_shape(labels), reference(labels)
    for column, name in REFERENCE.items():
        np.testing.assert_allclose(ours[column], theirs[name], rtol=1e-12, atol=1e-12, err_msg=column)
    round_ = ours["minor_axis"] > 0
    np.testing.assert_allclose(ours["minor_axis"][round_], theirs["axis_minor_length"][round_], rtol=1e-9)
    assert theirs["axis_minor_length"][~round_] == pytest.approx(0, abs=1e-6)
    places = positions(labels)
    np.testing.assert_allclose(
        places[["y", "x"]], np.stack([theirs["centroid-0"], theirs["centroid-1"]], 1), rtol=1e-12
    )
    box = np.stack([theirs[f"bbox-{i}"] for i in range(4)], axis=1)
    np.testing.assert_array_equal(places[["top", "left", "bottom", "right"]], box)
    np.testing.assert_array_equal(ours[["box_height", "box_width"]], box[:, 2:] - box[:, :2])


def test_orientation_is_scikit_images_where_there_is_one() -> None:
    angles = np.arange(0, np.pi, 0.1)
    for angle in angles:
        labels = ellipse(20, 11, angle)
        ours, theirs = object_shape(labels)["orientation"].loc[1], reference(labels)["orientation"][0]
        assert np.sin(ours - theirs) == pytest.approx(0, abs=1e-12)  # half a turn is the same axis
    assert np.isnan(object_shape(np.ones((5, 5), int))["orientation"].loc[1])


@given(seed=st.integers(0, 10_000))
@settings(max_examples=8, deadline=None)
def test_elliptic_and_other_descriptors_are_those_of_the_traced_contour(seed: int) -> None:
    labels = blobs(seed)
    ours, centre = object_shape(labels), positions(labels)
    boxes = ndimage.find_objects(labels)
    for i, line in enumerate(contours(labels)):
        elliptic = pyefd.elliptic_fourier_descriptors(line, order=10, normalize=True)
        np.testing.assert_allclose(ours[ELLIPTIC].iloc[i], np.linalg.norm(elliptic, axis=1), rtol=1e-9, atol=1e-12)
        origin = centre[["y", "x"]].iloc[i].to_numpy() - [boxes[i][0].start - 1, boxes[i][1].start - 1]
        distance = np.linalg.norm(line - origin, axis=1)
        steps = np.linalg.norm(np.diff(line, axis=0), axis=1)
        mean = np.sum((distance[1:] + distance[:-1]) / 2 * steps) / steps.sum()
        where = np.concatenate([[0], np.cumsum(steps)])
        fine = np.interp(np.linspace(0, where[-1], 2**14, endpoint=False), where, distance)
        series = 2 * np.abs(np.fft.rfft(fine))[1:11] / 2**14 / mean
        np.testing.assert_allclose(ours[FOURIER].iloc[i], series, atol=1e-6)


def test_ratio_of_perimeters_is_that_of_the_contour_and_its_hull() -> None:
    from scipy.spatial import ConvexHull

    labels = blobs(3)
    ours = object_shape(labels)
    for i, line in enumerate(contours(labels)):
        hull = ConvexHull(line)  # in the plane its area is the perimeter
        length = np.linalg.norm(np.diff(line, axis=0), axis=1).sum()
        if ndimage.label(labels == i + 1, np.ones((3, 3)))[1] == 1:  # in one piece
            assert ours["perimeter_ratio"].iloc[i] <= 1 + 1e-12
            assert ours["convex_perimeter"].iloc[i] == pytest.approx(hull.area, rel=1e-12)
            assert ours["perimeter_ratio"].iloc[i] == pytest.approx(hull.area / length, rel=1e-12)


def test_smallest_feret_is_the_smallest_width_over_many_directions() -> None:
    labels = blobs(5)
    ours = object_shape(labels)
    angles = np.linspace(0, np.pi, 4001)
    for label, box in enumerate(ndimage.find_objects(labels), start=1):
        hull = measure.regionprops((labels[box] == label).astype(np.uint8))[0].image_convex
        points = np.argwhere(hull)[:, None, :] + np.array([[0.5, 0], [-0.5, 0], [0, 0.5], [0, -0.5]])
        along = points.reshape(-1, 2) @ np.stack([np.cos(angles), np.sin(angles)])
        width = np.ptp(along, axis=0).min()
        assert ours["feret_min"].loc[label] <= width + 1e-9
        assert ours["feret_min"].loc[label] == pytest.approx(width, abs=0.03)


def test_real_nuclei_equal_the_references(data: Path) -> None:
    from skimage.io import imread

    mask = sorted((data / "nuclei_gbm40" / "labels").iterdir())[0]
    labels = consecutive(imread(mask).astype(np.int32))
    ours, theirs = object_shape(labels), reference(labels)
    assert len(ours) > 20
    for column, name in REFERENCE.items():
        np.testing.assert_allclose(ours[column], theirs[name], rtol=1e-12, atol=1e-12, err_msg=column)
    descriptors = [pyefd.elliptic_fourier_descriptors(line, 10, normalize=True) for line in contours(labels)]
    np.testing.assert_allclose(ours[ELLIPTIC], np.linalg.norm(descriptors, axis=2), rtol=1e-9, atol=1e-12)


# --- what a figure of known form has


def test_an_ellipse_has_the_measures_of_an_ellipse() -> None:
    shape = object_shape(ellipse(36, 18, 0.4, size=101), mpp=0.5).loc[1]
    assert shape["area"] == pytest.approx(np.pi * 18 * 9, rel=0.01)
    assert shape["major_axis"] == pytest.approx(36, rel=0.01)
    assert shape["minor_axis"] == pytest.approx(18, rel=0.01)
    assert shape["aspect_ratio"] == pytest.approx(2, rel=0.02)
    assert shape["eccentricity"] == pytest.approx(np.sqrt(0.75), rel=0.01)
    assert shape["feret_max"] == pytest.approx(36 + 0.5, abs=0.25)  # from edge to edge of the pixels: half a um more
    assert shape["feret_min"] == pytest.approx(18 + 0.5, abs=0.25)
    assert shape["roughness"] < 0.02
    assert (shape[[f"elliptic_{k}" for k in (2, 4, 6)]] < 0.01).all()
    assert shape["fourier_1"] < 0.01 < shape["fourier_2"]


def test_lobes_show_in_their_own_descriptor_and_in_roughness() -> None:
    y, x = np.mgrid[-60:61, -60:61]
    angle = np.arctan2(y, x)
    disc, values = object_shape((np.hypot(x, y) <= 40).astype(int)).loc[1], []
    for lobes in (3, 5):
        star = np.hypot(x, y) <= 40 * (1 + 0.35 * np.cos(lobes * angle))
        shape = object_shape(star.astype(int)).loc[1]
        assert shape[FOURIER].idxmax() == f"fourier_{lobes}"
        assert shape["solidity"] < disc["solidity"] - 0.02
        assert shape["perimeter_ratio"] < disc["perimeter_ratio"] - 0.01
        values.append(shape["roughness"])
    assert min(values) > 5 * disc["roughness"]


def test_holes_and_pieces_are_counted() -> None:
    ring = np.zeros((12, 30), int)
    ring[1:10, 1:10] = 1
    ring[4:7, 4:7] = 0
    ring[5, 5] = 1  # an island in the hole
    ring[2:4, 20:22] = 1
    shape = object_shape(ring).loc[1]
    assert shape["area"] == 81 - 8 + 4
    assert shape["filled_area"] == 81 + 4
    assert shape["euler_number"] == 2  # three pieces, one hole
    square = object_shape(np.pad(np.ones((9, 9), int), 1)).loc[1]
    np.testing.assert_allclose(shape[ELLIPTIC], square[ELLIPTIC], rtol=1e-12)  # of the largest piece


# --- what must not matter

SIZED = [name for name in SHAPE if name not in ("orientation", "box_width", "box_height")]
WHOLE = [name for name in SIZED if not name.startswith(("fourier", "elliptic", "roughness", "perimeter_ratio"))]


def same(one: pd.DataFrame, other: pd.DataFrame, tolerance: float = 1e-9) -> None:
    scale = np.abs(one.to_numpy()) + (1e-3 if tolerance else 0)
    difference = np.abs(one.to_numpy() - other.to_numpy()) / np.where(scale > 0, scale, 1)
    np.testing.assert_array_equal(np.isnan(one), np.isnan(other))
    assert np.nanmax(difference, initial=0) <= tolerance


@given(seed=st.integers(0, 10_000))
@settings(max_examples=8, deadline=None)
def test_turning_by_90_degrees_changes_nothing_but_directions(seed: int) -> None:
    labels = blobs(seed)
    one, turned = object_shape(labels), object_shape(np.rot90(labels))
    same(one[WHOLE], turned[WHOLE])
    single = [ndimage.label(labels == label, np.ones((3, 3)))[1] == 1 for label in one.index]
    same(one[SIZED][single], turned[SIZED][single])  # of several pieces of one size another may come first
    np.testing.assert_array_equal(one["box_width"], turned["box_height"])
    angle = one["orientation"] - turned["orientation"]
    assert np.abs(np.cos(angle.dropna().to_numpy())).max(initial=0) <= 1e-9
    np.testing.assert_allclose(one[HU], turned[HU], rtol=1e-9, atol=1e-15)


@given(seed=st.integers(0, 10_000), down=st.integers(0, 9), right=st.integers(0, 9))
@settings(max_examples=8, deadline=None)
def test_moving_changes_nothing_at_all(seed: int, down: int, right: int) -> None:
    labels = blobs(seed)
    moved = np.pad(labels, ((down, 3), (right, 5)))
    pd.testing.assert_frame_equal(object_shape(labels), object_shape(moved), check_exact=True)


def test_mirroring_changes_nothing_but_directions() -> None:
    labels = blobs(8)
    mirrored = [name for name in SIZED if name != "hu_7"]  # whose sign tells a figure from its mirror image
    same(object_shape(labels)[mirrored], object_shape(labels[:, ::-1])[mirrored])


@pytest.mark.parametrize("mpp", [0.25, 0.5, 3.0])
def test_lengths_and_areas_grow_with_the_scale(mpp: float) -> None:
    labels = blobs(1)
    pixels, scaled = object_shape(labels), object_shape(labels, mpp=mpp)
    for name, about in SHAPE.items():
        np.testing.assert_allclose(scaled[name], pixels[name] * mpp ** POWERS.get(about.unit, 0), rtol=1e-15)
    assert (pixels.attrs["unit"], scaled.attrs["unit"]) == ("px", "um")


def test_a_figure_of_twice_the_pixels_has_the_same_ratios() -> None:
    small, large = ellipse(20, 12, 0.7, 61), ellipse(80, 48, 0.7, 241)
    one, four = object_shape(small, mpp=1).loc[1], object_shape(large, mpp=0.25).loc[1]
    for name in ("area", "perimeter", "major_axis", "feret_max", "feret_min", "convex_perimeter"):
        assert one[name] == pytest.approx(four[name], rel=0.06), name
    for name in ("eccentricity", "solidity", "hu_1", "fourier_2", "elliptic_1"):
        assert one[name] == pytest.approx(four[name], rel=0.05), name


def test_an_object_alone_has_the_row_it_has_among_others() -> None:
    labels = blobs(2)
    table = object_shape(labels)
    for label in range(1, len(table) + 1):
        alone = object_shape((labels == label).astype(int))
        same(alone, table.loc[[label]], tolerance=1e-14)


def test_order_of_labels_is_order_of_rows() -> None:
    labels = blobs(4)
    order = np.random.default_rng(0).permutation(labels.max())
    shuffled = np.append(0, order + 1)[labels]
    pd.testing.assert_frame_equal(
        object_shape(shuffled).iloc[order].reset_index(drop=True), object_shape(labels).reset_index(drop=True)
    )


@given(seed=st.integers(0, 10_000), sigma=st.sampled_from([0.0, 0.7, 2.0]))
@settings(max_examples=10, deadline=None)
def test_both_paths_give_the_same_numbers(seed: int, sigma: float) -> None:
    if kernels.compiled(kernels.harmonics) is None:
        return
    labels = blobs(seed, sigma=sigma)
    fast = object_shape(labels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLEARFOLD_NUMBA", "0")
        plain = object_shape(labels)
    exact = [name for name in SHAPE if not name.startswith(("fourier", "elliptic"))]
    pd.testing.assert_frame_equal(fast[exact], plain[exact], check_exact=True)
    np.testing.assert_allclose(fast, plain, rtol=1e-11, atol=1e-14)


# --- every object has a row


FIGURES: dict[str, Callable[[], np.ndarray]] = {
    "one pixel": lambda: np.pad(np.ones((1, 1), int), 2),
    "an image of one pixel": lambda: np.ones((1, 1), int),
    "two pixels": lambda: np.pad(np.ones((1, 2), int), 1),
    "a row": lambda: np.ones((1, 9), int),
    "a column": lambda: np.pad(np.ones((9, 1), int), 1),
    "a diagonal": lambda: np.eye(7, dtype=int),
    "everything": lambda: np.ones((6, 8), int),
    "two distant pixels": lambda: np.diag([1, 0, 0, 0, 1]),
    "a chequered board": lambda: np.indices((6, 7)).sum(axis=0) % 2,
    "touching objects": lambda: np.arange(1, 17).reshape(4, 4),
}


@pytest.mark.parametrize("name", FIGURES)
def test_small_and_odd_objects_are_defined_or_say_why_not(name: str) -> None:
    labels = FIGURES[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = object_shape(labels)
    assert len(table) == labels.max()
    assert not np.isinf(table.to_numpy()).any()
    missing = {column for column in table if table[column].isna().any()}
    assert missing == set(table.attrs["reasons"]) <= set(MISSING)
    theirs = reference(labels)
    for column in ("area", "filled_area", "convex_area", "perimeter", "feret_max", "euler_number", "major_axis"):
        np.testing.assert_allclose(table[column], theirs[REFERENCE[column]], rtol=1e-12, err_msg=column)


@pytest.mark.parametrize("shape", [(5, 5), (0, 0), (0, 7), (1, 1)])
def test_no_objects_give_no_rows_and_all_columns(shape: tuple[int, int]) -> None:
    table = object_shape(np.zeros(shape, int), mpp=0.5)
    assert table.shape == (0, len(SHAPE))
    assert list(table.columns) == list(SHAPE)
    assert table.index.name == "object"
    assert positions(np.zeros(shape, int)).shape == (0, 6)


def test_columns_are_declared_once_and_the_index_is_the_label() -> None:
    table = object_shape(blobs(0).astype(np.uint16))
    assert list(table.columns) == list(SHAPE)
    assert table.index.tolist() == list(range(1, len(table) + 1))
    assert all(about.name == f"shape.{column}" and about.formula and about.source for column, about in SHAPE.items())
    assert of_structure(SHAPE, "gland")["hu_1"].name == "shape.gland.hu_1"
    assert of_structure(SHAPE, "gland", region=True)["hu_1"].features == ("shape.gland.hu_1",)


@pytest.mark.parametrize("columns", [["solidity", "area"], ["fourier_3"], ["elliptic_1", "hu_1"]])
def test_some_columns_are_those_of_the_whole_table(columns: list[str]) -> None:
    labels = blobs(6)
    some = object_shape(labels, 0.5, columns=columns)
    assert list(some.columns) == [name for name in SHAPE if name in columns]
    pd.testing.assert_frame_equal(some, object_shape(labels, 0.5)[list(some.columns)], check_exact=True)
    with pytest.raises(InputError, match="'weight'"):
        object_shape(labels, columns=["weight"])
    with pytest.raises(InputError, match=r"columns=\[\]"):
        object_shape(labels, columns=[])


# --- what cannot be used


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.array([[1, 0, 3]]), "for instance 2"),
        (np.array([[0.0, 1.0]]), "float64"),
        (np.zeros((2, 2, 3), int), r"\(2, 2, 3\)"),
        (np.array([[-1, 1]]), "label -1"),
    ],
)
def test_labels_that_cannot_be_used_are_named(labels: np.ndarray, message: str) -> None:
    with pytest.raises(ObjectsError, match=message):
        object_shape(labels)


@pytest.mark.parametrize("mpp", [0, -1, np.nan, np.inf])
def test_a_scale_must_be_a_length(mpp: float) -> None:
    with pytest.raises(InputError, match="mpp="):
        object_shape(np.ones((3, 3), int), mpp=mpp)
