"""How much of the kernels is shared, and what a new family costs: `python benchmarks/house.py`.

    python benchmarks/house.py [ROOT]

counts a tree as it lies, of whatever commit. A kernel is a header that no other header includes; a
header is shared if two kernels include it, directly or not. A family is a folder with a
`family.py`. Blank lines and comments count as lines.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

CODE = (
    "analysis",
    "api",
    "cli",
    "dialects",
    "frontends",
    "lowering",
    "passes",
    "reference",
    "runtime",
)
INCLUDE = re.compile(r'#include "([^"]+\.cuh)"')
MOST_FILES = 15
FEWEST_NAMED = 3
"""Families that a file outside of them names before it counts as a list of them."""


def text_of(path: Path) -> str:
    """What a file says."""
    return path.read_text(encoding="utf-8")


def lines(path: Path) -> int:
    """Lines of a file."""
    return len(text_of(path).splitlines())


def python_files(root: Path) -> list[Path]:
    """The modules of the package."""
    return sorted(path for name in CODE for path in (root / name).rglob("*.py"))


def kernels(root: Path) -> dict[Path, set[Path]]:
    """The headers that each kernel includes, directly or not, and itself."""
    headers = sorted((root / "lowering").rglob("*.cuh"))

    def named(name: str, by: Path) -> Path | None:
        near = by.parent / name
        far = (path for path in headers if path.as_posix().endswith(f"/{name}"))
        return near if near in headers else next(far, None)

    includes = {
        path: {header for name in INCLUDE.findall(text_of(path)) if (header := named(name, path))}
        for path in headers
    }
    found = {path: {path} for path in headers if all(path not in i for i in includes.values())}
    for reached in found.values():
        waiting = list(reached)
        while waiting:
            further = includes[waiting.pop()] - reached
            reached |= further
            waiting += further
    return found


def imports(root: Path) -> dict[str, set[str]]:
    """The modules that each module imports, at once or later, but for the sake of types."""
    paths = {path.relative_to(root).with_suffix("").parts: path for path in python_files(root)}
    modules = {
        ".".join(("convir", *parts)).removesuffix(".__init__"): path
        for parts, path in paths.items()
    }
    found: dict[str, set[str]] = {}
    for name, path in modules.items():
        nodes: list[ast.AST] = [ast.parse(text_of(path))]
        targets: set[str] = set()
        while nodes:
            node = nodes.pop()
            if isinstance(node, ast.ImportFrom) and node.module:
                names = (f"{node.module}.{each.name}" for each in node.names)
                targets |= {each if each in modules else node.module for each in names}
            for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            nodes += [] if for_types else ast.iter_child_nodes(node)
        found[name] = {target for target in targets if target in modules} - {name}
    return found


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Sets of modules that import each other, by Tarjan's strongly connected components."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in graph[name]:
            if other not in index:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == index[name]:
            circle = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            found.extend([sorted(circle)] if len(circle) > 1 else [])

    sys.setrecursionlimit(10_000)
    for name in graph:
        if name not in index:
            visit(name)
    return found


def main() -> None:
    """Print the tables."""
    root = Path(*sys.argv[1:2] or Path(__file__).parents[1:2]).resolve()
    reached = kernels(root)
    headers = set[Path]().union(*reached.values())
    total = sum(map(lines, headers))
    shared = {path for path in headers if sum(path in each for each in reached.values()) > 1}
    part = sum(map(lines, shared))
    print(f"device code: {total} lines, {part} ({part / total:.0%}) of two kernels or more")
    families = sorted(path.parent for path in (root / "lowering").rglob("*/family.py"))
    families = [folder for folder in families if any(folder.glob("*.cuh"))]
    if families:
        print(f"\n{'family':26}{'.cuh':>7}{'.py':>7}{'files':>7}{'included':>10}")
    for folder in families:
        own, python = set(folder.rglob("*.cuh")), list(folder.rglob("*.py"))
        included = set[Path]().union(*(each for root, each in reached.items() if root in own)) - own
        device, host = sum(map(lines, own)), sum(map(lines, python))
        files = len(own) + len(python)
        print(f"{folder.name:26}{device:7}{host:7}{files:7}{sum(map(lines, included)):10}")
    outside = [path for path in python_files(root) if path.parent not in families]
    naming = {
        path.relative_to(root).as_posix()
        for path in [*outside, root / "pyproject.toml"]
        if sum(f".{folder.name}" in text_of(path) for folder in families) >= FEWEST_NAMED
    }
    print(f"\nfiles that list families: {len(naming)}", *sorted(naming))
    found = circles(imports(root))
    print(f"circles of imports: {len(found)}")
    for circle in found:
        print("  " + ", ".join(circle))
    folders = {path.parent for path in [*python_files(root), *headers]}
    sizes = {folder: sum(path.is_file() for path in folder.iterdir()) for folder in folders}
    full = sorted((size, folder) for folder, size in sizes.items() if size > MOST_FILES)
    print(f"folders of more than {MOST_FILES} files: {len(full)} of {len(sizes)}")
    for size, folder in reversed(full):
        print(f"  {size:3} {folder.relative_to(root)}")


if __name__ == "__main__":
    main()
