"""Nobody who installs clearfold takes on the GPL, and the list of licences in the documentation is complete."""

from __future__ import annotations

import re

import pytest

from licences import ROOT, Package, by_group, groups, page, restrictions

PAGE = ROOT / "docs" / "licences.md"
LESSER = {
    "images": {"openslide-bin", "openslide-python"},
    "postgres": {"psycopg", "psycopg-binary", "psycopg-pool"},
}
"""Packages under the LGPL: named, each behind an extra."""


@pytest.fixture(scope="module")
def installed() -> dict[str, dict[str, Package]]:
    return by_group()


def test_every_direct_dependency_is_found(installed: dict[str, dict[str, Package]]) -> None:
    for group, wanted in groups().items():
        names = {re.split(r"[\[<>=;! ]", text)[0].lower().replace("_", "-") for text in wanted} - {"clearfold"}
        assert names <= set(installed[group]) | set(installed["core"]), group


def test_every_package_names_its_licence(installed: dict[str, dict[str, Package]]) -> None:
    nameless = {one.name for packages in installed.values() for one in packages.values() if not one.licence}
    assert not nameless


def test_the_core_is_free_of_every_gpl(installed: dict[str, dict[str, Package]]) -> None:
    bound = {name: one.licence for name, one in installed["core"].items() if restrictions(str(one.licence))}
    assert not bound


def test_extras_are_free_of_the_gpl_and_name_the_lgpl(installed: dict[str, dict[str, Package]]) -> None:
    for group, packages in installed.items():
        found = {name: restrictions(str(one.licence)) for name, one in packages.items()}
        assert not {name for name, bound in found.items() if bound & {"GPL", "AGPL"}}
        assert {name for name, bound in found.items() if bound} <= LESSER.get(group, set())


@pytest.mark.parametrize(
    ("licence", "bound"),
    [
        ("MIT", set()),
        ("GPL-3.0-only", {"GPL"}),
        ("GNU General Public License v3 (GPLv3)", {"GPL"}),
        ("AGPL-3.0-or-later AND MIT", {"AGPL"}),
        ("LGPL-3.0-only", {"LGPL"}),
        ("MIT AND (BSD-3-Clause OR GPL-2.0-only) AND Zlib", set()),
        ("(LGPL-2.1-only OR GPL-2.0-only) AND MIT", {"LGPL"}),
        ("GPL-3.0-or-later WITH GCC-exception-3.1", set()),
    ],
)
def test_how_a_licence_is_read(licence: str, bound: set[str]) -> None:
    assert restrictions(licence) == bound


def test_the_page_lists_every_package_in_its_place(installed: dict[str, dict[str, Package]]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    sections = dict(zip(installed, re.split(r"^## ", text, flags=re.MULTILINE)[1:], strict=False))
    for group, packages in installed.items():
        listed = set(re.findall(r"^\| ([a-z0-9.-]+) \|", sections[group], flags=re.MULTILINE))
        missing = set(packages) - listed
        assert not missing, f"{group}: run `python tests/licences.py > docs/licences.md`"
    assert page().splitlines()[:6] == text.splitlines()[:6]
