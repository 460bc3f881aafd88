"""Check a built wheel: `python tests/wheel.py dist/convir-*.whl`.

The wheel must hold exactly the modules and data of the tree, and the installed package must
import and run outside of it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
# Folders and files of the tree that the package leaves out on purpose.
NOT_SHIPPED = {"tests", "lit", "docs", "benchmarks", "build", "dist", "pyproject.toml"}
SHIPPED_SUFFIXES = (".py", ".cuh", ".ll", ".jsonl", ".toml", ".mlir", ".typed")
# Examples of MLIR are the demo's; those in Python are for readers of the tree.
EXAMPLES, EXAMPLE_SUFFIX = "examples", ".mlir"
SMOKE = """
import convir, pathlib, sys
assert pathlib.Path(convir.__file__).is_relative_to(sys.prefix), convir.__file__
from convir.dialects.context import parse_module
import convir.passes
from convir.lowering.kernels import target
assert target.named("h200") == target.DEFAULT_TARGET
parse_module("func.func @f() { return }").verify()
from convir.cli.demo import main
assert main([]) == 0
"""


def shipped_modules() -> set[str]:
    """The modules of the tree that the wheel must hold, as paths under `convir/`."""
    found = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.suffix in SHIPPED_SUFFIXES)
    return {
        f"convir/{path}"
        for path in found
        if path.parts[0] not in NOT_SHIPPED and not path.parts[0].startswith(".")
        if path.parts[0] != EXAMPLES or path.suffix == EXAMPLE_SUFFIX
    }


def main(wheel: Path) -> int:
    """Compare the wheel with the tree, install it beside our dependencies, and use it."""
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.endswith(SHIPPED_SUFFIXES)}
    expected = shipped_modules()
    if packed != expected:
        sys.stderr.write(f"missing from the wheel: {sorted(expected - packed)}\n")
        sys.stderr.write(f"not in the tree: {sorted(packed - expected)}\n")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        env = Path(folder) / "env"
        venv.create(env, with_pip=False)
        site = next((env / "lib").glob("python*/site-packages"))
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--no-deps", "--target", str(site), str(wheel)], check=True)
        # The dependencies come from the running environment, the package from the wheel alone.
        dependencies = next(p for p in sys.path if p.endswith("site-packages"))
        linked = Path(dependencies)
        for entry in linked.iterdir():
            if "convir" not in entry.name and not (site / entry.name).exists():
                (site / entry.name).symlink_to(entry)
        subprocess.run([str(env / "bin" / "python"), "-c", SMOKE], cwd=folder, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
