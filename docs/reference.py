"""The reference of the API, a page for each module: `python docs/reference.py FOLDER [MODULE…]`.

pdoc makes it of the docstrings. Names that packages load on first use are loaded first, since pdoc
looks at what is there.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import TYPE_CHECKING

import pdoc
import pdoc.render

import convir

if TYPE_CHECKING:
    from collections.abc import Sequence

EXPECTED = (
    # A package without `__all__` brings its modules along, which are then named twice.
    "The module specification",
    # Of names that only checkers import; the annotation is shown as it is written.
    "Error parsing type annotation",
)
"""How warnings of pdoc begin that say nothing is wrong."""


def module_names() -> list[str]:
    """Every module of the package, the package first."""
    inside = walk_packages(convir.__path__, f"{convir.__name__}.")
    return [convir.__name__, *(module.name for module in inside)]


def load_names(module: str) -> None:
    """Make what a module offers attributes of it."""
    package = import_module(module)
    for name in getattr(package, "__all__", ()):
        setattr(package, name, getattr(package, name))


def main(folder: Path, modules: Sequence[str]) -> None:
    """Write the pages of some modules, or of all, into a folder, which need not be there."""
    names = modules or module_names()
    for name in names:
        load_names(name)
    pdoc.render.configure(docformat="google", show_source=False)
    for expected in EXPECTED:
        warnings.filterwarnings("ignore", expected, UserWarning)
    pdoc.pdoc(*names, output_directory=folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
