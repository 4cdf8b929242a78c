"""Drawings of rankings show the numbers of the estimator, in its order, and say what they show."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from clearfold import EmbeddingImportance, plot
from clearfold.embedding import PCA
from clearfold.errors import InputError
from clearfold.importance import agreement
from clearfold.plot.ranking import FAMILY_COLOURS
from clearfold.selection import correlation, gini, ranking, welch_t


def sample(names: list[str], seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Two classes of 40; the first two features follow the class."""
    y = np.repeat([0, 1], 40)
    X = np.random.default_rng(seed).normal(size=(80, len(names)))
    X[:, :2] += 3 * y[:, None]
    return pd.DataFrame(X, columns=names), y


def fitted(names: list[str] | None = None, y: Any = None, **options: Any) -> EmbeddingImportance:
    X, labels = sample(names or [f"{family}.{i}" for family in ("shape", "graph", "texture") for i in range(4)])
    options = {"n_rounds": 8, "n_permutations": 99, "random_state": 0, **options}
    return EmbeddingImportance(embedding=PCA(n_components=3), **options).fit(X, labels if y is None else y)


@pytest.fixture(scope="module")
def imp() -> EmbeddingImportance:
    return fitted()


def names_of(ax: Axes) -> list[str]:
    return [tick.get_text() for tick in ax.get_yticklabels()]


def legend_of(ax: Axes) -> list[str]:
    return [] if ax.get_legend() is None else [text.get_text() for text in ax.get_legend().get_texts()]


def widths_of(ax: Axes) -> np.ndarray:
    return np.array([bar.get_width() for bar in ax.patches])


def columns_of(ax: Axes) -> dict[str, list[str]]:
    """Heading -> the numbers below it, by where they stand."""
    columns: dict[float, list[str]] = {}
    for text in ax.texts:
        columns.setdefault(text.xyann[0], []).append(text.get_text())
    return {head: numbers for head, *numbers in columns.values() if head != "rank by"}


# Bars of features ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("top", [1, 5, 12, 100])
def test_one_bar_for_each_of_the_first_features_best_on_top(imp: EmbeddingImportance, top: int) -> None:
    ax = imp.plot(top=top)
    expected = imp.table_.sort_values("rank").head(top)
    assert names_of(ax) == list(expected["feature"])
    np.testing.assert_allclose(widths_of(ax), expected["importance"])
    below, above = ax.get_ylim()
    assert above < below
    assert (np.diff(widths_of(ax)) <= 0).all()


def test_lines_end_where_the_intervals_end(imp: EmbeddingImportance) -> None:
    ax = plot.importance_bars(imp, top=6)
    shown = imp.table_.sort_values("rank").head(6)
    ends = np.array([segment[:, 0] for segment in ax.collections[0].get_segments()])
    np.testing.assert_allclose(ends, shown[["ci_low", "ci_high"]])
    assert ax.get_xlim()[0] == 0
    assert ax.get_xlim()[1] >= shown["ci_high"].max()
    assert "95 % interval" in ax.get_xlabel()


def test_ranks_beside_are_those_of_the_filters(imp: EmbeddingImportance) -> None:
    X, y = sample(list(imp.table_["feature"]))
    order = imp.table_.sort_values("rank").index[:5]
    expected = {"t-test": welch_t(X, y), "Gini": gini(X, y), "label-free": imp.label_free_}
    shown = columns_of(plot.importance_bars(imp, top=5))
    assert list(shown) == list(expected)
    for head, values in expected.items():
        assert shown[head] == [str(rank) for rank in ranking(values)[order]]


def test_a_rank_beyond_those_shown_is_bold(imp: EmbeddingImportance) -> None:
    ax = plot.importance_bars(imp, top=5)
    numbers = [text for text in ax.texts if text.get_text().isdecimal()]
    assert len(numbers) == 15
    assert {(int(text.get_text()) > 5) == (text.get_fontweight() == "bold") for text in numbers} == {True}


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        (np.random.default_rng(1).normal(size=80), "value"),
        (np.column_stack([np.arange(80.0), [1, 0] * 40]), "censored"),
    ],
    ids=["value", "censored"],
)
def test_values_and_times_are_compared_by_correlation(y: np.ndarray, kind: str) -> None:
    one = fitted(y=y, n_rounds=0, n_permutations=0)
    assert one._outcome_kind == kind
    assert list(one.comparison_) == ["feature", "correlation", "label_free"]
    assert list(columns_of(one.plot(top=3))) == ["correlation", "label-free"]
    if kind == "value":
        X, _ = sample(list(one.table_["feature"]))
        assert one.comparison_["correlation"].tolist() == ranking(correlation(X, y)).tolist()


def test_families_have_colours_and_a_legend(imp: EmbeddingImportance) -> None:
    ax = plot.importance_bars(imp, top=12)
    families = list(imp.family_importances_["family"])
    assert legend_of(ax) == [*families, "q < 0.05", "q ≥ 0.05"]
    colour = dict(zip(families, FAMILY_COLOURS, strict=False))
    for bar, name in zip(ax.patches, names_of(ax), strict=True):
        assert to_hex(bar.get_edgecolor()).upper() == colour[name.split(".")[0]].upper()


@pytest.mark.parametrize("count", [1, 10, 11])
def test_one_family_or_too_many_share_one_colour(count: int) -> None:
    names = [f"family{i % count}.{i}" for i in range(22)]
    ax = plot.importance_bars(fitted(names, n_rounds=0, n_permutations=0), top=22)
    assert len({bar.get_edgecolor() for bar in ax.patches}) == (count if count == 10 else 1)
    assert len(legend_of(ax)) == (count if count == 10 else 0)


def test_bars_are_pale_unless_q_is_small(imp: EmbeddingImportance) -> None:
    ax = plot.importance_bars(imp, top=12)
    q = imp.table_.sort_values("rank")["q_value"].to_numpy()
    assert (q < 0.05).any()
    assert (q >= 0.05).any()
    filled = np.array([bar.get_facecolor()[3] == 1 for bar in ax.patches])
    np.testing.assert_array_equal(filled, q < 0.05)


def test_without_rounds_and_permutations_there_are_bars_alone() -> None:
    ax = plot.importance_bars(fitted(n_rounds=0, n_permutations=0), top=4)
    assert len(ax.patches) == 4
    assert not ax.collections
    assert {bar.get_facecolor()[3] for bar in ax.patches} == {1.0}
    assert not [text for text in legend_of(ax) if text.startswith("q")]


def test_strange_names_are_drawn_as_they_are() -> None:
    names = ["_hidden.a", "$\\frac$ & <b>", "a" * 200, "_hidden.b", "plain", "naïve µm²"]
    ax = plot.importance_bars(fitted(names, n_rounds=0), top=6)
    svg = plot.to_svg(ax)
    assert "$\\frac$ &amp; &lt;b&gt;" in svg
    assert max(map(len, names_of(ax))) < 50
    assert "_hidden" in legend_of(ax)


def test_names_are_never_cut_to_the_same() -> None:
    long = "shape.of_the_nuclei_in_the_region"
    names = [f"{long}.{i}.{'x' * 30}" for i in range(4)] + [f"{long}.{i}.{'x' * 80}" for i in range(4)]
    shown = names_of(plot.importance_bars(fitted(names, n_rounds=0, n_permutations=0), top=8))
    assert len(set(shown)) == 8


def test_a_given_axes_is_used(imp: EmbeddingImportance) -> None:
    for draw in (plot.importance_bars, plot.family_bars):
        ax = Figure().add_subplot()
        assert draw(imp, ax=ax) is ax


def test_no_features_cannot_be_drawn(imp: EmbeddingImportance) -> None:
    with pytest.raises(InputError, match="top=0"):
        plot.importance_bars(imp, top=0)


# Bars of families ---------------------------------------------------------------------------------------------


def test_families_have_bars_intervals_and_their_even_share(imp: EmbeddingImportance) -> None:
    ax = plot.family_bars(imp)
    table = imp.family_importances_
    assert names_of(ax) == [f"{name} (4)" for name in table["family"]]
    np.testing.assert_allclose(widths_of(ax), table["importance"])
    ends = np.array([segment[:, 0] for segment in ax.collections[0].get_segments()])
    np.testing.assert_allclose(ends, table[["ci_low", "ci_high"]])
    marks = ax.lines[0].get_xdata()
    np.testing.assert_allclose(marks, 1 / 3)
    assert ax.get_xlim()[1] >= max(marks)


def test_features_without_a_family_are_counted_not_drawn() -> None:
    ax = plot.family_bars(fitted(["a.1", "a.2", "b.1", "b.2", "alone", "single"], n_rounds=0))
    assert sorted(names_of(ax)) == ["a (2)", "b (2)"]
    assert ax.get_title(loc="left") == "not drawn: 2 features without a family"
    alone = plot.family_bars(fitted(["a", "b", "c"], n_rounds=0))
    assert len(names_of(alone)) == 3


def test_at_most_twenty_families_are_drawn() -> None:
    ax = plot.family_bars(fitted([f"f{i // 2}.{i}" for i in range(50)], n_rounds=0, n_permutations=0))
    assert len(ax.patches) == 20
    assert ax.get_title(loc="left") == "the first 20 of 25 families"


# Ranks under several embeddings ---------------------------------------------------------------------------------


def test_every_rank_stands_in_its_cell() -> None:
    X, y = sample([f"f{i}" for i in range(8)])
    found = agreement(X, y, top=6)
    ax = found.plot()
    names = list(found.overlap.columns)
    assert names_of(ax) == list(found.table["feature"].head(6))
    assert [tick.get_text().replace("\n", "") for tick in ax.get_xticklabels()] == names
    cells = {text.get_position(): int(text.get_text()) for text in ax.texts}
    expected = found.table[names].head(6).to_numpy()
    assert cells == {(column, row): rank for (row, column), rank in np.ndenumerate(expected)}


def test_better_ranks_are_darker() -> None:
    frame = pd.DataFrame({"feature": list("abc"), "one": [1, 10, 100]})
    shades = plot.rank_table(frame, ["one"]).images[0].get_array()[:, 0, :3].sum(axis=1)
    assert (np.diff(shades) > 0).all()


def test_a_missing_column_is_named() -> None:
    with pytest.raises(InputError, match="no column 'two'"):
        plot.rank_table(pd.DataFrame({"feature": ["a"], "one": [1]}), ["one", "two"])
