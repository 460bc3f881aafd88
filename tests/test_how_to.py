"""docs/how-to/: what the pages say to write is written, and what they say to run is run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from how_to import LINK, ROOT, added_files, blocks, changed, follow, output_of

if TYPE_CHECKING:
    from pathlib import Path

ELSEWHERE = {"add-a-kernel-family"}
"""Pages with a test of their own."""
NEEDED = {"add-a-benchmark": "torch", "add-a-frontend-operator": "onnx"}
"""What a page's commands import besides what the package needs."""
PAGES = [
    page for page in sorted((ROOT / "docs" / "how-to").glob("*.md")) if page.stem not in ELSEWHERE
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_following_a_page_gives_what_it_shows(page: Path, tmp_path: Path) -> None:
    if page.stem in NEEDED:
        pytest.importorskip(NEEDED[page.stem])
    text = page.read_text(encoding="utf-8")
    assert not [name for name in added_files(text) if (ROOT / name).exists()]
    folder = follow(text, tmp_path / "tree")
    modules = [name for name in added_files(text) if name.endswith(".py")]
    for check in (["ruff", "check", *modules], ["ruff", "format", "--check", *modules]):
        output_of(check, folder, [])
    commands = [block for block in blocks(text) if block.language == "sh"]
    assert commands
    for block in commands:
        output = output_of(["bash", "-euc", block.text], folder, [folder / LINK])
        assert block.printed is None or output == block.printed


def test_a_change_that_fits_nowhere_or_twice_is_refused() -> None:
    assert changed("a\nb\na\nc\n", " a\n-c\n+d\n") == "a\nb\na\nd\n"
    for change in (" a\n+x\n", " e\n+x\n"):
        with pytest.raises(AssertionError, match="not there once"):
            changed("a\nb\na\nc\n", change)
