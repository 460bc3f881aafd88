"""Contractions on tile registers, exact on small integers, and bit for bit the instruction's.

Where the CPU of a test has no AMX, only models of its instructions run: the test's id says which.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from host_contractions import BFLOAT, BYTES, Case, run, window
from tile_instructions import tile_bf16
from tile_kernels import modelled, native

from convir.lowering.kernels.host.target import X86_64_V4_AMX, target

if TYPE_CHECKING:
    from tile_kernels import Compiled

CASES = {
    "whole lines": Case(2, 64, 64, (5, 6), (window(3, 1, 1), window(3, 1, 1))),
    "several blocks of taps": Case(1, 128, 40, (9, 11), (window(3, 1, 1), window(3, 1, 1))),
    "parts of a tap": Case(1, 1280, 20, (3, 5), (window(1), window(2, 1, 1))),
    "channels that are no lines": Case(1, 20, 33, (9, 11), (window(3, 1, 1), window(3, 1, 1))),
    "an odd channel": Case(2, 3, 17, (12, 13), (window(7, 2, 3), window(7, 2, 3))),
    "one channel": Case(1, 1, 1, (4, 5), (window(2), window(3))),
    "strided": Case(1, 64, 33, (14, 15), (window(3, 2, 1), window(3, 2, 1))),
    "phases without taps": Case(2, 64, 48, (7, 9), (window(1, 2), window(1, 3))),
    "more columns than an item": Case(1, 64, 1100, (8, 9), (window(1), window(1))),
    "many rows": Case(1, 64, 16, (40, 50), (window(1), window(3, 1, 1))),
    "one row more than a register": Case(1, 64, 32, (17,), (window(1),)),
    "groups": Case(1, 128, 96, (6, 7), (window(3, 1, 1), window(3, 2, 1)), groups=2),
    "narrow groups": Case(1, 128, 64, (6, 7), (window(3, 1, 1), window(3, 2, 1)), groups=16),
    "groups that fill no line": Case(1, 30, 45, (6, 7), (window(3, 1, 1), window(2)), groups=3),
    "three dimensions": Case(1, 64, 6, (5, 6, 7), (window(3, 2, 1), window(2, 1, 1), window(1, 2))),
    "dilated": Case(1, 64, 9, (13, 12), (window(3, 1, 2, 2), window(3, 2, 3, 3))),
    "hardly an image inside": Case(1, 64, 4, (3, 4), (window(3, 2, 3), window(3, 1, 4))),
}


both = pytest.mark.parametrize("compiled", [modelled, native])


@both
@pytest.mark.parametrize("kind", ["fprop", "dgrad"])
@pytest.mark.parametrize("name", CASES)
def test_sums_of_small_integers_are_exact(name: str, kind: str, compiled: Compiled) -> None:
    run(replace(CASES[name], types=BFLOAT), kind, X86_64_V4_AMX, compiled=compiled)


@both
@pytest.mark.parametrize("name", ["whole lines", "channels that are no lines", "groups"])
@pytest.mark.parametrize("orders", [(1, 1, 1), (2, 2, 2)])
@pytest.mark.parametrize("kind", ["fprop", "dgrad"])
def test_any_layout_is_read_and_written(
    kind: str, orders: tuple[int, int, int], name: str, compiled: Compiled
) -> None:
    case = replace(CASES[name], types=BFLOAT, orders=orders)
    if name == "groups" and orders == (2, 2, 2):
        pytest.skip("groups of CHWN images do not lie behind each other in a copy")
    run(case, kind, X86_64_V4_AMX, compiled=compiled)


@both
@pytest.mark.parametrize("name", ["whole lines", "strided", "phases without taps"])
@pytest.mark.parametrize("kind", ["fprop", "dgrad"])
def test_sums_are_added_to_results(kind: str, name: str, compiled: Compiled) -> None:
    types = ("bf16", "bf16", "f32") if kind == "fprop" else ("f32", "bf16", "bf16")
    case = replace(CASES[name], types=types, accumulate=True)
    run(case, kind, X86_64_V4_AMX, compiled=compiled)


@both
@pytest.mark.parametrize("fill", [0, 131])
@pytest.mark.parametrize("name", CASES)
def test_sums_of_bytes_are_exact(name: str, fill: int, compiled: Compiled) -> None:
    run(replace(CASES[name], types=BYTES, fill=fill), "fprop", X86_64_V4_AMX, compiled=compiled)


@both
@pytest.mark.parametrize("scale", [1.0, 2.0**-62])
@pytest.mark.parametrize(("c", "k"), [(32, 16), (40, 33), (1280, 20)])
def test_sums_are_those_of_the_instruction(
    c: int, k: int, scale: float, compiled: Compiled
) -> None:
    """Bit for bit, subnormals among them: products are summed up in steps of 32 channels."""
    rng = np.random.default_rng(c)
    x = (rng.standard_normal((16, c)) * scale).astype(ml_dtypes.bfloat16)
    w = (rng.standard_normal((k, c)) * scale).astype(ml_dtypes.bfloat16)
    case = Case(1, c, k, (16,), (window(1),), types=("bf16", "bf16", "f32"))
    kernel = compiled(case.spec("fprop"), target(X86_64_V4_AMX))
    y = np.full((16, k), np.nan, np.float32)
    buffers: Any = {"a": x, "b": w, "c": y}
    buffers |= {name: np.empty(size, np.uint8) for name, size in kernel.workspace.items()}
    addresses: Any = {name: array.ctypes.data for name, array in buffers.items()}
    kernel.pack(addresses, 1)
    kernel.run(addresses, 1)
    deep, wide = -(-c // 32) * 32, -(-k // 16) * 16
    a = np.zeros((16, deep), ml_dtypes.bfloat16)
    b = np.zeros((wide, deep), ml_dtypes.bfloat16)
    a[:, :c], b[:k, :c] = x, w
    expected = np.zeros((16, wide), np.float32)
    for step in range(0, deep, 32):
        pairs = a[:, step : step + 32].reshape(16, 16, 2)
        for column in range(0, wide, 16):
            there = slice(column, column + 16)
            words = b[there, step : step + 32].reshape(16, 16, 2).transpose(1, 0, 2)
            expected[:, there] = tile_bf16(expected[:, there], pairs, words)
    np.testing.assert_array_equal(y.view(np.int32), expected[:, :k].view(np.int32))
