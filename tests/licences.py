"""The licences of everything that clearfold needs at run time, read from what is installed.

`python tests/licences.py > docs/licences.md` writes the page.
"""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
NOT_RUNTIME = ("all", "dev", "docs", "test")
SHORT = {
    "MIT License": "MIT",
    "ISC License": "ISC",
    "ISC License (ISCL)": "ISC",
    "BSD License": "BSD",
    "BSD 3-Clause License": "BSD-3-Clause",
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache Software License": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
HEAD = """# Licences

clearfold is under the BSD 3-Clause licence. These are the packages that it needs at run time, with what they need in
turn, and the licences that they name themselves. A test compares this page with what is installed: no package is under
the GPL or the AGPL, and none under the LGPL is needed without an extra. `python tests/licences.py > docs/licences.md`
writes the page anew.

"""
NOTES = """
## Inside the binaries

Ready-made wheels hold libraries of others. The ones that a lawyer asks about:

| package | holds | licence |
|---|---|---|
| numpy, scipy, scikit-learn | libgfortran, libgomp of GCC | GPL-3.0 with the exception for run-time libraries |
| numpy, scipy | libquadmath of GCC | LGPL-2.1 |
| shapely (`images`) | GEOS | LGPL-2.1 |
| openslide-bin (`images`) | OpenSlide and what it needs | LGPL-2.1 and others |
| psycopg-binary (`postgres`) | libpq, OpenSSL and what they need | PostgreSQL, Apache-2.0 and others |

The LGPL asks that a user may replace these libraries. They are shared libraries in packages of their own, and can be.
"""


@dataclass(frozen=True)
class Package:
    """A package, the licence it names, and who asked for it first; None for a licence that is not known."""

    name: str
    licence: str | None
    needed_by: str


def groups() -> dict[str, list[str]]:
    """Core and every extra of the run time -> what pyproject.toml asks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {name: wanted for name, wanted in project["optional-dependencies"].items() if name not in NOT_RUNTIME}
    return {"core": project["dependencies"], **extras}


def closure(wanted: list[str], known: dict[str, Package] | None = None) -> dict[str, Package]:
    """Everything that these requirements lead to, without what is known already and what is not installed here."""
    found: dict[str, Package] = {}
    waiting = [(Requirement(text), "") for text in wanted]
    while waiting:
        requirement, needed_by = waiting.pop(0)
        name = canonicalize_name(requirement.name)
        if name == "clearfold":  # an extra that holds another one
            for extra in requirement.extras:
                found |= closure(groups()[extra], (known or {}) | found)
            continue
        if name in found and not requirement.extras:
            continue
        try:
            metadata = importlib.metadata.metadata(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        if name not in (known or {}) and name not in found:
            found[name] = Package(name, licence_of(metadata), needed_by or "clearfold")
        if name in (known or {}) and not requirement.extras:
            continue
        for text in metadata.get_all("Requires-Dist") or []:
            further = Requirement(text)
            if any(_applies(further, extra) for extra in ("", *requirement.extras)):
                waiting.append((further, name))
    return found


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def licence_of(metadata: importlib.metadata.PackageMetadata) -> str | None:
    """The SPDX expression, else the classifier, else the first words of the licence."""
    fields = metadata.json
    expression = fields.get("license_expression")
    if expression:
        return " ".join(str(expression).split())
    told = str(fields.get("license") or "").strip()
    classes = [str(text).split("::")[-1].strip() for text in fields.get("classifier", []) if "License ::" in str(text)]
    if told and len(told) <= 40 and "\n" not in told and told.upper() not in ("BSD", "UNKNOWN"):
        return SHORT.get(told, told)
    first = told.splitlines()[0].strip() if told else ""
    return " AND ".join(SHORT.get(text, text) for text in classes) or SHORT.get(first, first) or None


def by_group() -> dict[str, dict[str, Package]]:
    """Core and every extra -> the packages that it adds to the core."""
    wanted = groups()
    core = closure(wanted["core"])
    return {"core": core, **{name: closure(wanted[name], core) for name in wanted if name != "core"}}


def restrictions(licence: str) -> set[str]:
    """Which of GPL, LGPL and AGPL bind in an expression: what is joined by OR leaves a choice, WITH is an exception."""
    bound: set[str] = set()
    for part in re.split(r"\s+AND\s+(?![^(]*\))", licence):
        choices = [set(re.findall(r"\b(AGPL|LGPL|GPL)", one)) for one in re.split(r"\s+OR\s+", part)]
        if " WITH " not in part and all(choices):
            bound |= min(choices, key=len)
    return bound


def page() -> str:
    """The table in Markdown."""
    lines = []
    for group, packages in by_group().items():
        title = "Without an extra" if group == "core" else f"`clearfold[{group}]` adds"
        lines += [f"## {title}", "", "| package | licence | needed by |", "|---|---|---|"]
        ordered = sorted(packages.values(), key=lambda one: (one.needed_by != "clearfold", one.name))
        lines += [f"| {one.name} | {one.licence} | {one.needed_by} |" for one in ordered]
        lines.append("")
    return HEAD + "\n".join(lines).rstrip() + "\n" + NOTES


if __name__ == "__main__":
    print(page(), end="")
