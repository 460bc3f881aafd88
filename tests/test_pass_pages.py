"""Every pass has a page of one shape, whose example is executed, and the index links all pages."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

import convir
from convir.dialects.context import read_module
from convir.passes import run
from convir.passes.manager.registry import CONVIR_PASSES, LOWERING_PASSES, load_pass
from convir.passes.pipelines import PIPELINES

PAGES = Path(convir.__file__).parent / "docs" / "passes"
pytestmark = pytest.mark.fast

PASSES = (*CONVIR_PASSES, *LOWERING_PASSES)
HEADINGS = ("Before and after", "When it fires", "Why it refuses", "Cost", "Checked by")
"""The one shape of a pass's page, in order."""
OLDER = {"select-kernels": {"gpu"}, "convert-to-rt": {"gpu"}}
"""Older spellings of options, which a page may leave out."""
MODULE = re.compile(r"^```mlir\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PIPELINE = re.compile(r"^becomes, by `([^`]+)`,$", re.MULTILINE)
COMMAND = re.compile(r"^    convir-opt .*-p ('[^']+'|\S+)", re.MULTILINE)


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
    assert str(read_module(before)) != str(read_module(after))
    assert str(run(before, pipeline[1].strip("'")).module) == str(read_module(after))


def test_every_page_is_of_a_pass_or_a_pipeline() -> None:
    pages = {page.stem for page in PAGES.glob("*.md")}
    assert pages <= {"index", *PASSES, *PIPELINES}


def test_the_index_links_every_page() -> None:
    linked = set(re.findall(r"\]\(([\w-]+)\.md\)", (PAGES / "index.md").read_text()))
    assert linked >= {page.stem for page in PAGES.glob("*.md")} - {"index"}


@pytest.mark.parametrize("name", PASSES)
def test_the_index_says_what_the_page_says(name: str) -> None:
    statement = (PAGES / f"{name}.md").read_text().split("\n")[2]
    index = " ".join((PAGES / "index.md").read_text().split())
    assert f"- [{name}]({name}.md): {statement}" in index


@pytest.mark.parametrize("name", PASSES)
def test_a_page_names_the_options_of_its_pass(name: str) -> None:
    text = (PAGES / f"{name}.md").read_text()
    section = text.partition("\n### Options\n")[2].partition("\n## ")[0]
    heads = re.findall(r"^- (`[^:]*):", section, re.MULTILINE)
    options = {option for head in heads for option in re.findall(r"`([\w-]+)(?:=\w+)?`", head)}
    known = {each.name.replace("_", "-") for each in fields(load_pass(name))}
    assert options == known - OLDER.get(name, set())
