"""Long sums are cut: exact on small integers, and as accurate as sums of their parts."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import pytest
from host_contractions import TARGETS, Case, reference, run, window

from convir.lowering.kernels.host.code.elements.lanes import Lanes
from convir.lowering.kernels.host.implicit_gemm.blocking import block
from convir.lowering.kernels.host.implicit_gemm.partial_sums import PRODUCTS, taps_together
from convir.lowering.kernels.host.target import target
from convir.runtime.host.contraction import compile_contraction

pytestmark = pytest.mark.fast

THREE, SPREAD = (window(3, 1, 1), window(3, 1, 1)), (window(4, 2, 1), window(4, 2, 1))
CUT = {
    "three parts": Case(1, 96, 40, (6, 7), THREE),
    "a part a tap": Case(1, 250, 33, (4, 5), THREE),
    "the last part is shorter": Case(1, 60, 64, (5, 6), (window(5, 1, 2), window(1))),
    "phases of several numbers of taps": Case(1, 48, 150, (9, 8), (window(5, 2, 2), window(4, 2))),
    "parts beside zero-filled outputs": Case(1, 20, 400, (9, 11), (window(2, 3), window(2, 4))),
    "transposed": Case(1, 64, 130, (8, 10), SPREAD),
    "results that are copied": Case(1, 64, 40, (6, 7), THREE, orders=(1, 1, 1)),
    "accumulating": Case(1, 100, 64, (5, 6), THREE, accumulate=True),
    "groups": Case(1, 128, 128, (5, 6), THREE, groups=2),
}


@pytest.mark.parametrize("cpu", TARGETS)
@pytest.mark.parametrize("kind", ["fprop", "dgrad"])
@pytest.mark.parametrize("name", CUT)
def test_cut_sums(name: str, kind: str, cpu: str) -> None:
    run(CUT[name], kind, cpu)


def test_what_is_cut() -> None:
    assert [taps_together(9, depth) for depth in (0, 8, 44, 64, 96, 500)] == [9, 9, 5, 5, 3, 1]
    assert taps_together(0, 64) == 0
    lanes = Lanes("f32", target("x86-64-v3"))
    cuts = block(CUT["three parts"].spec("fprop"), lanes)
    assert (cuts.taps_together, cuts.in_channel_block) == (3, 96)
    assert block(Case(1, 8, 40, (6, 7), THREE).spec("fprop"), lanes).taps_together == 0
    halves = Case(1, 64, 40, (6, 7), THREE, types=("f16", "f16", "f32"))
    assert block(halves.spec("fprop"), lanes).taps_together == 0
    deep = Case(1, 1024, 32, (4, 4), (window(1), window(1)))
    assert block(deep.spec("fprop"), lanes).in_channel_block <= PRODUCTS


@pytest.mark.parametrize(
    ("channels", "windows"),
    [(64, THREE), (512, THREE), (2000, (window(1), window(1))), (3, (window(15, 1, 7),) * 2)],
)
def test_errors_grow_with_the_parts(channels: int, windows: Any) -> None:
    """The sums of random numbers, relative to their own size: n additions in a row leave √(n/2)
    roundings, each of half a unit in the last place at most, and of less than half of that on
    average."""
    case = Case(1, channels, 48, (12, 12), windows)
    rng = np.random.default_rng(0)
    taps = tuple(w.taps for w in windows)
    x = rng.standard_normal((1, 12, 12, channels)).astype(np.float32)
    w = rng.standard_normal((48, *taps, channels)).astype(np.float32)
    y = np.full((1, *case.outputs, 48), np.nan, np.float32)
    kernel = compile_contraction(case.spec("fprop"), target())
    memory = {name: np.empty(size, np.uint8) for name, size in kernel.workspace.items()}
    arrays = {"a": x, "b": w, "c": y, **memory}
    addresses: Any = {name: array.ctypes.data for name, array in arrays.items()}
    kernel.pack(addresses, 1)
    kernel.run(addresses, 1)
    exact = reference(case, "fprop", x.astype(float), w.astype(float), np.zeros(y.shape))
    products = channels * int(np.prod(taps))
    part = min(products, 1.1 * PRODUCTS)
    roundings = sqrt(part / 2 + products / part / 2)
    error = float(np.sqrt(np.mean((y - exact) ** 2) / np.mean(exact**2)))
    assert error < 0.5 * 2**-24 * roundings
