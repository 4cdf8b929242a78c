"""A fitted model is the same after a round trip through bytes, and bytes that are no model do nothing but fail."""

import json
import pickle
import warnings
from contextlib import suppress
from hashlib import blake2b

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import TruncatedSVD
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, RobustScaler, StandardScaler, scale

import clearfold.embedding
from clearfold.archive.model import CHECKSUM, FORMAT, MAGIC, dump_model, load_model
from clearfold.archive.restoring import ESTIMATORS
from clearfold.embedding import (
    PCA,
    BeliefSpectralEmbedding,
    BoostedGraphEmbedding,
    BoostedMetric,
    GraphEmbedding,
    Isomap,
    KernelPCA,
    LandmarkEmbedding,
    LaplacianEigenmap,
    LocallyLinearEmbedding,
)
from clearfold.errors import ArchiveError, ClearfoldWarning

TABLE, LABELS = load_breast_cancer(return_X_y=True)
TABLE = scale(TABLE)
FITTED, NEW = TABLE[:90], TABLE[90:150]
SOME = np.where(np.arange(90) % 5, LABELS[:90], -1)

MODELS = {
    "PCA": PCA(n_components=3),
    "PCA elbow": PCA(n_components="elbow"),
    "KernelPCA": KernelPCA(n_components=3),
    "Isomap": Isomap(n_neighbors=8),
    "LaplacianEigenmap": LaplacianEigenmap(n_neighbors=8),
    "LocallyLinearEmbedding": LocallyLinearEmbedding(n_neighbors=8),
    "GraphEmbedding": GraphEmbedding(),
    "GraphEmbedding within a radius": GraphEmbedding(neighborhood="mst", axis_scaling=True),
    "LandmarkEmbedding": LandmarkEmbedding(embedding=Isomap(n_neighbors=8), n_landmarks=40, random_state=0),
    "BoostedMetric": BoostedMetric(),
    "BoostedMetric of stumps": BoostedMetric(learner="stump", repeated=True),
    "BoostedGraphEmbedding": BoostedGraphEmbedding(),
    "BoostedGraphEmbedding and labels": BoostedGraphEmbedding(labels=True),
    "BeliefSpectralEmbedding": BeliefSpectralEmbedding(n_trees=10),
    "BeliefSpectralEmbedding on landmarks": BeliefSpectralEmbedding(n_trees=4, n_landmarks=40, n_components=5),
}


def fitted(model, X=FITTED, y=SOME):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClearfoldWarning)
        return model.fit(X, y)


def placed(model, X=NEW):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClearfoldWarning)
        return np.asarray(model.transform(X))


def test_every_embedding_is_tried() -> None:
    estimators = {name for name in clearfold.embedding.__all__ if hasattr(getattr(clearfold.embedding, name), "fit")}
    assert estimators == {type(model).__name__ for model in MODELS.values()}
    assert estimators <= set(ESTIMATORS)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "labels", [SOME, LABELS[:90], np.array(["no", "yes"])[LABELS[:90]]], ids=["some", "all", "text"]
)
def test_new_samples_get_the_same_place_to_the_last_bit(name, labels) -> None:
    model = fitted(MODELS[name], y=labels)
    again = load_model(dump_model(model))
    assert type(again) is type(model)
    np.testing.assert_array_equal(placed(again), placed(model))
    np.testing.assert_array_equal(placed(again, FITTED), placed(model, FITTED))
    if hasattr(model, "embedding_"):
        np.testing.assert_array_equal(again.embedding_, model.embedding_)
        np.testing.assert_array_equal(getattr(again, "eigenvalues_", 0), getattr(model, "eigenvalues_", 0))
    if hasattr(model, "classes_"):
        assert again.classes_.tolist() == model.classes_.tolist()
    assert repr(again) == repr(model)
    assert dump_model(again) == dump_model(model)


@pytest.mark.parametrize("name", MODELS)
def test_a_pipeline_fitted_on_a_frame_remembers_its_names(name) -> None:
    columns = [f"shape.nucleus.{number}" for number in range(TABLE.shape[1])]
    frame, new = pd.DataFrame(FITTED, columns=columns), pd.DataFrame(NEW, columns=columns)
    pipeline = fitted(make_pipeline(StandardScaler().set_output(transform="pandas"), MODELS[name]), frame)
    again = load_model(dump_model(pipeline))
    assert again.feature_names_in_.tolist() == columns
    assert again[-1].feature_names_in_.tolist() == columns
    np.testing.assert_array_equal(placed(again, new), placed(pipeline, new))
    with pytest.raises(ValueError, match="feature names"):
        placed(again, new.rename(columns={columns[3]: "other"}))


@pytest.mark.parametrize("scaler", [StandardScaler(), RobustScaler(), MinMaxScaler(), SimpleImputer(strategy="median")])
def test_scalers_round_trip(scaler) -> None:
    holes = FITTED.copy()
    holes[::7, 2] = np.nan
    steps = [SimpleImputer(strategy="median"), scaler] if not isinstance(scaler, SimpleImputer) else [scaler]
    pipeline = fitted(make_pipeline(*steps, PCA(n_components=3)), holes)
    again = load_model(dump_model(pipeline))
    new = NEW.copy()
    new[3, 2] = np.nan
    np.testing.assert_array_equal(placed(again, new), placed(pipeline, new))


def test_reasons_of_a_belief_embedding_round_trip() -> None:
    columns = [f"f{number}" for number in range(TABLE.shape[1])]
    model = fitted(BeliefSpectralEmbedding(n_trees=10), pd.DataFrame(FITTED, columns=columns))
    again = load_model(dump_model(model))
    for hit in (3, NEW[7]):
        pd.testing.assert_frame_equal(again.reasons(NEW[0], hit), model.reasons(NEW[0], hit), check_exact=True)
    new = pd.DataFrame(NEW, columns=columns)
    np.testing.assert_array_equal(again.belief(new), model.belief(new))


@pytest.mark.parametrize("name", ["KernelPCA", "LaplacianEigenmap", "GraphEmbedding within a radius"])
def test_sparse_samples_round_trip(name) -> None:
    model = fitted(MODELS[name], sparse.csr_array(np.where(FITTED > 0.5, FITTED, 0.0)))
    again = load_model(dump_model(model))
    new = sparse.csr_array(np.where(NEW > 0.5, NEW, 0.0))
    np.testing.assert_array_equal(placed(again, new), placed(model, new))


def test_distances_round_trip() -> None:
    from scipy.spatial.distance import cdist

    model = fitted(Isomap(n_neighbors=8, metric="precomputed"), cdist(FITTED, FITTED))
    again = load_model(dump_model(model))
    np.testing.assert_array_equal(placed(again, cdist(NEW, FITTED)), placed(model, cdist(NEW, FITTED)))


def test_a_loaded_model_can_be_fitted_again() -> None:
    model = fitted(BeliefSpectralEmbedding(n_trees=4))
    again = load_model(dump_model(model))
    for estimator in (again, model):
        fitted(estimator, NEW, LABELS[90:150])
    np.testing.assert_array_equal(again.embedding_, model.embedding_)


def test_a_parameter_newer_than_the_file_has_its_default() -> None:
    def forget(header):
        del header["model"]["fields"]["n_neighbors"]

    again = load_model(changed(dump_model(fitted(GraphEmbedding())), forget))
    assert again.n_neighbors == 10
    np.testing.assert_array_equal(placed(again), placed(fitted(GraphEmbedding())))


# What is refused --------------------------------------------------------------------------------------------


def sealed(header, raw: bytes, number: int = FORMAT) -> bytes:
    """A file with a right checksum around any content."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    body = MAGIC + number.to_bytes(4, "little") + len(text).to_bytes(8, "little") + text + raw
    return body + blake2b(body, digest_size=CHECKSUM).digest()


def changed(data: bytes, change, raw=None) -> bytes:
    """The same file with another header, sealed again."""
    start = len(MAGIC) + 12
    stop = start + int.from_bytes(data[len(MAGIC) + 4 : start], "little")
    header = json.loads(data[start:stop])
    change(header)
    return sealed(header, data[stop:-CHECKSUM] if raw is None else raw)


@pytest.fixture(scope="module")
def belief() -> bytes:
    return dump_model(fitted(BeliefSpectralEmbedding(n_trees=2)))


def set_field(name, value):
    def change(header):
        header["model"]["fields"][name] = value

    return change


def forest_of(header):
    votes = dict((key, value) for key, value in header["model"]["fields"]["_votes"]["dict"])
    return votes["forest"]


@pytest.mark.parametrize("model", [TruncatedSVD(), make_pipeline(FunctionTransformer(np.abs), PCA()), "text", None])
def test_only_known_classes_are_stored(model) -> None:
    with pytest.raises(ArchiveError, match="cannot be stored"):
        dump_model(fitted(model) if hasattr(model, "fit") else model)


def test_a_random_generator_as_parameter_is_refused_with_advice() -> None:
    model = LandmarkEmbedding(n_landmarks=40, random_state=np.random.RandomState(0))
    with pytest.raises(ArchiveError, match="a whole number as random_state"):
        dump_model(fitted(model))


def test_a_pickle_is_not_even_looked_at(tmp_path) -> None:
    class Trap:
        def __reduce__(self):
            return (tmp_path.joinpath("sprung").touch, ())

    for data in (pickle.dumps(Trap()), MAGIC + pickle.dumps(Trap()), sealed(pickle.dumps(Trap()), b"")):
        with pytest.raises(ArchiveError):
            load_model(data)
    assert not list(tmp_path.iterdir())


def test_every_truncation_and_many_flipped_bytes_are_noticed(belief) -> None:
    for length in [*range(0, 200), *range(200, len(belief), 997)]:
        with pytest.raises(ArchiveError):
            load_model(belief[:length])
    for place in range(0, len(belief), 1009):
        bad = bytearray(belief)
        bad[place] ^= 0x41
        with pytest.raises(ArchiveError):
            load_model(bytes(bad))
    with pytest.raises(ArchiveError):
        load_model(belief + b"\0")


@given(st.binary(max_size=300))
def test_random_bytes_are_refused(data) -> None:
    for content in (data, MAGIC + data, sealed(data, b""), sealed({"arrays": [], "model": None}, data)):
        with pytest.raises(ArchiveError):
            load_model(content)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["object", "fields", "tree", "array", "words", "marks", "dict", "sparse", "size", "tuple"]),
            inner | st.sampled_from(["PCA", "Forest", "Points", "BeliefSpectralEmbedding"]),
            max_size=4,
        )
    ),
    max_leaves=20,
)


@settings(max_examples=300)
@given(JSON, JSON)
def test_any_header_is_refused_or_builds_an_estimator(arrays, model) -> None:
    for listing in (arrays, []):
        with suppress(ArchiveError):
            assert type(load_model(sealed({"arrays": listing, "model": model}, b""))) in ESTIMATORS.values()


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ({"object": "os.system", "fields": {}}, "not on the list"),
        ({"object": "../../PCA", "fields": {}}, "not on the list"),
        ({"object": "sklearn.tree.Tree", "fields": {}}, "not on the list"),
        ({"object": "Scaling", "fields": {}}, "no embedding"),
        ({"object": "PCA", "fields": {"transform": 1}}, "would replace"),
        ({"object": "PCA", "fields": {"__class__": 1}}, "would replace"),
        ({"object": "PCA", "fields": {"a": {"array": 0}}}, "not there"),
        ({"object": "PCA", "fields": {"a": {"array": -1}}}, "not there"),
        ({"object": "PCA", "fields": {"a": {"pickle": "gASV"}}}, "unknown part"),
        ({"object": "PCA", "fields": {"a": {"dtype": "O"}}}, "numbers are wanted"),
        ({"object": "PCA", "fields": {"a": {"dtype": "V9999999999"}}}, "no known type"),
        ({"object": "PCA", "fields": {"a": {"words": [{"tuple": []}], "kind": "O", "shape": [1]}}}, "words"),
        ({"object": "PCA", "fields": {"a": {"words": ["x"], "kind": "O", "shape": [10**12]}}}, "words"),
        ({"object": "PCA", "fields": {"a": {"words": ["x"], "kind": "|V9", "shape": [1]}}}, "array of"),
        ({"object": "PCA", "fields": {"a": {"sparse": []}}}, "cannot be read"),
        ({"object": "Forest", "fields": {}}, "forest where none belongs"),
        ({"object": "PCA", "fields": {"_rule": {"object": "Forest", "fields": {}}}}, "forest where none belongs"),
        ([], "no embedding"),
    ],
)
def test_hostile_headers_are_refused(node, words) -> None:
    with pytest.raises(ArchiveError, match=words):
        load_model(sealed({"arrays": [], "model": node}, b""))


def test_the_wide_word_of_a_file_makes_no_wide_array() -> None:
    node = {"object": "PCA", "fields": {"a": {"words": ["x"], "kind": "<U999999999", "shape": [1]}}}
    assert load_model(sealed({"arrays": [], "model": node}, b"")).a.nbytes == 4


def test_deep_nesting_is_refused() -> None:
    for depth in (100, 100_000):
        text = b'{"arrays":[],"model":' + b"[" * depth + b"]" * depth + b"}"
        with pytest.raises(ArchiveError):
            load_model(sealed(text, b""))


@pytest.mark.parametrize(
    "listing",
    [
        [["<f8", [10**9, 10**9], "C"]],
        [["<f8", [-1], "C"]],
        [["<f8", [2.5], "C"]],
        [["<f8", [1] * 9, "C"]],
        [["<f8", [3], "C"]],
        [["|O", [1], "C"]],
        [["<M8[s]", [1], "C"]],
        [["<f8", [1], "X"]],
        [],
        "abc",
        5,
    ],
)
def test_arrays_are_no_larger_than_what_is_there(listing) -> None:
    with pytest.raises(ArchiveError):
        load_model(sealed({"arrays": listing, "model": {"object": "PCA", "fields": {}}}, bytes(8)))


def test_a_newer_format_is_refused_by_its_number() -> None:
    with pytest.raises(ArchiveError, match=r"format 9999.*newer"):
        load_model(sealed({}, b"", number=9999))


def test_an_error_names_the_versions(belief) -> None:
    import sklearn

    def change(header):
        header["written_by"]["scikit-learn"] = "0.99"
        del forest_of(header)["fields"]["trees"][0]["tuple"][0]["tree"]["impurity"]

    with pytest.raises(ArchiveError, match=rf"another way.*scikit-learn 0\.99.*{sklearn.__version__}"):
        load_model(changed(belief, change))


@pytest.mark.parametrize("field", ["left_child", "right_child", "feature"])
@pytest.mark.parametrize("value", [-2, 0, 10**9])
def test_trees_with_paths_that_leave_their_arrays_are_refused(field, value) -> None:
    """scikit-learn's trees read memory without looking: each index is checked before one is built."""
    model = fitted(BeliefSpectralEmbedding(n_trees=2))
    tree = model._votes["forest"].trees[0][0]
    state = tree.__getstate__()
    if field == "feature" and value == 0:
        value = 30
    state["nodes"][field][0] = value

    class Fake(type(tree)):  # what a file could say, without building it
        def __getstate__(self):
            return state

    model._votes["forest"].trees[0] = (Fake(30, np.array([2]), 1), model._votes["forest"].trees[0][1])
    with pytest.raises(ArchiveError, match="leads nowhere"):
        load_model(dump_model(model))


def test_trees_wider_than_the_rows_are_refused(belief) -> None:
    with pytest.raises(ArchiveError, match="features that it does not have"):
        load_model(changed(belief, set_field("n_features_in_", 29)))
    with pytest.raises(ArchiveError):
        load_model(changed(belief, set_field("n_features_in_", 1e9)))


def test_samples_of_another_number_are_refused() -> None:
    def change(header):
        header["model"]["fields"]["_fitted"]["fields"]["size"] = 10**12

    with pytest.raises(ArchiveError, match="another number"):
        load_model(changed(dump_model(fitted(KernelPCA())), change))


def test_sparse_samples_with_indices_outside_are_refused() -> None:
    data = dump_model(fitted(KernelPCA(), sparse.csr_array(np.where(FITTED > 0.5, FITTED, 0.0))))

    def change(header):
        header["model"]["fields"]["_fitted"]["fields"]["X"]["sparse"][3] = [90, 2]

    with pytest.raises(ArchiveError):
        load_model(changed(data, change))


def places_in(node, path=()):
    """The way to every part of a header."""
    yield path
    for key in node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
        yield from places_in(node[key], (*path, key))


def at(node, path):
    for key in path:
        node = node[key]
    return node


def test_a_forged_file_is_refused_or_fails_in_words(belief) -> None:
    """Parts of the header exchanged, bytes of arrays changed, sealed anew: whatever loads stays inside its arrays."""
    random = np.random.default_rng(0)
    values = [0, -1, 10**9, 2**63, 1.5, None, "x", [], {}, {"array": 3}, {"tuple": []}, "Forest"]
    start = len(MAGIC) + 12
    stop = start + int.from_bytes(belief[len(MAGIC) + 4 : start], "little")
    for _ in range(250):

        def forge(header):
            ways = [path for path in places_in(header) if path]
            target, source = (ways[number] for number in random.integers(len(ways), size=2))
            value = values[random.integers(len(values))] if random.random() < 0.7 else at(header, source)
            at(header, target[:-1])[target[-1]] = json.loads(json.dumps(value))

        raw = bytearray(belief[stop:-CHECKSUM])
        for place in random.integers(len(raw), size=random.integers(30)):
            raw[place] = random.integers(256)
        with suppress(ArchiveError, AttributeError, LookupError, TypeError, ValueError), np.errstate(all="ignore"):
            model = load_model(changed(belief, forge, bytes(raw)))
            model.transform(NEW)
