"""Every pass has a page of one shape, whose example is executed, and the index links all pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from convir.dialects.context import read_module
from convir.passes import run
from convir.passes.manager.registry import CONVIR_PASSES, LOWERING_PASSES
from convir.passes.pipelines import PIPELINES

PAGES = Path(__file__).resolve().parent.parent / "docs" / "passes"
PASSES = (*CONVIR_PASSES, *LOWERING_PASSES)
HEADINGS = ("Before and after", "When it fires", "Why it refuses", "Cost", "Checked by")
"""The one shape of a pass's page, in order."""
MODULE = re.compile(r"^```mlir\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PIPELINE = re.compile(r"^becomes, by `([^`]+)`,$", re.MULTILINE)
COMMAND = re.compile(r"^    convir-opt .*-p '?([^' ]+)", re.MULTILINE)


@pytest.mark.parametrize("name", PASSES)
def test_every_pass_has_a_page_of_one_shape(name: str) -> None:
    text = (PAGES / f"{name}.md").read_text()
    title, blank, statement, end, *_ = text.split("\n")
    assert (title, blank, end) == (f"# {name}", "", "")
    assert statement.endswith(".")
    assert "-->" in text.partition("\n## ")[0]
    assert tuple(re.findall(r"^## (.+)$", text, re.MULTILINE)) == HEADINGS


@pytest.mark.parametrize("name", PASSES)
def test_the_example_of_a_page_is_what_the_pass_prints(name: str) -> None:
    text = (PAGES / f"{name}.md").read_text()
    before, after = MODULE.findall(text)
    pipeline = PIPELINE.search(text) or COMMAND.search(text)
    assert pipeline is not None
    assert name in pipeline[1]
    assert str(run(before, pipeline[1]).module) == str(read_module(after))


def test_every_page_is_of_a_pass_or_a_pipeline() -> None:
    pages = {page.stem for page in PAGES.glob("*.md")}
    assert pages <= {"index", *PASSES, *PIPELINES}


def test_the_index_links_every_page() -> None:
    linked = set(re.findall(r"\]\(([\w-]+)\.md\)", (PAGES / "index.md").read_text()))
    assert linked >= {page.stem for page in PAGES.glob("*.md")} - {"index"}
