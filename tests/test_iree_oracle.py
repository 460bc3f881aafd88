# pyright: reportMissingModuleSource=false, reportUnknownMemberType=false
"""IREE as an oracle: it accepts what the tools print, and computes what the reference computes."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from bisect import bisect_right
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import pytest

from convir.cli.opt import main
from convir.dialects.context import read_module
from convir.lowering.kernels.target import named
from convir.passes import run
from convir.reference import evaluate

if TYPE_CHECKING:
    from collections.abc import Iterable

Array = npt.NDArray[Any]

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("passes", "dialects")

SEPARATOR = "// -----\n"

OWN_OPS = re.compile(r'(?:^|[\s"=(])(?:conv|kernel|rt)\.[a-z]', re.MULTILINE)
"""Ops, types and attributes of our own dialects, which IREE does not know."""

NO_MODULE = {"--verify-diagnostics", "--allow-unregistered-dialect"}
"""Options under which what is printed is not a module, or not one that IREE could know."""

PROCESSES = 2


def iree_tool(name: str) -> str:
    """The path of one of IREE's tools, which its packages put beside the running Python."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed (iree-base-compiler, iree-base-runtime)")
    return found


@dataclass(frozen=True)
class Chunk:
    """One module that a lit test prints."""

    origin: str
    text: str


def commands(lit_file: Path) -> list[list[str]]:
    """The arguments of each `convir-opt FILE` in the test that is to succeed and print a module."""
    found: list[list[str]] = []
    for line in lit_file.read_text().splitlines():
        if (match := re.match(r"//\s*RUN:\s*(.*)", line)) is None:
            continue
        command = match[1].split("|")[0]
        command = command.replace("%S", str(lit_file.parent)).replace("%s", str(lit_file))
        command = command.replace("%h200-costs", str(named("h200").costs))
        tool, *words = shlex.split(command)
        reads_file = any(word.endswith(".mlir") for word in words)
        if tool == "convir-opt" and reads_file and not NO_MODULE.intersection(words):
            found.append(list(_without_outputs(words)))
    return found


def _without_outputs(words: list[str]) -> Iterable[str]:
    skip = False
    for word in words:
        if skip or word == "-o":
            skip = not skip
            continue
        if word == "--remarks" or ">" in word:
            continue
        yield word


def printed_modules(tmp_path: Path) -> list[Chunk]:
    """Every module that the positive lit tests print and that is free of our own dialects."""
    chunks: dict[str, Chunk] = {}
    for folder in FOLDERS:
        for lit_file in sorted((ROOT / "lit" / folder).rglob("*.mlir")):
            for arguments in commands(lit_file):
                out = tmp_path / "out.mlir"
                assert main([*arguments, "-o", str(out)]) == 0
                for part, text in enumerate(out.read_text().split(SEPARATOR)):
                    if OWN_OPS.search(text) is None:
                        origin = f"convir-opt {shlex.join(arguments)} (module {part})"
                        chunks.setdefault(text, Chunk(origin, text))
    return list(chunks.values())


def rejected(chunks: list[Chunk], scratch: Path) -> list[str]:
    """What `iree-opt` says against each of the modules, all read by one process."""
    starts: list[int] = []
    line = 1
    for chunk in chunks:
        starts.append(line)
        line += chunk.text.count("\n") + (not chunk.text.endswith("\n")) + 1
    scratch.write_text(
        SEPARATOR.join(chunk.text + "\n" * (not chunk.text.endswith("\n")) for chunk in chunks)
    )
    command = [iree_tool("iree-opt"), "--split-input-file", str(scratch), "-o", "/dev/null"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    errors = re.findall(rf"{re.escape(str(scratch))}:(\d+):\d+: error: (.*)", done.stderr)
    if done.returncode != 0 and not errors:
        return [done.stderr]
    return [
        f"{chunks[bisect_right(starts, int(number)) - 1].origin}: {message}"
        for number, message in errors
    ]


def test_iree_opt_accepts_what_lit_tests_print(tmp_path: Path) -> None:
    iree_tool("iree-opt")
    chunks = printed_modules(tmp_path)
    assert chunks
    batches = [chunks[start::PROCESSES] for start in range(PROCESSES)]
    scratches = [tmp_path / f"batch{number}.mlir" for number in range(PROCESSES)]
    with ThreadPoolExecutor(PROCESSES) as pool:
        complaints = [line for lines in pool.map(rejected, batches, scratches) for line in lines]
    assert not complaints, "\n".join(complaints)


def test_a_rejected_module_is_traced_to_its_test(tmp_path: Path) -> None:
    good = Chunk("good", "func.func @f() {\n  return\n}\n")
    bad = Chunk("bad", "func.func @f() {\n  %0 = arith.constant 0 : tensor<4xf32>\n  return\n}\n")
    (complaint,) = rejected([good, bad, good], tmp_path / "batch.mlir")
    assert complaint.startswith("bad: ")


BACKWARD_1X1 = """
func.func @main(%dy: tensor<2x5x4x24xf32>, %w: tensor<24x1x1x16xf32>) -> tensor<2x10x8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : tensor<2x10x8x24xf32>
  %scattered = tensor.insert_slice %dy into %zeros[0, 0, 0, 0] [2, 5, 4, 24] [1, 2, 2, 1]
    : tensor<2x5x4x24xf32> into tensor<2x10x8x24xf32>
  %empty = tensor.empty() : tensor<2x10x8x16xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x10x8x16xf32>) -> tensor<2x10x8x16xf32>
  %dx = linalg.generic {
      indexing_maps = [affine_map<(n, h, w, c, k) -> (n, h, w, k)>,
                       affine_map<(n, h, w, c, k) -> (k, 0, 0, c)>,
                       affine_map<(n, h, w, c, k) -> (n, h, w, c)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%scattered, %w : tensor<2x10x8x24xf32>, tensor<24x1x1x16xf32>)
      outs(%init : tensor<2x10x8x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %c, %m : f32
    linalg.yield %s : f32
  } -> tensor<2x10x8x16xf32>
  return %dx : tensor<2x10x8x16xf32>
}
"""
"""Stride 2, one tap: the swap takes it."""

BACKWARD_3X3_GROUPED = """
func.func @main(%dy: tensor<2x5x5x4x8xf32>, %w: tensor<4x8x3x3x8xf32>) -> tensor<2x10x10x4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %c2 = arith.constant 2 : index
  %zeros = arith.constant dense<0.0> : tensor<2x12x12x4x8xf32>
  %scattered = tensor.insert_slice %dy into %zeros[0, 1, 1, 0, 0] [2, 5, 5, 4, 8] [1, 2, 2, 1, 1]
    : tensor<2x5x5x4x8xf32> into tensor<2x12x12x4x8xf32>
  %flipped_empty = tensor.empty() : tensor<4x8x3x3x8xf32>
  %flipped = linalg.generic {
      indexing_maps = [affine_map<(g, c, r, s, k) -> (g, c, r, s, k)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
      outs(%flipped_empty : tensor<4x8x3x3x8xf32>) {
  ^bb0(%out: f32):
    %g = linalg.index 0 : index
    %c = linalg.index 1 : index
    %r = linalg.index 2 : index
    %s = linalg.index 3 : index
    %k = linalg.index 4 : index
    %fr = arith.subi %c2, %r : index
    %fs = arith.subi %c2, %s : index
    %e = tensor.extract %w[%g, %k, %fr, %fs, %c] : tensor<4x8x3x3x8xf32>
    linalg.yield %e : f32
  } -> tensor<4x8x3x3x8xf32>
  %empty = tensor.empty() : tensor<2x10x10x4x8xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x10x10x4x8xf32>)
    -> tensor<2x10x10x4x8xf32>
  %dx = linalg.generic {
      indexing_maps = [affine_map<(n, h, w, g, c, r, s, k) -> (n, h + r, w + s, g, k)>,
                       affine_map<(n, h, w, g, c, r, s, k) -> (g, c, r, s, k)>,
                       affine_map<(n, h, w, g, c, r, s, k) -> (n, h, w, g, c)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel",
                        "reduction", "reduction", "reduction"]}
      ins(%scattered, %flipped : tensor<2x12x12x4x8xf32>, tensor<4x8x3x3x8xf32>)
      outs(%init : tensor<2x10x10x4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<2x10x10x4x8xf32>
  return %dx : tensor<2x10x10x4x8xf32>
}
"""
"""Stride 2, nine taps, groups: the scatter becomes a generic."""

STRIDE_3_CHWF = """
func.func @main(%dy: tensor<1x4x3x8xf32>, %w: tensor<8x3x3x16xf32>) -> tensor<1x12x9x16xf32> {
  %zero = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : tensor<1x14x11x8xf32>
  %scattered = tensor.insert_slice %dy into %zeros[0, 2, 1, 0] [1, 4, 3, 8] [1, 3, 3, 1]
    : tensor<1x4x3x8xf32> into tensor<1x14x11x8xf32>
  %empty = tensor.empty() : tensor<1x12x9x16xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x12x9x16xf32>) -> tensor<1x12x9x16xf32>
  %dx = linalg.generic {
      indexing_maps = [affine_map<(n, h, w, f, r, s, c) -> (n, h + r, w + s, c)>,
                       affine_map<(n, h, w, f, r, s, c) -> (c, r, s, f)>,
                       affine_map<(n, h, w, f, r, s, c) -> (n, h, w, f)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel",
                        "reduction", "reduction", "reduction"]}
      ins(%scattered, %w : tensor<1x14x11x8xf32>, tensor<8x3x3x16xf32>)
      outs(%init : tensor<1x12x9x16xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x12x9x16xf32>
  return %dx : tensor<1x12x9x16xf32>
}
"""
"""Stride 3, so that the scatter divides, and a filter whose channels come first."""


def computed_by_iree(text: str, args: list[Array]) -> Array:
    """What IREE's CPU backend computes for `@main`."""
    compiler = pytest.importorskip("iree.compiler.tools", reason="needs iree-base-compiler")
    runtime = pytest.importorskip("iree.runtime", reason="needs iree-base-runtime")
    binary = cast(
        "bytes",
        compiler.compile_str(
            text,
            target_backends=["llvm-cpu"],
            extra_args=["--iree-llvmcpu-target-cpu=generic"],
        ),
    )
    module = runtime.load_vm_flatbuffer(binary, driver="local-sync")
    return np.asarray(module.main(*args).to_host())


def input_shapes(text: str) -> list[tuple[int, ...]]:
    """The shapes of the arguments of `@main`, all of them static f32 tensors."""
    signature = text.split("->", maxsplit=1)[0]
    return [
        tuple(int(size) for size in sizes.split("x"))
        for sizes in re.findall(r"tensor<([\dx]+)xf32>", signature)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(BACKWARD_1X1, {"insert_slice"}, id="1x1 stride 2"),
        pytest.param(BACKWARD_3X3_GROUPED, {"pad", "insert_slice"}, id="3x3 grouped stride 2"),
        pytest.param(STRIDE_3_CHWF, {"transpose", "insert_slice"}, id="3x3 stride 3 CHWF"),
    ],
)
def test_backward_data_computes_the_same_under_iree(text: str, expected: set[str]) -> None:
    rewritten = run(text, "backward-data").module
    names = {op.name.split(".")[-1] for op in rewritten.walk()}
    assert expected <= names
    rng = np.random.default_rng(0)
    args = [rng.integers(-4, 5, shape).astype(np.float32) for shape in input_shapes(text)]
    (reference,) = evaluate(read_module(text), "main", args)
    for name, version in (("before", text), ("after", str(rewritten))):
        computed = computed_by_iree(version, args)
        np.testing.assert_array_equal(computed, reference, err_msg=name, strict=True)
