"""Pages of docs/how-to/ as what they say to do: in a copy of the tree, made of links.

A fenced block that names a file is that file; ```` ```diff FILE ```` is a change of one that is
there. ```` ```sh ```` is run, and a ```` ```text ```` right behind it is what it prints.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
COPIED = ("pyproject.toml", "lit/lit.cfg.py")
"""Files that look for others beside themselves, links followed."""
LINK = ".link"
"""The folder in which the tree is the package `convir`."""
BLOCK = re.compile(
    r"^(?P<fence>`{3,})(\w+)(?: (\S+))?\n(.*?)^(?P=fence)$", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    file: str
    """What it is, or changes; empty if it is none."""
    text: str
    printed: str | None
    """What the block behind it says that it prints; None if there is none."""


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found = list(BLOCK.finditer(page))
    followers = [*found, None][1:]
    return [
        Block(
            match[2],
            match[3] or "",
            match[4],
            after[4]
            if after
            and after.group(2, 3) == ("text", None)
            and not page[match.end() : after.start()].strip()
            else None,
        )
        for match, after in zip(found, followers, strict=True)
    ]


def added_files(page: str) -> set[str]:
    """The files that a page adds."""
    return {block.file for block in blocks(page) if block.file and block.language != "diff"}


def follow(page: str, folder: Path) -> Path:
    """A copy of the tree, of links, with the files and changes of a page; its folder."""
    named = [block for block in blocks(page) if block.file]
    link(ROOT, folder, [Path(name) for name in (*COPIED, *(block.file for block in named))])
    for name in COPIED:
        (folder / name).write_text((ROOT / name).read_text(encoding="utf-8"), encoding="utf-8")
    (folder / LINK).mkdir()
    (folder / LINK / "convir").symlink_to("..")
    for block in named:
        file = folder / block.file
        text = block.text
        if block.language == "diff":
            old = file if file.exists() else ROOT / block.file
            text = changed(old.read_text(encoding="utf-8"), text)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder


def link(source: Path, target: Path, opened: list[Path]) -> None:
    """A folder of links to what is in another one.

    Args:
        source: the other one.
        target: the folder, made if it is not there.
        opened: paths below it; the folders above those are real, and they themselves left out.
    """
    target.mkdir(exist_ok=True)
    inside: dict[str, list[Path]] = {}
    for path in opened:
        inside.setdefault(path.parts[0], []).append(Path(*path.parts[1:]))
    for path in source.iterdir():
        if path.name.startswith(".") or path.name == "__pycache__":
            continue
        if path.name not in inside:
            (target / path.name).symlink_to(path)
        elif path.is_dir():
            link(path, target / path.name, [each for each in inside[path.name] if each.parts])


def changed(text: str, change: str) -> str:
    """A text with each part of a change, between lines of `@@`, made where it fits, once."""
    for part in re.split(r"^@@.*\n", change, flags=re.MULTILINE):
        lines = part.splitlines(keepends=True)
        before = "".join(line[1:] or "\n" for line in lines if line[0] != "+")
        after = "".join(line[1:] or "\n" for line in lines if line[0] != "-")
        assert text.count(before) == 1, f"not there once:\n{before}"
        text = text.replace(before, after)
    return text


def output_of(command: list[str], folder: Path, paths: list[Path]) -> str:
    """What a command writes, to either stream, in a folder; modules are looked for in `paths`."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
