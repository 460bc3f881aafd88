"""docs/website.py: every document has a place in the site, and every link of it leads somewhere."""

from __future__ import annotations

import importlib.util
import re
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
LINK = re.compile(r'(?:href|src)="([^"#?]+)')


def script() -> Any:
    found = importlib.util.spec_from_file_location("website", ROOT / "docs" / "website.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


WEBSITE = script()


def paths_in(entry: Any) -> Iterator[str]:
    """The files of a part of the navigation."""
    if isinstance(entry, str):
        yield entry
        return
    values: Any = cast("dict[str, Any]", entry).values() if isinstance(entry, dict) else entry
    for each in values:
        yield from paths_in(each)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the site is made of, without the reference of modules, which has a test of its own."""
    folder = tmp_path_factory.mktemp("pages")
    for write in (WEBSITE.copy_documents, WEBSITE.write_benchmarks, WEBSITE.write_reports):
        write(folder)
    return folder


@pytest.mark.fast
def test_the_navigation_has_every_document() -> None:
    named = [*paths_in(WEBSITE.navigation(Path("none")))]
    made = {"benchmarks/measurements.md", "reports/index.md"}
    assert len(named) == len({*named})
    assert {*named} == {*map(str, WEBSITE.documents())} | made


def test_what_a_build_makes_is_there(pages: Path) -> None:
    assert all((pages / path).is_file() for path in paths_in(WEBSITE.navigation(pages)))
    assert len([*(pages / "reports").glob("*.html")]) == len(WEBSITE.REPORTS)
    assert '<svg xmlns="http://www.w3.org/2000/svg" class="roofline"' in (
        pages / "benchmarks" / "pages" / "transposed-h200.html"
    ).read_text(encoding="utf-8")


def require_mkdocs() -> None:
    if find_spec("mkdocs") is None or find_spec("material") is None:
        pytest.skip("mkdocs-material is not installed: pip install '.[docs]'")


@pytest.mark.parametrize("link", ["docs/tour.md#nowhere", "docs/nowhere.md"])
def test_a_broken_link_fails_the_build(
    link: str, pages: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    require_mkdocs()
    broken = tmp_path / "pages"
    shutil.copytree(pages, broken)
    with (broken / "README.md").open("a", encoding="utf-8") as page:
        page.write(f"\n[broken]({link})\n")
    assert WEBSITE.build(broken, tmp_path / "site") != 0
    assert link.rpartition("/")[2] in capfd.readouterr().err


def test_reports_are_introduced_by_their_answers(pages: Path) -> None:
    text = (pages / "reports" / "index.md").read_text(encoding="utf-8")
    assert "**Which pass removed multiplications by zero, and how many?** swap-strided" in text


def test_the_site_is_built_and_asks_for_nothing(pages: Path, tmp_path: Path) -> None:
    require_mkdocs()
    site = tmp_path / "site"
    assert WEBSITE.build(pages, site) == 0
    for page in site.rglob("*.html"):
        if page.name == "404.html":  # Its links are from the root of a server.
            continue
        text = page.read_text(encoding="utf-8")
        assert not re.search(r'<(?:script|link|img)[^>]* (?:src|href)="https?:', text)
        for link in LINK.findall(text):
            if not link.startswith(("http:", "https:", "data:")):
                assert (page.parent / link).exists(), f"{page}: {link}"
