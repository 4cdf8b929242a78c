"""clearfold among others: AnnData, QuPath, scikit-learn, pandas, polars, feature files of networks, and packages."""

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from clearfold import Archive, EmbeddingImportance, Table, VoronoiSaliency, read_table, write_table
from clearfold.embedding import PCA, BoostedGraphEmbedding, GraphEmbedding, Isomap, KernelPCA
from clearfold.objects import Objects, read_objects, write_objects

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def tumours() -> pd.DataFrame:
    """90 cases of 45 patients with names, labels and 12 features."""
    data = load_breast_cancer(as_frame=True)
    frame = data.data.iloc[:90, :12].rename(columns=lambda name: f"nuclei.{name.replace(' ', '_')}")
    frame.insert(0, "case_id", [f"case{row:02d}" for row in range(90)])
    frame.insert(1, "patient_id", [f"p{row // 2:02d}" for row in range(90)])
    frame.insert(2, "label", np.where(data.target[:90], "benign", "malignant"))
    return frame


# AnnData -----------------------------------------------------------------------------------------------------


def test_a_table_goes_through_anndata_into_what_scanpy_draws(tumours: pd.DataFrame, tmp_path: Path) -> None:
    """`sc.pl.embedding(data, basis="isomap", color="label")` wants obsm["X_isomap"] (n, 2 or more) and obs["label"]."""
    anndata = pytest.importorskip("anndata")
    write_table(Table.from_frame(tumours), tmp_path / "table.h5ad")
    data = anndata.read_h5ad(tmp_path / "table.h5ad")
    data.obsm["X_isomap"] = make_pipeline(StandardScaler(), Isomap(n_components=3)).fit_transform(data.to_df())
    importance = EmbeddingImportance(embedding=PCA(n_components=3), n_rounds=0, n_permutations=0)
    data.var["importance"] = importance.fit(data.to_df(), data.obs["label"], groups=data.obs["patient_id"]).importances_
    data.write_h5ad(tmp_path / "with_map.h5ad")

    again = anndata.read_h5ad(tmp_path / "with_map.h5ad")
    assert again.obsm["X_isomap"].shape == (90, 3)
    assert list(again.obs["label"]) == list(tumours["label"])
    assert list(again.obs_names) == list(tumours["case_id"])
    assert again.var["importance"].sum() == pytest.approx(1)
    back = read_table(tmp_path / "with_map.h5ad")
    pd.testing.assert_frame_equal(back.X, Table.from_frame(tumours).X)
    assert back.families == dict.fromkeys(back.features, "nuclei")
    assert list(back.frame["case_id"]) == list(tumours["case_id"])


# QuPath ------------------------------------------------------------------------------------------------------


def test_objects_go_out_to_qupath_and_come_back_the_same(tmp_path: Path) -> None:
    pytest.importorskip("shapely")
    labels = np.zeros((60, 80), dtype=np.int32)
    y, x = np.mgrid[:60, :80]
    for number, (cx, cy, rx, ry) in enumerate([(12, 14, 6, 5), (40, 30, 9, 4), (70, 10, 7, 7), (3, 55, 6, 6)], start=1):
        labels[((x - cx) / rx) ** 2 + ((y - cy) / ry) ** 2 < 1] = number
    objects = Objects.from_labels(labels, mpp=0.25, classes=["Tumor", "Stroma", "Tumor", "Immune cells"])
    write_objects(objects, tmp_path / "nuclei.geojson")
    back = read_objects(tmp_path / "nuclei.geojson", (60, 80))
    np.testing.assert_array_equal(back.labels, objects.labels)
    assert (back.classes, back.mpp, back.kind) == (objects.classes, 0.25, "nucleus")
    for ours, theirs in zip(objects.contours, back.contours, strict=True):
        np.testing.assert_allclose(ours, theirs)


def test_geojson_is_what_qupath_reads(tmp_path: Path) -> None:
    """A collection of closed polygons with a type of object and a class, in pixels from the corner of the image."""
    labels = np.zeros((8, 8), dtype=np.int32)
    labels[2:5, 1:4] = 1
    write_objects(Objects.from_labels(labels, classes=["Tumor"]), tmp_path / "one.geojson")
    content = json.loads((tmp_path / "one.geojson").read_text(encoding="utf-8"))
    (feature,) = content["features"]
    (ring,) = feature["geometry"]["coordinates"]
    assert (content["type"], feature["geometry"]["type"]) == ("FeatureCollection", "Polygon")
    assert ring[0] == ring[-1]
    assert (np.min(ring, axis=0).tolist(), np.max(ring, axis=0).tolist()) == ([1, 2], [4, 5])
    assert feature["properties"]["classification"]["name"] == "Tumor"
    assert feature["properties"]["objectType"] == "detection"


# scikit-learn and pandas -------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::clearfold.errors.DisconnectedGraphWarning")
def test_a_grid_search_over_an_embedding_keeps_patients_together(tumours: pd.DataFrame) -> None:
    table = Table.from_frame(tumours)
    steps = Pipeline([("scale", StandardScaler()), ("embed", Isomap(n_components=2)), ("decide", LogisticRegression())])
    grid = {"embed__n_components": [1, 3], "embed__n_neighbors": [8, 15]}
    search = GridSearchCV(steps, grid, cv=GroupKFold(3), scoring="roc_auc", error_score="raise")
    search.fit(table.X, table.y, groups=table.groups)
    assert search.best_score_ > 0.8
    assert set(search.best_params_) == set(grid)
    for learned, held in GroupKFold(3).split(table.X, table.y, table.groups):
        assert not set(table.groups.iloc[learned]) & set(table.groups.iloc[held])


def test_a_grid_search_over_the_number_of_selected_features(tumours: pd.DataFrame) -> None:
    table = Table.from_frame(tumours)
    selector = EmbeddingImportance(embedding=PCA(n_components=3), n_rounds=0, n_permutations=0)
    steps = Pipeline([("select", selector), ("scale", StandardScaler()), ("decide", LogisticRegression())])
    search = GridSearchCV(steps, {"select__n_features_to_select": [2, 6]}, cv=GroupKFold(3), error_score="raise")
    search.fit(table.X, table.y, groups=table.groups)
    kept = search.best_estimator_["select"].get_feature_names_out()
    assert len(kept) == search.best_params_["select__n_features_to_select"]
    assert set(kept) <= set(table.features)


@pytest.mark.parametrize("embedding", [PCA(n_components=2), KernelPCA(n_components=2), GraphEmbedding(n_components=2)])
def test_coordinates_as_a_frame(embedding: PCA, tumours: pd.DataFrame) -> None:
    X = Table.from_frame(tumours).X.set_axis(tumours["case_id"])
    plain = embedding.fit_transform(X)
    framed = embedding.set_output(transform="pandas").fit_transform(X)
    assert isinstance(framed, pd.DataFrame)
    assert list(framed.index) == list(tumours["case_id"])
    assert list(framed.columns) == list(embedding.get_feature_names_out())
    np.testing.assert_array_equal(framed.to_numpy(), plain)
    embedding.set_output(transform="default")


# polars ------------------------------------------------------------------------------------------------------


@pytest.fixture
def pair(tumours: pd.DataFrame) -> tuple[pd.DataFrame, object]:
    polars = pytest.importorskip("polars")
    return tumours, polars.from_pandas(tumours)


def test_estimators_take_frames_of_polars(pair: tuple[pd.DataFrame, object]) -> None:
    pandas, polars = pair
    features = Table.from_frame(pandas).features
    X, F, y, z = pandas[features], polars[features], pandas["label"], polars["label"]
    groups, patients = pandas["patient_id"], polars["patient_id"]
    for embedding in (PCA(n_components=2), BoostedGraphEmbedding(n_components=2, n_features=3)):
        ours = embedding.fit(X, y).transform(X)
        np.testing.assert_array_equal(embedding.fit(F, z).transform(F), ours)
    importance = EmbeddingImportance(embedding=PCA(n_components=3), n_rounds=2, n_permutations=5, random_state=0)
    ours = importance.fit(X, y, groups=groups).table_
    pd.testing.assert_frame_equal(importance.fit(F, z, groups=patients).table_, ours)
    saliency = VoronoiSaliency(n_perturbations=5, n_bootstraps=0, n_permutations=0, random_state=0)
    np.testing.assert_array_equal(saliency.fit(F, z).saliency(F), saliency.fit(X, y).saliency(X))


def test_tables_take_frames_of_polars(pair: tuple[pd.DataFrame, object], tmp_path: Path) -> None:
    pandas, polars = pair
    ours, theirs = Table.from_frame(pandas), Table.from_frame(polars)
    pd.testing.assert_frame_equal(ours.X, theirs.X)
    assert (ours.roles, ours.families) == (theirs.roles, theirs.families)
    pd.testing.assert_frame_equal(Table.from_frame(polars.to_arrow()).X, ours.X)
    write_table(polars, tmp_path / "table.csv")
    write_table(pandas, tmp_path / "ours.csv")
    assert (tmp_path / "table.csv").read_bytes() == (tmp_path / "ours.csv").read_bytes()


def test_archives_take_frames_of_polars(pair: tuple[pd.DataFrame, object], tmp_path: Path) -> None:
    pytest.importorskip("apsw")
    pandas, polars = pair
    with Archive.open(tmp_path / "cases.clearfold") as archive:
        assert archive.add(polars).added == 90
        assert archive.add(pandas).skipped == 90  # the same cases
        archive.fit(PCA(n_components=3))
        ours, theirs = archive.query(pandas[5:6], k=4), archive.query(polars[5:6], k=4)
        assert [hit.case_id for hit in ours] == [hit.case_id for hit in theirs]
        np.testing.assert_array_equal(archive.place(polars), archive.place(pandas))


# Feature files of CLAM and TRIDENT ---------------------------------------------------------------------------


def test_features_of_a_network_become_a_table_and_an_archive(tmp_path: Path) -> None:
    """`features` [N, C] and `coords` [N, 2], a file for each slide, as CLAM and TRIDENT write them."""
    h5py = pytest.importorskip("h5py")
    pytest.importorskip("apsw")
    random = np.random.default_rng(0)
    for slide, shift in (("slide_a", 0.0), ("slide_b", 9.0)):
        with h5py.File(tmp_path / f"{slide}.h5", "w") as file:
            file["features"] = (random.normal(size=(20, 16)) + shift * (np.arange(16) < 4)).astype(np.float32)
            file["coords"] = np.stack([np.arange(20) * 256, np.zeros(20)], axis=1).astype(np.int64)
    tables = [read_table(tmp_path / f"{slide}.h5") for slide in ("slide_a", "slide_b")]
    assert [len(table.features) for table in tables] == [16, 16]
    assert tables[0].groups is not None
    tiles = pd.concat([table.frame for table in tables], ignore_index=True)
    tiles.insert(0, "case_id", [f"{row.slide_id}_{row.Index}" for row in tiles.itertuples()])
    places = [name for name in tiles if name not in ("case_id", "slide_id", *tables[0].features)]
    with Archive.open(tmp_path / "tiles.clearfold") as archive:
        archive.add(tiles, metadata=places)
        assert len(archive.feature_names) == 16
        archive.fit(PCA(n_components=2))
        hits = archive.query("slide_b_25", k=5)
        assert {hit.metadata["slide_id"] for hit in hits} == {"slide_b"}


# Packages ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as an installer would."""
    folder = tmp_path_factory.mktemp("wheel")
    uv("build", "--wheel", "--quiet", "--out-dir", str(folder), str(ROOT))
    (built,) = folder.glob("*.whl")
    return built


def uv(*words: str) -> None:
    done = subprocess.run([sys.executable, "-m", "uv", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_wheel_has_everything_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        inside = {name for name in file.namelist() if ".dist-info/" not in name}
    source = ROOT / "src"
    kept = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert inside == kept
    assert "clearfold/py.typed" in inside
    assert {Path(name).suffix for name in inside} >= {".py", ".html", ".css", ".js"}


def test_the_wheel_works_in_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    """Nothing but the declared dependencies, nothing of this folder: the first commands of a new user."""
    uv("venv", "--quiet", "--python", sys.executable, str(tmp_path / "clean"))
    binaries = tmp_path / "clean" / ("Scripts" if os.name == "nt" else "bin")
    uv("pip", "install", "--quiet", "--python", str(binaries / "python"), str(wheel))
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(40, 6)), columns=list("abcdef"))
    frame["grade"] = np.where(frame["a"] > 0, "high", "low")
    frame.to_csv(tmp_path / "table.csv", index=False)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*words: str) -> str:
        command = [str(binaries / "clearfold"), *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    report = json.loads(run("doctor", "--json"))
    states = {check["name"]: check["state"] for check in report["checks"]}
    assert report["healthy"]
    assert states["numpy"] == "works"
    assert states["lifelines"] == "missing"
    assert json.loads(run("embed", "table.csv", "--label", "grade", "--json"))["samples"] == 40
    command = [str(binaries / "clearfold"), "index", "table.csv", "-o", "cases.clearfold"]
    refused = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert refused.returncode == 2
    assert "clearfold[archive]" in refused.stderr


def test_the_conda_recipe_asks_for_what_the_project_declares() -> None:
    yaml = pytest.importorskip("yaml")
    text = (ROOT / "packaging" / "conda" / "meta.yaml").read_text(encoding="utf-8")
    (version,) = re.findall(r'{% set version = "(.+?)" %}', text)
    recipe = yaml.safe_load(re.sub(r"{{.*?}}", "x", re.sub(r"{%.*?%}", "", text)))
    from clearfold import __version__

    assert version == __version__
    named = {"matplotlib": "matplotlib-base"}  # without Qt
    split = [re.match(r"([\w-]+)(.*)", line) for line in PROJECT["dependencies"]]
    wanted = {f"{named.get(found[1], found[1])} {found[2]}" for found in split if found}
    assert set(recipe["requirements"]["run"]) == wanted | {f"python {PROJECT['requires-python']}"}
    entry = [f"{name} = {where}" for name, where in PROJECT["scripts"].items()]
    assert recipe["build"]["entry_points"] == entry
    assert (recipe["about"]["license"], recipe["about"]["summary"]) == (PROJECT["license"], PROJECT["description"])


def test_the_container_is_of_a_known_python_and_runs_without_rights() -> None:
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    versions = set(re.findall(r"python:(\d\.\d+)-slim", text))
    assert len(versions) == 1
    assert f"Programming Language :: Python :: {versions.pop()}" in PROJECT["classifiers"]
    (extra,) = set(re.findall(r"\[(\w+)\]\"", text))
    assert extra in PROJECT["optional-dependencies"]
    lines = text.splitlines()
    assert lines.index("USER clearfold") < lines.index('ENTRYPOINT ["clearfold"]')
