"""Passes, dialects and kernel families of another installed package, found by its entry points."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = '''
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition, result_def
from xdsl.passes import ModulePass
from xdsl.universe import Universe


@irdl_op_definition
class ThingOp(IRDLOperation):
    name = "theirs.thing"
    res = result_def(i32)
    assembly_format = "attr-dict"


@dataclass(frozen=True)
class DropThings(ModulePass):
    """Drops things."""

    name = "drop-things"
    most: int = 8

    def apply(self, ctx, op: ModuleOp) -> None:
        for inner in list(op.walk()):
            if isinstance(inner, ThingOp):
                inner.detach()
                inner.erase()


UNIVERSE = Universe(
    all_dialects={"theirs": lambda: Dialect("theirs", [ThingOp], [])},
    all_passes={"drop-things": lambda: DropThings},
)


def __getattr__(name):
    from convir.lowering.kernels.host.family import OnlyConfig
    from convir.lowering.kernels.host.loops.family import LOOPS

    if name != "LOOPS":
        raise AttributeError(name)
    config = OnlyConfig("their-loops")
    return replace(
        LOOPS, name="their-loops", parse=config.parse, plan=lambda body, cpu: (config,)
    )
'''

ENTRY_POINTS = """[console_scripts]
theirs = their_package:main

[xdsl.universe]
theirs = their_package:UNIVERSE

[convir.host_kernels]
loops = their_package:LOOPS
missing = their_package:NOTHING
"""

MODULE = """func.func @f() {
  %x = theirs.thing
  return
}
"""

NEGATED = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %b = arith.negf %a : tensor<4xf32>
  return %b : tensor<4xf32>
}
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of packages with one that adds to convir."""
    (tmp_path / "their_package.py").write_text(CODE)
    metadata = tmp_path / "theirs-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    (tmp_path / "in.mlir").write_text(MODULE)
    (tmp_path / "negated.mlir").write_text(NEGATED)
    return tmp_path


def run(site: Path, tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A tool in a process that has the packages of `site`."""
    path = os.pathsep.join((str(site), os.environ.get("PYTHONPATH", "")))
    environment = {**os.environ, "PYTHONPATH": path, "XDG_CACHE_HOME": str(site / "cache")}
    command = [sys.executable, "-m", f"convir.cli.{tool}", *arguments]
    if tool == "xdsl-opt":
        command = [str(Path(sys.executable).with_name(tool)), *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=site, env=environment)


@pytest.mark.parametrize("tool", ["opt", "xdsl-opt"])
@pytest.mark.parametrize("text", ["drop-things", "drop-things{most=3}"])
def test_a_pass_and_a_dialect(site: Path, tool: str, text: str) -> None:
    done = run(site, tool, "in.mlir", "-p", text)
    assert done.returncode == 0, done.stderr
    assert "func.func @f" in done.stdout
    assert "theirs.thing" not in done.stdout


def test_they_are_printed_and_listed(site: Path) -> None:
    assert "%x = theirs.thing" in run(site, "opt", "in.mlir").stdout
    assert "theirs.thing" not in run(site, "opt", "in.mlir", "--drop-things").stdout
    assert "  drop-things\n" in run(site, "opt", "--list-passes").stdout
    assert ", theirs, " in run(site, "opt", "--show-dialects").stdout
    wrong = run(site, "opt", "in.mlir", "-p", "drop-thing")
    assert "did you mean 'drop-things'?" in wrong.stderr


def test_a_kernel_family_of_the_host_is_selected_and_runs(site: Path) -> None:
    selected = run(site, "opt", "negated.mlir", "--compile-to=selected")
    assert 'host = "their-loops"' in selected.stdout, selected.stderr
    assert "missing of convir.host_kernels cannot be loaded" in selected.stderr
    checked = run(site, "run", "negated.mlir", "--device", "host", "--check")
    assert checked.returncode == 0, checked.stderr
    assert "agrees" in checked.stdout


def test_other_code_of_a_package_is_another_compiler(site: Path) -> None:
    module = "convir.runtime.cache.fingerprint"
    script = f"from {module} import compiler_fingerprint; print(compiler_fingerprint())"

    def fingerprint() -> str:
        path = os.pathsep.join((str(site), os.environ.get("PYTHONPATH", "")))
        environment = {**os.environ, "PYTHONPATH": path}
        command = [sys.executable, "-c", script]
        return subprocess.run(
            command, capture_output=True, text=True, check=True, env=environment
        ).stdout

    first = fingerprint()
    (site / "their_package.py").write_text(f"{CODE}\n# changed\n")
    assert fingerprint() != first
