"""`python -m examples.build`: the notebooks, the page and the pictures of the gallery, from the examples themselves.

`--text` writes only the notebooks and the page, which a test holds against what is committed.
"""

import ast
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted(Path(__file__).parent.glob("[0-9][0-9]_*.py"))
NOTEBOOKS = [path for path in EXAMPLES if path.read_text(encoding="utf-8").startswith("# %%")]
PAGE = ROOT / "docs" / "gallery.md"
PICTURES = ROOT / "docs" / "images" / "gallery"
WIDTH, COLOURS = 720, 256

HEAD = """# Gallery

Ten examples, from a table to a slide. Each makes or brings its own data, runs in seconds and writes its picture
where it is called: `python examples/01_map_a_table.py`. Two are also notebooks. Written by `python -m examples.build`.
"""


def cells(text: str) -> list[tuple[str, str]]:
    """The parts of a script in percent format: ("markdown" or "code", text)."""
    found = []
    for part in re.split(r"^# %%", text, flags=re.MULTILINE)[1:]:
        first, _, body = part.partition("\n")
        kind = "markdown" if "[markdown]" in first else "code"
        if kind == "markdown":
            body = "\n".join(line.removeprefix("#").removeprefix(" ") for line in body.strip().splitlines())
        found.append((kind, body.strip()))
    return found


def notebook(text: str) -> str:
    """The script as a notebook without outputs."""
    made = []
    for number, (kind, body) in enumerate(cells(text), start=1):
        cell = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": body.splitlines(keepends=True)}
        made.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    about = {"kernelspec": kernel, "language_info": {"name": "python"}}
    whole = {"cells": made, "metadata": about, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def told(path: Path) -> tuple[str, str]:
    """Title and description of an example: its docstring, or the first cell of its notebook."""
    text = path.read_text(encoding="utf-8")
    words = cells(text)[0][1] if path in NOTEBOOKS else ast.get_docstring(ast.parse(text)) or ""
    title, _, rest = words.partition("\n")
    return title.strip("# ").rstrip("."), " ".join(rest.split())


def page() -> str:
    """The gallery."""
    parts = [HEAD]
    for path in EXAMPLES:
        title, description = told(path)
        also = f" As a notebook: `examples/{path.stem}.ipynb`." if path in NOTEBOOKS else ""
        parts.append(f"## {title}\n\n{description}{also}\n")
        parts.append(f"![{title}](images/gallery/{path.stem}.png)\n")
        parts.append(f'```py title="examples/{path.name}"\n--8<-- "examples/{path.name}"\n```\n')
    return "\n".join(parts)


def written() -> dict[Path, str]:
    """Everything that is text, by its file."""
    books = {path.with_suffix(".ipynb"): notebook(path.read_text(encoding="utf-8")) for path in NOTEBOOKS}
    return {PAGE: page(), **books}


def draw() -> None:
    """Run every example and keep its picture, small."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for path in EXAMPLES:
            print(path.name, flush=True)
            subprocess.run([sys.executable, str(path)], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            shrink(Path(folder, f"{path.stem}.png"), PICTURES / f"{path.stem}.png")


def shrink(picture: Path, target: Path) -> None:
    """The picture in a width that fits a page, with few colours."""
    from PIL import Image

    with Image.open(picture) as opened:
        small = opened.convert("RGB")
    small.thumbnail((WIDTH, WIDTH), Image.Resampling.LANCZOS)
    small.quantize(COLOURS).save(target, optimize=True)


if __name__ == "__main__":
    for path, text in written().items():
        path.write_text(text, encoding="utf-8")
    if "--text" not in sys.argv:
        draw()
