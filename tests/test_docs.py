"""The documentation is true: its examples run, its commands exist, and it builds without a warning."""

import inspect
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

import clearfold.embedding
from clearfold import errors
from clearfold.cli import app
from clearfold.cli.reference import parameters, reference

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(python|bash)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> Iterator[tuple[str, int, str]]:
    """Every example of a page: its language, the lines before it, its text."""
    text = page.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        yield match[1], text.count("\n", 0, match.start(2)), match[2]


def clearfold_commands(shell: str) -> Iterator[list[str]]:
    """The lines that call clearfold; `make` and `pip` are for the reader."""
    for line in shell.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["clearfold"]:
            yield words


def run_in(folder: Path, command: list[str]) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to work in; pictures are drawn without a screen."""
    monkeypatch.setenv("MPLBACKEND", "Agg")
    plt.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    plt.close("all")


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_examples_of_a_page_run_in_order(page: Path, workplace: Path) -> None:
    namespace = {"__name__": "__example__"}
    for language, line, text in blocks(page):
        if language == "python":
            exec(compile("\n" * line + text, str(page), "exec"), namespace)
        else:
            for command in clearfold_commands(text):
                run_in(workplace, [sys.executable, "-c", "from clearfold.cli import main; main()", *command[1:]])


def test_documentation_builds_without_a_warning(tmp_path: Path) -> None:
    run_in(ROOT, [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")])
    loads = re.compile(r'<(?:script|link|img)[^>]+(?:src|href)="((?:https?:)?//[^"]+)"')
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 5
    assert not {address for page in pages for address in loads.findall(page.read_text(encoding="utf-8"))}


def test_every_embedding_is_documented() -> None:
    text = (ROOT / "docs" / "embeddings.md").read_text(encoding="utf-8")
    missing = [name for name in clearfold.embedding.__all__ if f"`{name}" not in text]
    assert not missing


def test_every_error_and_warning_is_documented() -> None:
    text = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    own = [name for name, value in vars(errors).items() if inspect.isclass(value)]
    assert not [name for name in own if name not in text]


def test_every_command_is_documented() -> None:
    text = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    shown = run_in(ROOT, [sys.executable, "-c", "from clearfold.cli import main; main()", "--help"])
    commands = re.findall(r"^[│ ]+([a-z][a-z-]+) {2,}", shown, re.MULTILINE)
    assert "embed" in commands
    assert not [name for name in commands if f"## clearfold {name}\n" not in text]


def test_every_option_is_documented() -> None:
    text = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## clearfold (\S+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    for info in app.registered_commands:
        assert info.callback is not None
        section = sections[info.callback.__name__]
        options = [one["names"] for one in parameters(info.callback) if not one["argument"]]
        assert not [names for names in options if not any(f"`{name}" in section for name in re.split(r", |/", names))]


def test_the_command_line_reference_is_what_the_commands_say() -> None:
    committed = (ROOT / "docs" / "command-line-reference.md").read_text(encoding="utf-8")
    assert committed == reference(), "run: python -m clearfold.cli.reference docs/command-line-reference.md"


WORDS = [
    "sample", "object", "feature", "family", "table", "label", "outcome", "affinity", "operator", "embedding",
    "coordinates", "loadings", "importance", "saliency", "query", "hit", "relevant", "reason", "archive", "round",
    "measure", "metric",
]  # fmt: skip


def test_every_word_of_the_vocabulary_is_in_the_glossary() -> None:
    text = (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8").partition("## Glossary")[2]
    heads = {word for line in re.findall(r"^(.+)\n: ", text, re.MULTILINE) for word in line.split(", ")}
    assert set(WORDS) <= heads
    assert len(re.findall(r"^(.+)\n: ", text, re.MULTILINE)) == len(set(re.findall(r"^(.+)\n: ", text, re.MULTILINE)))


def test_every_guide_is_linked_from_the_start() -> None:
    linked = "".join(page.read_text(encoding="utf-8") for page in ROOT.glob("docs/*.md"))
    guides = sorted((ROOT / "docs" / "guides").glob("*.md"))
    assert len(guides) >= 5
    assert not [guide.name for guide in guides if f"guides/{guide.name}" not in linked]
