"""The style sheets and scripts of pages, a file for each part."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

STYLES = ("base.css", "report.css")
SCRIPTS = (
    "inflate.js",
    "text.js",
    "diff.js",
    "steps.js",
    "rove.js",
    "graph.js",
    "kernel.js",
    "main.js",
)
"""In the order in which they stand in the page, as one script."""


@cache
def asset(name: str) -> str:
    """The text of a file that pages hold."""
    return files("convir.report.page.assets").joinpath(name).read_text(encoding="utf-8")
