"""What the documents link to is there, and no line is too long."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from how_to import added_files

pytestmark = pytest.mark.fast

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ROOT / "lowering" / "kernels"
FAMILY_HEADINGS = (
    "Operation",
    "Tile and pipeline",
    "Problems it takes, and why not others",
    "Config fields",
    "What bounds it",
    "Measured",
    "Tried",
)
"""The one shape of a family's README, in order."""
MOST_COLUMNS = 100
DOCUMENTS = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("lowering/**/*.md"),
    *ROOT.glob("benchmarks/*.md"),
    *ROOT.glob("examples/*.md"),
]
FENCED = re.compile(r"^(```+).*?^\1$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
NAMED_FILE = re.compile(
    r"(?<![\w/.-])((?:benchmarks|docs|examples|tests|lowering|passes|dialects|analysis"
    r"|reference|runtime|api|cli|frontends|lit)/[\w/.-]*\w\.(?:py|md|mlir|txt|json|jsonl|cuh))\b"
)

PLACEHOLDERS = {
    "benchmarks/suites/SUITE.txt",
    "lowering/selection/records/GPU-MULTIPROCESSORS.jsonl",
    "passes/some_pass.py",
}


def _anchors(document: Path) -> set[str]:
    """What the headings of a document are called in links."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in words}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_named_files_are_there(document: Path) -> None:
    text = document.read_text()
    for link in LINK.findall(FENCED.sub("", text)):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target), link
    for name in set(NAMED_FILE.findall(text)) - PLACEHOLDERS - added_files(text):
        assert (ROOT / name).exists() or (document.parent / name).exists(), name


FAMILIES = sorted(
    {path.parent for path in KERNELS.glob("cuda/*/kernel.cuh")}
    | {path.parent for path in KERNELS.glob("host/*/family.py")}
    | {KERNELS / "library"}
)


@pytest.mark.parametrize("folder", FAMILIES, ids=lambda path: str(path.relative_to(KERNELS)))
def test_every_family_has_a_readme_of_one_shape(folder: Path) -> None:
    text = (folder / "README.md").read_text()
    assert text.startswith(f"# {folder.name}: ")
    assert tuple(re.findall(r"^## (.+)$", text, re.MULTILINE)) == FAMILY_HEADINGS


def test_the_index_links_every_family() -> None:
    index = ROOT / "docs" / "kernels" / "index.md"
    linked = {(index.parent / link).resolve() for link in LINK.findall(index.read_text())}
    assert {folder / "README.md" for folder in FAMILIES} <= linked
    assert set(index.parent.glob("*.md")) - {index} <= linked


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_line_is_too_long(document: Path) -> None:
    """Fenced blocks are exempt: they show what a tool printed, character by character."""
    text = FENCED.sub("", document.read_text())
    long = [line for line in text.splitlines() if len(line) > MOST_COLUMNS]
    assert not long
