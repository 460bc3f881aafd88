"""Every pass has its page, and what the documents link to is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from convir.passes.pipelines import PIPELINES
from convir.passes.registry import CONVIR_PASSES, LOWERING_PASSES

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "passes"
DOCUMENTS = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("lowering/**/*.md"),
    *ROOT.glob("benchmarks/*.md"),
    *ROOT.glob("examples/*.md"),
]
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
NAMED_FILE = re.compile(
    r"(?<![\w/.-])((?:benchmarks|docs|examples|tests|lowering|passes|dialects|runtime|api|cli"
    r"|frontends|lit)/[\w/.-]*\w\.(?:py|md|mlir|txt|json|jsonl|cuh))\b"
)

PLACEHOLDERS = {
    "benchmarks/suites/SUITE.txt",
    "lowering/records/GPU-MULTIPROCESSORS.jsonl",
    "passes/some_pass.py",
}


@pytest.mark.parametrize("name", [*CONVIR_PASSES, *LOWERING_PASSES])
def test_every_pass_has_a_page(name: str) -> None:
    text = (PAGES / f"{name}.md").read_text()
    assert text.partition("\n")[0] in (f"# {name}", f"# `{name}`")
    assert "-->" in text


def test_every_page_is_of_a_pass_or_a_pipeline() -> None:
    known = {"index", *CONVIR_PASSES, *LOWERING_PASSES, *PIPELINES}
    assert {page.stem for page in PAGES.glob("*.md")} <= known


def _anchors(document: Path) -> set[str]:
    """What the headings of a document are called in links."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in words}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_named_files_are_there(document: Path) -> None:
    text = document.read_text()
    for link in LINK.findall(text):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target), link
    for name in set(NAMED_FILE.findall(text)) - PLACEHOLDERS:
        assert (ROOT / name).exists() or (document.parent / name).exists(), name
