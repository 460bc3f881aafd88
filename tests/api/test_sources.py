"""What `convir.compile` takes a string for, and what it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from convir.api.compile import compile as compile_module

if TYPE_CHECKING:
    from pathlib import Path

TEXT = (
    "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{ {0} func.return %x : tensor<2xf32> }}"
)


def test_one_line_that_is_longer_than_any_path() -> None:
    ops = " ".join(f"%{i} = arith.addf %x, %x : tensor<2xf32>" for i in range(200))
    x = np.ones(2, np.float32)
    np.testing.assert_array_equal(compile_module(TEXT.format(ops), device="host")(x), x)


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    for given in (tmp_path / "none.mlir", str(tmp_path / "none.mlir"), tmp_path / "none"):
        with pytest.raises(FileNotFoundError, match=r"none"):
            compile_module(given, device="host")


@pytest.mark.parametrize("threads", [0, -1])
def test_no_threads(threads: int) -> None:
    with pytest.raises(ValueError, match=f"threads is {threads}, not at least 1"):
        compile_module(TEXT.format(""), device="host", threads=threads)


def test_a_masked_array_is_refused() -> None:
    program = compile_module(TEXT.format(""), device="host")
    masked = np.ma.masked_array(np.ones(2, np.float32), mask=[True, False])
    with pytest.raises(TypeError, match="argument 0 is a masked array"):
        program(masked)
