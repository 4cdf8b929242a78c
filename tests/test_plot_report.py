"""Drawings show every sample and say what they show; a report is one file that asks nothing of the outside."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from clearfold import plot
from clearfold.errors import InputError, TableError
from clearfold.report import Report, versions


def points(count: int = 30, width: int = 3) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(count, width))


def drawn(ax: mpl.axes.Axes) -> int:
    """How many points an Axes shows."""
    return sum(len(part.get_offsets()) for part in ax.collections)


def legend_of(ax: mpl.axes.Axes) -> list[str]:
    legend = ax.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]


# Scatter ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "label",
    [
        None,
        ["a", "b", None] * 10,
        list(range(30)),
        np.linspace(0, 1, 30),
        [f"class {i % 20}" for i in range(30)],
        [True, False] * 15,
        np.where(np.arange(30) < 4, np.nan, np.arange(30.0)),
        [None] * 30,
        pd.Series(["a", "b"] * 15, dtype="category"),
        pd.Series(pd.array([1, 2, None] * 10, dtype="Int64")),
    ],
    ids=["none", "text", "integers", "floats", "many", "truth", "gaps", "all missing", "category", "nullable"],
)
def test_no_sample_is_left_out(label: object) -> None:
    assert drawn(plot.scatter(points(), label)) == 30


def test_the_legend_counts_each_class_in_order() -> None:
    ax = plot.scatter(points(10), pd.Series(["b"] * 6 + ["a"] * 3 + [None], name="grade"))
    assert legend_of(ax) == ["a (3)", "b (6)", "no label (1)"]
    assert ax.get_legend().get_title().get_text() == "grade"


def test_samples_without_label_are_grey_and_lie_below() -> None:
    ax = plot.scatter(points(10), ["a"] * 8 + [None, None])
    labelled, grey = ax.collections
    assert to_hex(grey.get_facecolor()[0]).upper() == plot.GREY
    assert grey.get_zorder() < labelled.get_zorder()


def test_a_small_class_lies_above_a_large_one() -> None:
    large, small = plot.scatter(points(10), ["a"] * 8 + ["b"] * 2).collections
    assert small.get_zorder() > large.get_zorder()


def test_twelve_classes_have_twelve_looks() -> None:
    ax = plot.scatter(points(24), [f"c{i:02d}" for i in range(12)] * 2)
    looks = {(to_hex(p.get_facecolor()[0]), len(p.get_paths()[0].vertices)) for p in ax.collections}
    assert len(looks) == 12
    assert "smaller classes" not in "".join(legend_of(ax))


def test_of_many_classes_the_largest_are_named() -> None:
    label = ["large"] * 10 + [f"c{i:02d}" for i in range(20)]
    texts = legend_of(plot.scatter(points(30), label))
    assert texts[0] == "large (10)"
    assert texts[-1] == "10 smaller classes (10)"
    assert len(texts) == 12


def test_many_numbers_get_a_colour_bar() -> None:
    ax = plot.scatter(points(), pd.Series(np.arange(30.0), name="age"))
    assert [other.get_ylabel() for other in ax.figure.axes if other is not ax] == ["age"]
    few = plot.scatter(points(), [1, 2, 3] * 10)
    assert len(few.figure.axes) == 1
    assert legend_of(few) == ["1 (10)", "2 (10)", "3 (10)"]
    assert len(plot.scatter(points(), [1, 2, 3] * 10, continuous=True).figure.axes) == 2


def test_axes_are_named_and_equally_scaled() -> None:
    ax = plot.scatter(points())
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("coordinate 1", "coordinate 2")
    assert ax.get_aspect() == 1


def test_one_coordinate_can_be_drawn() -> None:
    ax = plot.scatter(points(width=1))
    assert np.allclose(np.sort(ax.collections[0].get_offsets()[:, 0]), np.sort(points(width=1)[:, 0]))
    assert ax.get_ylabel() == ""


@pytest.mark.parametrize("label", [["a", "b"] * 15, np.arange(30.0), None], ids=["classes", "numbers", "none"])
def test_placed_samples_are_rings(label: object) -> None:
    later = None if label is None else label[:10]
    ax = plot.scatter(points(), label, placed=(points(10), later))
    rings = [part for part in ax.collections if len(part.get_facecolor()) == 0]
    assert sum(len(part.get_offsets()) for part in rings) == 10
    assert any("placed" in text for text in legend_of(ax))


def test_a_given_axes_is_used_and_pyplot_left_alone() -> None:
    ax = Figure().add_subplot()
    assert plot.scatter(points(), ax=ax) is ax
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        assert pyplot.get_fignums() == []


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(InputError, match="29 labels for 30 samples"):
        plot.scatter(points(), ["a"] * 29)
    with pytest.raises(InputError, match="wanted is \\[samples, coordinates\\]"):
        plot.scatter(np.zeros(5))


# Curves -------------------------------------------------------------------------------------------------------


def test_the_curve_starts_at_one_and_marks_the_choice() -> None:
    ax = plot.curve([0.5, 0.2, 0.1], 2)
    assert ax.lines[0].get_xydata().tolist() == [[1, 0.5], [2, 0.2], [3, 0.1]]
    assert ax.lines[-1].get_xydata().tolist() == [[2, 0.2]]
    assert ax.texts[0].get_text() == "h = 2\n0.2"
    with pytest.raises(InputError, match="from 1 to 3"):
        plot.curve([0.5, 0.2, 0.1], 4)


def test_one_line_for_each_hue_with_the_mean_of_repeats() -> None:
    frame = pd.DataFrame({"h": [1, 1, 2, 1, 2], "value": [1.0, 3.0, 5.0, 0.0, 1.0], "k": [5, 5, 5, 10, 10]})
    ax = plot.lines(frame, "h", "value", "k")
    assert [line.get_ydata().tolist() for line in ax.lines] == [[2.0, 5.0], [0.0, 1.0]]
    assert legend_of(ax) == ["5", "10"]
    with pytest.raises(InputError, match="no column 'w'"):
        plot.lines(frame, "h", "w")


def test_text_hues_keep_their_order() -> None:
    frame = pd.DataFrame({"h": [1, 1], "value": [1.0, 2.0], "setting": ["k=5", "k=10"]})
    assert legend_of(plot.lines(frame, "h", "value", "setting")) == ["k=5", "k=10"]


# SVG and files ------------------------------------------------------------------------------------------------


def test_svg_is_one_element_with_readable_text_and_the_same_each_time() -> None:
    svg = plot.to_svg(plot.scatter(points(), ["a", "b"] * 15))
    assert svg.startswith("<svg")
    assert svg.rstrip().endswith("</svg>")
    assert "coordinate 1</text>" in svg
    assert svg == plot.to_svg(plot.scatter(points(), ["a", "b"] * 15))


def test_ids_of_two_drawings_do_not_clash() -> None:
    one, two = (plot.to_svg(plot.curve(values)) for values in ([0.5, 0.1], [0.4, 0.1]))
    ids = [set(re.findall(r'\bid="([^"]+)"', svg)) for svg in (one, two)]
    assert ids[0]
    assert not ids[0] & ids[1]
    for svg, known in zip((one, two), ids, strict=True):
        assert set(re.findall(r'(?:url\(#|href="#)([^")]+)', svg)) <= known


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_save_is_atomic(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"map{suffix}"
    plot.save(plot.scatter(points()), path)
    before = path.read_bytes()
    assert len(before) > 1000
    ax = plot.scatter(points())

    def fail(target: Path, **_: object) -> None:
        Path(target).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ax.figure, "savefig", fail)
    with pytest.raises(TableError, match="No space left"):
        plot.save(ax, path)
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_an_unknown_picture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Drawings are .png, .svg, .pdf"):
        plot.save(plot.scatter(points()), tmp_path / "map.bmp")


# Report -------------------------------------------------------------------------------------------------------

EVIL = "<script>alert('x')</script> & \"quoted\""


class Outline(HTMLParser):
    """Collects tags, text and attributes; fails on tags that are not closed in order."""

    VOID = frozenset({"meta", "br", "hr", "img", "link", "input"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.values: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.values += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.values += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def outline(page: str) -> Outline:
    parser = Outline()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


def everything() -> Report:
    frame = pd.DataFrame({EVIL: [EVIL, None], "value": [1.23456, np.nan]})
    report = Report(EVIL, {"command": EVIL}).heading(EVIL).text(EVIL, "two").warnings([EVIL])
    return report.table(frame, EVIL).figure(plot.scatter(points(), [EVIL, "b"] * 15), EVIL, alt=f"alt {EVIL}")


def test_everything_is_escaped_and_well_formed() -> None:
    page = outline(everything().html())
    assert "script" not in page.tags
    assert page.text.count("<script>") >= 8


def test_nothing_is_loaded_from_outside_and_no_script_is_needed() -> None:
    page = outline(everything().html())
    assert not {"script", "link", "iframe", "img", "object"} & set(page.tags)
    assert not [value for _, value in page.values if value and re.match(r"\s*(https?:)?//", value)]
    assert "url(http" not in everything().html()
    assert "@import" not in everything().html()


def test_figures_speak_and_tables_are_labelled() -> None:
    page = outline(everything().html())
    assert ("role", "img") in page.values
    assert ("aria-label", f"alt {EVIL}") in page.values
    assert ("scope", "col") in page.values
    assert ("lang", "en") in page.values


def test_numbers_are_rounded_and_missing_ones_are_dashes() -> None:
    html = everything().html()
    assert '<td class="number">1.235</td>' in html
    assert '<td class="number">–</td>' in html
    assert "nan" not in html.lower().split("<footer>")[0].split("<tbody>")[1]


def test_a_long_table_says_how_much_is_shown() -> None:
    html = Report("t").table(pd.DataFrame({"n": range(1000)}), "Numbers.").html()
    assert "Numbers. The first 200 of 1000 rows are shown." in html
    assert html.count("<tr>") == 201


def test_no_warnings_leave_no_trace() -> None:
    assert "Please note" not in Report("t").warnings([]).html()


def test_the_footer_tells_versions_and_parameters() -> None:
    footer = everything().html().split("<footer>")[1]
    for name in ("clearfold", "numpy", "scipy", "scikit-learn", "Python"):
        assert f"{name} {versions()[name]}" in footer
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d", footer)
    assert "command" in footer


def test_a_report_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Report("old").write(tmp_path / "r.html")
    before = path.read_bytes()
    write_text = Path.write_text

    def fail(target: Path, text: str, **options: str) -> None:
        write_text(target, text[:100], **options)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", fail)
    with pytest.raises(TableError, match="No space left"):
        Report("new").write(path)
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1
