"""Imports point one way along the data path, and never back."""

from __future__ import annotations

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Container

pytestmark = pytest.mark.fast

ROOT = Path(__file__).parents[1]

KNOWS = {
    "dialects": (),
    "analysis": ("dialects",),
    "frontends": ("dialects", "analysis"),
    "reference": ("dialects", "analysis"),
    "passes": ("dialects", "analysis", "frontends", "reference"),
    "lowering": ("dialects", "analysis", "passes"),
    "runtime": ("dialects", "analysis", "lowering", "reference"),
    "api": ("dialects", "analysis", "frontends", "passes", "lowering", "runtime", "reference"),
    "report": (
        "dialects",
        "analysis",
        "frontends",
        "passes",
        "lowering",
        "runtime",
        "reference",
        "api",
    ),
    "pytorch": ("dialects", "analysis", "frontends", "lowering", "runtime", "api"),
    "cli": (
        "dialects",
        "analysis",
        "frontends",
        "passes",
        "lowering",
        "runtime",
        "reference",
        "api",
        "report",
    ),
}
"""What each folder may import beside itself."""

ENTRIES = {
    "frontends/onnx_backend.py": {"api", "runtime"},
    "passes/manager/pass_manager.py": {
        "runtime"
    },  # `convir.passes.run` executes where it is told to check
}
"""Modules that others call by a name they expect, and what they may import beside that."""

COMPOSED = {
    "depthwise_channels_last": {"implicit_gemm"},
    "attention": {"implicit_gemm", "reduction"},
    "amx_implicit_gemm": {"implicit_gemm"},
    "amx_wgrad": {"implicit_gemm", "wgrad"},
}
"""Families of the host whose kernel is made of parts of other families', and these."""

KERNELS = ROOT / "lowering" / "kernels" / "cuda"
DEVICE_LAYERS = (
    "ptx",
    "arith",
    "pipeline",
    "load",
    "mma",
    "schedule",
    "reduce",
    "epilogue",
    "generated",
)
"""The folders of device code that families share; each includes those before it and itself."""


def imported_folders(path: Path) -> set[str]:
    """The folders of convir that a module imports from, at any depth of its code."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names += [a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names]
    return {name.split(".")[1] for name in names if name.startswith("convir.")}


def modules() -> dict[str, Path]:
    """The modules of the package by name."""
    paths = [path for folder in KNOWS for path in sorted((ROOT / folder).rglob("*.py"))]
    names = {path: path.relative_to(ROOT).with_suffix("").parts for path in paths}
    return {
        ".".join(("convir", *parts)).removesuffix(".__init__"): path
        for path, parts in names.items()
    }


def imported_modules(path: Path, known: Container[str]) -> set[str]:
    """The modules of the package that a module imports anywhere: for types alone, and in functions
    too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            found |= {name if name in known else node.module for name in names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name in known}


def test_no_imports_form_a_circle() -> None:
    known = modules()
    graph = {name: imported_modules(path, known) - {name} for name, path in known.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))


@pytest.mark.parametrize("folder", KNOWS)
def test_imports_point_one_way(folder: str) -> None:
    allowed = {folder, *KNOWS[folder]}
    wrong = {
        str(path.relative_to(ROOT)): found
        for path in sorted((ROOT / folder).rglob("*.py"))
        if (
            found := imported_folders(path)
            - allowed
            - ENTRIES.get(str(path.relative_to(ROOT)), set())
        )
    }
    assert not wrong


def test_code_of_host_families_has_layers() -> None:
    """What families share knows none of them, and a family knows those alone that its kernel is
    composed of, which are composed of none."""
    assert not COMPOSED.keys() & set().union(*COMPOSED.values())
    host = ROOT / "lowering" / "kernels" / "host"
    families = {path.parent.name for path in host.glob("*/family.py")}
    own, known = "convir.lowering.kernels.host.", modules()
    wrong = {
        str(path.relative_to(host)): found
        for path in sorted(host.glob("*/*.py"))
        if (
            found := {
                name.removeprefix(own).split(".")[0]
                for name in imported_modules(path, known)
                if name.startswith(own)
            }
            & families - {path.parent.name} - COMPOSED.get(path.parent.name, set())
        )
    }
    assert not wrong


def included_folders(header: Path) -> set[str]:
    """The folders that a header of device code includes from."""
    return set(
        re.findall(r'^#include "([^"/]+)/', header.read_text(encoding="utf-8"), re.MULTILINE)
    )


def test_shared_device_code_has_layers() -> None:
    shared = KERNELS / "include"
    assert {folder.name for folder in shared.iterdir() if folder.is_dir()} == set(DEVICE_LAYERS)
    wrong = {
        str(header.relative_to(shared)): found
        for number, layer in enumerate(DEVICE_LAYERS)
        for header in sorted((shared / layer).glob("*.cuh"))
        if (found := included_folders(header) - set(DEVICE_LAYERS[: number + 1]))
    }
    assert not wrong


def test_device_code_of_a_family_includes_none_of_another() -> None:
    wrong = {
        str(header.relative_to(KERNELS)): found
        for header in sorted(KERNELS.glob("*/*.cuh"))
        if (found := included_folders(header) - {*DEVICE_LAYERS, header.parent.name})
    }
    assert not wrong
