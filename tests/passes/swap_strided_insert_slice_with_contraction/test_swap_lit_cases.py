"""Every function of the pass's lit files, executed before and after, and read by iree-opt."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp

from convir.dialects.context import read_module
from convir.passes.manager.pass_manager import run
from convir.reference import evaluate
from convir.reference.checking.check import check

PASS = "swap-strided-insert-slice-with-contraction"
LIT = Path(__file__).parents[3] / "lit" / "passes" / PASS
FILES = sorted(LIT.glob(f"{PASS}*.mlir"))
REFUSED = f"{PASS}-refused.mlir"


def cases() -> list[tuple[Path, str]]:
    """The file and the name of every function that is rewritten."""
    return [
        (path, function.sym_name.data)
        for path in FILES
        if path.name != REFUSED
        for function in read_module(path.read_text(), path.name).walk()
        if isinstance(function, FuncOp)
    ]


CASES = cases()


def test_there_are_cases() -> None:
    assert len(FILES) == 5
    assert len(CASES) > 30


@pytest.mark.parametrize(("path", "function"), CASES, ids=[name for _, name in CASES])
def test_result_is_the_same_bit_for_bit(path: Path, function: str) -> None:
    before = read_module(path.read_text(), path.name)
    result = run(before, PASS)
    report = check(before, result.module, function, seed=1)
    assert report.checked, report
    assert report.passed, report
    assert report.exact or "exp" in report.reason, report


def test_each_function_is_rewritten_unless_it_is_of_the_refused() -> None:
    for path in FILES:
        before = read_module(path.read_text(), path.name)
        after = run(before, PASS).module
        for old, new in zip(before.ops, after.ops, strict=True):
            assert (str(old) == str(new)) == (path.name == REFUSED), old


IREE_OPT = Path(sys.executable).with_name("iree-opt")


@pytest.mark.skipif(not IREE_OPT.exists(), reason="iree-base-compiler is not installed")
@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_iree_accepts_the_output(path: Path) -> None:
    text = str(run(read_module(path.read_text(), path.name), PASS).module)
    done = subprocess.run(
        [IREE_OPT, "-"], input=text, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_unrelated_dynamic_sizes_may_differ() -> None:
    path = LIT / f"{PASS}-sources.mlir"
    before = read_module(path.read_text(), path.name)
    after = run(before, PASS).module
    rng = np.random.default_rng(0)
    x = rng.integers(-2, 3, (2, 3, 4)).astype(np.float32)
    w = rng.integers(-2, 3, (4, 5)).astype(np.float32)
    arguments = (x, w, np.int64(2), np.int64(3))
    (expected,) = evaluate(before, "unrelated_dynamic_sizes", arguments)
    (result,) = evaluate(after, "unrelated_dynamic_sizes", arguments)
    assert result.shape == (3, 6, 5)
    np.testing.assert_array_equal(result, expected)
