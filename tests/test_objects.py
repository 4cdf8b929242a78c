"""Objects keep their promises: labels in order, outlines that are the labels, files that come back as they went."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image
from scipy import ndimage

from clearfold.errors import InputError, InputTypeError, ObjectsError, ObjectsOutsideWarning
from clearfold.objects import Objects, as_objects, match, read_objects, read_polygons, write_objects
from clearfold.objects import geojson as limits
from clearfold.objects.polygons import Polygons, rasterise
from clearfold.plot.overlay import heat_map, overlay

SQUARE = [[2, 2], [8, 2], [8, 6], [2, 6], [2, 2]]


def blobs(seed: int = 0, shape: tuple[int, int] = (60, 80), share: float = 0.55) -> Objects:
    noise = ndimage.gaussian_filter(np.random.default_rng(seed).normal(size=shape), 2)
    filled = ndimage.binary_fill_holes(noise > np.quantile(noise, share))
    return Objects.from_labels(filled, 0.5)


label_images = arrays.arrays(np.int64, st.tuples(st.integers(1, 9), st.integers(1, 9)), elements=st.integers(0, 4))


# Labels -------------------------------------------------------------------------------------------------------


@given(label_images)
def test_labels_become_consecutive_and_keep_their_order_and_shape(mask: np.ndarray) -> None:
    objects = Objects.from_labels(mask * 7)
    values = np.unique(mask[mask > 0])
    assert len(objects) == len(values)
    for number, value in enumerate(values, start=1):
        assert np.array_equal(objects.labels == number, mask == value)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64, np.int32, np.int64, np.float32, float])
def test_every_type_of_whole_numbers_gives_the_same(dtype: Any) -> None:
    mask = np.array([[0, 3, 3], [9, 0, 1]])
    assert np.array_equal(Objects.from_labels(mask.astype(dtype)).labels, [[0, 2, 2], [3, 0, 1]])
    assert Objects.from_labels(mask.astype(dtype)).labels.dtype == np.int32


def test_very_large_labels_need_no_table() -> None:
    assert Objects.from_labels(np.array([[2**60, 0, 5]])).labels.tolist() == [[2, 0, 1]]
    assert Objects.from_labels(np.array([[2**60, 5]])).labels.tolist() == [[2, 1]]


@pytest.mark.parametrize("mask", [np.eye(3, dtype=bool), 255 * np.eye(3, dtype=np.uint8)])
def test_a_mask_without_labels_is_split_into_parts_that_touch_also_at_corners(mask: np.ndarray) -> None:
    assert len(Objects.from_labels(mask)) == 1
    mask[1, 1] = 0
    assert len(Objects.from_labels(mask)) == 2


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (np.array([[-1, 2]]), "smallest label is -1"),
        (np.array([[np.nan, 1.0]]), "NaN"),
        (np.array([[0.3, 0.9]]), "probabilities"),
        (np.zeros((2, 3, 4)), "shape"),
        (np.zeros((0, 4)), "shape"),
        (np.array([["a", "b"]]), "type"),
    ],
)
def test_labels_that_cannot_be_used_are_refused_in_words(mask: np.ndarray, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Objects.from_labels(mask)


def test_a_constructor_refuses_gaps_wrong_kinds_and_wrong_classes() -> None:
    labels = np.array([[0, 2]], dtype=np.int32)
    with pytest.raises(ObjectsError, match="without a gap"):
        Objects(labels)
    with pytest.raises(ObjectsError, match="int32"):
        Objects(labels.astype(float))  # type: ignore[arg-type]
    for options in ({"kind": "cell"}, {"mpp": -1.0}, {"mpp": float("nan")}, {"classes": ["a", "b"]}):
        with pytest.raises(ObjectsError):
            Objects.from_labels(labels, **options)  # type: ignore[arg-type]


def test_no_objects_are_no_problem(tmp_path: Path) -> None:
    none = Objects.from_labels(np.zeros((4, 5)))
    assert (len(none), none.contours, none.centroids.shape, none.areas.shape) == (0, [], (0, 2), (0,))
    write_objects(none, tmp_path / "none.geojson")
    assert len(read_objects(tmp_path / "none.geojson", (4, 5))) == 0


def test_centroids_and_areas_are_those_of_scipy() -> None:
    objects = blobs()
    numbers = np.arange(1, len(objects) + 1)
    expected = np.array(ndimage.center_of_mass(objects.labels > 0, objects.labels, numbers))[:, ::-1]
    np.testing.assert_allclose(objects.centroids, expected, atol=1e-12)
    np.testing.assert_array_equal(objects.areas, ndimage.sum_labels(objects.labels > 0, objects.labels, numbers))


@pytest.mark.parametrize("seed", range(5))
def test_outlines_rasterise_back_to_the_labels(seed: int) -> None:
    objects = blobs(seed)
    outlines = [[contour + 0.5] for contour in objects.contours]
    np.testing.assert_array_equal(rasterise(outlines, objects.shape), objects.labels)


@given(arrays.arrays(bool, (7, 8)))
def test_all_rings_together_rasterise_back_to_any_labels(mask: np.ndarray) -> None:
    objects = Objects.from_labels(np.where(mask, 1 + (np.arange(8) > 3), 0))
    rings = [[ring + 0.5 for ring in own] for own in objects.rings]
    np.testing.assert_array_equal(rasterise(rings, objects.shape), objects.labels)


def test_a_selection_keeps_classes_and_scale() -> None:
    objects = Objects.from_labels(np.array([[1, 2, 3]]), 0.25, "gland", ["a", "b", "c"])
    chosen = objects.select([True, False, True])
    assert chosen.labels.tolist() == [[1, 0, 2]]
    assert (chosen.classes, chosen.mpp, chosen.kind) == (("a", "c"), 0.25, "gland")
    with pytest.raises(ObjectsError, match="one value"):
        objects.select([True])


def test_objects_must_fit_the_image() -> None:
    labels = np.array([[0, 1]])
    assert as_objects(labels, (1, 2), 0.5).mpp == 0.5
    assert as_objects(Objects.from_labels(labels), (1, 2), 0.5).mpp == 0.5
    assert as_objects(Objects.from_labels(labels, 0.499), (1, 2), 0.5).mpp == 0.5
    with pytest.raises(ObjectsError, match="2 x 1 pixels and the image is 3 x 1"):
        as_objects(labels, (1, 3))
    with pytest.raises(ObjectsError, match=r"0\.25 um"):
        as_objects(Objects.from_labels(labels, 0.25), (1, 2), 0.5)
    with pytest.raises(InputTypeError):
        as_objects(np.array([["x"]]), (1, 1))


# Agreement ----------------------------------------------------------------------------------------------------


def brute_force(truth: np.ndarray, found: np.ndarray) -> dict[str, float]:
    """Every definition, written out pair by pair."""
    A, B = ([labels == i for i in range(1, labels.max() + 1)] for labels in (truth, found))
    iou = np.array([[(a & b).sum() / (a | b).sum() for b in B] for a in A])
    matches = [(i, j) for i in range(len(A)) for j in range(len(B)) if iou[i, j] > 0.5]
    f1 = 2 * len(matches) / (len(A) + len(B))
    sq = float(np.mean([iou[pair] for pair in matches])) if matches else 0.0
    both, either, used = 0, 0, set()
    for i, a in enumerate(A):
        j = int(np.argmax(iou[i]))
        if iou[i, j] == 0:
            either += a.sum()
            continue
        used.add(j)
        both, either = both + (a & B[j]).sum(), either + (a | B[j]).sum()
    either += sum(b.sum() for j, b in enumerate(B) if j not in used)
    dice = 2 * ((truth > 0) & (found > 0)).sum() / ((truth > 0).sum() + (found > 0).sum())
    return {"f1": f1, "sq": sq, "pq": f1 * sq, "aji": both / either, "dice": dice}


@pytest.mark.parametrize("shift", [0, 1, 2, 4])
def test_agreement_is_that_of_the_definitions(shift: int) -> None:
    truth = blobs(1).labels
    found = Objects.from_labels(np.roll(truth, shift, axis=1) > 0).labels
    got = match(truth, found)
    for name, value in brute_force(truth, found).items():
        assert getattr(got, name) == pytest.approx(value, abs=1e-12), name
    assert got.rq == got.f1
    assert got.n_matched == round(got.precision * got.n_found) == round(got.recall * got.n_true)


def test_agreement_does_not_depend_on_how_objects_are_numbered() -> None:
    truth, found = blobs(1).labels, Objects.from_labels(np.roll(blobs(1).labels, 1, axis=0) > 0).labels
    renumbered = np.where(found > 0, found.max() + 1 - found, 0)
    assert match(truth, found) == match(truth, renumbered)
    assert match(truth, truth).pq == match(truth, truth).aji == 1


def test_agreement_with_nothing_is_defined() -> None:
    nothing, one = np.zeros((3, 3)), np.eye(3)
    assert match(nothing, nothing).pq == match(nothing, nothing).aji == 1
    for pair in ((nothing, one), (one, nothing)):
        assert {match(*pair).f1, match(*pair).pq, match(*pair).aji, match(*pair).dice} == {0.0}
    with pytest.raises(InputError, match="unique"):
        match(one, one, iou=0.3)
    with pytest.raises(ObjectsError, match="pixels"):
        match(one, np.zeros((2, 2)))


# Outlines -----------------------------------------------------------------------------------------------------


def test_rasterising_takes_the_pixels_whose_centres_are_inside() -> None:
    random = np.random.default_rng(0)
    from matplotlib.path import Path as Outline

    for _ in range(20):
        ring = random.uniform(-2, 14, (7, 2))  # most of these cross themselves
        y, x = np.mgrid[:11, :12] + 0.5
        inside = np.zeros((11, 12), dtype=int)
        for k in range(1, len(ring) - 1):  # a polygon is the odd sum of the triangles from one corner
            triangle = Outline(ring[[0, k, k + 1]])
            inside += triangle.contains_points(np.column_stack([x.ravel(), y.ravel()])).reshape(11, 12)
        np.testing.assert_array_equal(rasterise([[ring]], (11, 12)), inside % 2)


def test_the_smaller_of_two_overlapping_objects_lies_on_top() -> None:
    large, small = np.array([[0, 0], [9, 0], [9, 9], [0, 9]]), np.array([[3, 3], [6, 3], [6, 6], [3, 6]])
    for rings in ([[large], [small]], [[small], [large]]):
        labels = rasterise(rings, (9, 9))
        assert sorted(np.bincount(labels.ravel())[1:]) == [9, 72]


def test_windows_of_polygons_are_windows_of_the_whole() -> None:
    objects = blobs(3)
    polygons = Polygons([[ring + 0.5 for ring in own] for own in objects.rings], None, 0.5)
    window = polygons.objects(10, 20, 30, 25)
    expected = Objects.from_labels(objects.labels[20:45, 10:40])
    np.testing.assert_array_equal(window.labels, expected.labels)
    fine = polygons.objects(0, 0, 80, 60, scale=3)  # the middle of three pixels has the centre of the one
    assert (fine.shape, fine.mpp) == ((180, 240), 0.5 / 3)
    np.testing.assert_array_equal(fine.labels[1::3, 1::3], objects.labels)
    assert len(polygons.objects(1000, 1000, 5, 5)) == 0
    assert polygons.objects(70, 0, 7, 60, shape=(30, 3)).shape == (30, 3)  # 7 pixels do not become 3.5
    with pytest.raises(InputError, match="positive"):
        polygons.objects(0, 0, 0, 5)


# Files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.geojson", "a.json", "a.png", "a.tif", "a.npy"])
def test_what_is_written_comes_back(tmp_path: Path, name: str) -> None:
    objects = blobs(2)
    write_objects(objects, tmp_path / name)
    np.testing.assert_array_equal(read_objects(tmp_path / name, objects.shape).labels, objects.labels)


def test_geojson_keeps_classes_scale_kind_holes_and_pieces(tmp_path: Path) -> None:
    labels = np.zeros((12, 20), dtype=int)
    labels[1:8, 1:8] = 1
    labels[3:5, 3:5] = 0
    labels[1:3, 10:14] = 2
    labels[6:9, 10:12] = 2
    objects = Objects.from_labels(labels, 0.25, "gland", ["tumour", ""])
    write_objects(objects, tmp_path / "a.geojson")
    back = read_objects(tmp_path / "a.geojson", (12, 20))
    np.testing.assert_array_equal(back.labels, labels)
    assert (back.mpp, back.kind, back.classes) == (0.25, "gland", ("tumour", ""))
    content = json.loads((tmp_path / "a.geojson").read_text())
    assert [feature["geometry"]["type"] for feature in content["features"]] == ["Polygon", "MultiPolygon"]
    assert content["features"][0]["properties"]["classification"] == {"name": "tumour"}
    outer, hole = content["features"][0]["geometry"]["coordinates"]
    assert outer[0] == outer[-1]  # GeoJSON wants rings that end where they begin
    assert hole[0] == hole[-1]


def saved(folder: Path, content: Any) -> Path:
    path = folder / "given.geojson"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def feature(geometry: dict[str, Any], **properties: Any) -> dict[str, Any]:
    return {"type": "Feature", "geometry": geometry, "properties": properties}


def polygon(*rings: Any) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": list(rings)}


@pytest.mark.parametrize("wrap", ["collection", "list", "feature", "geometry"])
def test_every_wrapping_of_a_polygon_is_read(tmp_path: Path, wrap: str) -> None:
    one = feature(polygon(SQUARE), classification={"name": "Tumor", "color": [200, 0, 0]}, measurements={"a": 1})
    content = {
        "collection": {"type": "FeatureCollection", "features": [one]},
        "list": [one],
        "feature": one,
        "geometry": one["geometry"],
    }[wrap]
    objects = read_objects(saved(tmp_path, content), (10, 10), mpp=0.5)
    expected = np.zeros((10, 10))
    expected[2:6, 2:8] = 1
    np.testing.assert_array_equal(objects.labels, expected)
    assert objects.classes == (None if wrap == "geometry" else ("Tumor",))
    assert objects.mpp == 0.5


def test_a_cell_gives_its_nucleus_and_annotations_around_detections_are_left_out(tmp_path: Path) -> None:
    around = feature(polygon([[0, 0], [10, 0], [10, 10], [0, 10]]), objectType="annotation")
    cell = feature(polygon([[1, 1], [9, 1], [9, 9], [1, 9]]), objectType="cell") | {"nucleusGeometry": polygon(SQUARE)}
    objects = read_objects(saved(tmp_path, [around, cell]), (10, 10))
    assert objects.areas.tolist() == [24]
    assert read_objects(saved(tmp_path, [around]), (10, 10)).areas.tolist() == [100]


def test_a_ring_that_crosses_itself_has_both_of_its_halves(tmp_path: Path) -> None:
    bow_tie = polygon([[0, 0], [8, 9], [8, 0], [0, 9], [0, 0]])
    labels = read_objects(saved(tmp_path, bow_tie), (9, 8)).labels
    np.testing.assert_array_equal(labels, labels[:, ::-1])
    assert labels[:, 0].any()
    assert not labels[0, 3:5].any()


def test_outlines_outside_are_dropped_those_across_are_cut_and_both_counted(tmp_path: Path) -> None:
    rings = [np.array(SQUARE) + shift for shift in ([0, 0], [-4, 0], [100, 100])]
    path = saved(tmp_path, [feature(polygon(ring.tolist())) for ring in rings])
    with pytest.warns(ObjectsOutsideWarning, match=r"Of 3 outlines in given.geojson, 1 have no pixel.* 1 cross"):
        assert read_objects(path, (10, 10)).areas.tolist() == [16, 16]
    with pytest.warns(ObjectsOutsideWarning):
        assert read_objects(path, (10, 10), offset=(100, 100)).areas.tolist() == [24]


def test_hovernet_contours_are_pixels_of_the_nucleus(tmp_path: Path) -> None:
    nuclei = {
        "1": {"contour": [[2, 2], [2, 5], [6, 5], [6, 2]], "type": 1, "centroid": [4, 3.5]},
        "2": {"contour": [[8, 8]], "type": 4},
        "3": {"contour": [[1, 8], [4, 8]], "type": 2},
    }
    objects = read_objects(saved(tmp_path, {"mag": 40, "nuc": nuclei}), (10, 10))
    expected = np.zeros((10, 10))
    expected[2:6, 2:7], expected[8, 8], expected[8, 1:5] = 1, 2, 3
    np.testing.assert_array_equal(objects.labels, expected)
    assert (objects.classes, objects.mpp) == (("1", "4", "2"), 0.25)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "not json",
        '{"type": "FeatureCollection", "features": [',
        "[" * 100_000,
        "3",
        '{"a": 1}',
        "[1, 2]",
        '{"type": "FeatureCollection"}',
        '{"type": "Point", "coordinates": [1, 2]}',
        '{"type": "Polygon", "coordinates": [[[0, 0], [NaN, 1], [2, 2]]]}',
        '{"type": "Polygon", "coordinates": [[[0, 0], [1e300, 1], [2, 2]]]}',
        '{"type": "Polygon", "coordinates": [[0, 1, 2]]}',
        '{"type": "Polygon", "coordinates": 7}',
        '{"type": "Polygon", "coordinates": [[["a", "b"], [1, 1], [2, 2]]]}',
        '{"nuc": {"1": {"centroid": [1, 2]}}}',
    ],
)
def test_what_is_not_geojson_is_refused_by_the_name_of_the_file(tmp_path: Path, content: str) -> None:
    with pytest.raises(ObjectsError, match=r"given\.geojson"):
        read_objects(saved(tmp_path, content), (10, 10))


def test_files_beyond_the_bounds_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path, polygon(SQUARE))
    monkeypatch.setattr(limits, "MAX_VERTICES", 4)
    with pytest.raises(ObjectsError, match="at most 4"):
        read_polygons(path)
    monkeypatch.setattr(limits, "MAX_BYTES", 10)
    with pytest.raises(ObjectsError, match="GB"):
        read_polygons(path)
    with pytest.raises(ObjectsError, match="cannot be read"):
        read_polygons(tmp_path / "missing.geojson")


def test_masks_that_cannot_be_used_are_refused_by_name(tmp_path: Path) -> None:
    Image.fromarray(np.random.default_rng(0).integers(0, 9, (4, 5, 3), dtype=np.uint8)).save(tmp_path / "rgb.png")
    np.save(tmp_path / "object.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.save(tmp_path / "other.npy", np.zeros((2, 2)))
    Image.fromarray(np.zeros((2, 2), dtype=np.uint8)).save(tmp_path / "other.png")
    for name in ("broken.png", "broken.tif", "broken.npy"):
        (tmp_path / name).write_bytes(b"nothing")
    for name in [path.name for path in tmp_path.iterdir()] + ["missing.png", "unknown.xyz"]:
        with pytest.raises(ObjectsError, match=name.replace(".", r"\.")):
            read_objects(tmp_path / name, (4, 5))


def test_palettes_and_grey_colours_are_labels(tmp_path: Path) -> None:
    values = np.array([[0, 1, 2], [2, 2, 0]], dtype=np.uint8)
    picture = Image.fromarray(values).convert("P")
    picture.save(tmp_path / "palette.png")
    Image.fromarray(np.dstack([values] * 3)).save(tmp_path / "grey.png")
    for name in ("palette.png", "grey.png"):
        assert read_objects(tmp_path / name, (2, 3)).labels.tolist() == values.tolist()


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.geojson"
    path.write_text("old")
    broken = Objects.from_labels(np.eye(3), classes=["a"])
    object.__setattr__(broken, "classes", (object(),))
    with pytest.raises(TypeError):
        write_objects(broken, path)
    assert path.read_text() == "old"
    with pytest.raises(ObjectsError, match="suffix"):
        write_objects(broken, tmp_path / "a.bmp")


# Drawings -----------------------------------------------------------------------------------------------------


def test_an_overlay_colours_objects_by_their_value() -> None:
    objects = blobs()
    image = np.full((*objects.shape, 3), 200, dtype=np.uint8)
    values = np.arange(len(objects), dtype=float)
    values[0] = np.nan
    figure = overlay(image, objects, values, name="size")
    missing, drawn = figure.axes[0].collections
    assert (len(missing.get_paths()), len(drawn.get_paths())) == (1, len(objects) - 1)
    np.testing.assert_array_equal(drawn.get_array(), values[1:])
    assert figure.axes[1].get_ylabel() == "size"
    assert len(overlay(image, objects).axes[0].collections[0].get_paths()) == len(objects)
    with pytest.raises(InputError, match="one for each object"):
        overlay(image, objects, values[1:])


def test_a_heat_map_puts_tiles_where_they_are() -> None:
    import pandas as pd

    tiles = pd.DataFrame({"x": [0, 400], "y": [0, 200], "width": 400, "height": 200, "density": [1.0, 2.0]})
    figure = heat_map(np.full((40, 80, 3), 255, dtype=np.uint8), tiles, "density", size=(800, 400))
    boxes = [path.get_extents().bounds for path in figure.axes[0].collections[0].get_paths()]
    assert boxes == [(-0.5, -0.5, 40.0, 20.0), (39.5, 19.5, 40.0, 20.0)]
    with pytest.raises(InputError, match="width"):
        heat_map(np.zeros((4, 4, 3), np.uint8), tiles[["x", "y", "height"]], "density")
    with pytest.raises(InputError, match="no column 'other'"):
        heat_map(np.zeros((4, 4, 3), np.uint8), tiles, "other")
