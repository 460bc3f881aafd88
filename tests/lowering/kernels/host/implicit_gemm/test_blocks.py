"""Reductions in blocks: exact on small integers, and as accurate as sums of their parts."""

from __future__ import annotations

from itertools import pairwise
from math import sqrt
from typing import Any

import numpy as np
import pytest
from host_contractions import TARGETS, Case, reference, run, window

from convir.lowering.kernels.host.code.elements.lanes import Lanes
from convir.lowering.kernels.host.implicit_gemm.blocking import BLOCK_SHARE, MOST, PRODUCTS, block
from convir.lowering.kernels.host.target import target
from convir.runtime.host.contraction import compile_contraction

pytestmark = pytest.mark.fast

THREE, SPREAD = (window(3, 1, 1), window(3, 1, 1)), (window(4, 2, 1), window(4, 2, 1))
ONE = (window(1), window(1))
CUT = {
    "blocks of taps": Case(1, 96, 40, (6, 7), THREE),
    "blocks of channels of a tap": Case(1, 250, 33, (4, 5), THREE),
    "the last block of taps is shorter": Case(1, 60, 64, (5, 6), (window(5, 1, 2), window(1))),
    "the last block of channels is shorter": Case(1, 401, 40, (5, 6), ONE),
    "phases of several numbers of taps": Case(1, 48, 150, (9, 8), (window(5, 2, 2), window(4, 2))),
    "blocks beside zero-filled outputs": Case(1, 20, 400, (9, 11), (window(2, 3), window(2, 4))),
    "transposed": Case(1, 64, 130, (8, 10), SPREAD),
    "results that are copied": Case(1, 64, 40, (6, 7), THREE, orders=(1, 1, 1)),
    "accumulating": Case(1, 100, 64, (5, 6), THREE, accumulate=True),
    "groups": Case(1, 128, 128, (5, 6), THREE, groups=2),
    "more weights than a cache holds": Case(1, 300, 512, (9, 9), THREE),
}


@pytest.mark.parametrize("cpu", TARGETS)
@pytest.mark.parametrize("kind", ["fprop", "dgrad"])
@pytest.mark.parametrize("name", CUT)
def test_cut_sums(name: str, kind: str, cpu: str) -> None:
    run(CUT[name], kind, cpu)


@pytest.mark.parametrize("cpu", TARGETS)
@pytest.mark.parametrize(
    ("channels", "windows"), [(1, THREE), (8, THREE), (96, THREE), (250, THREE), (4000, ONE)]
)
def test_a_block_of_weights_stays_in_the_first_cache(channels: int, windows: Any, cpu: str) -> None:
    case, lanes = Case(1, channels, 64, (12, 12), windows), Lanes("f32", target(cpu))
    cuts = block(case.spec("fprop"), lanes)
    taps = case.spec("fprop").taps
    assert 1 <= cuts.tap_block <= taps
    assert 1 <= cuts.in_channel_block <= channels
    products = cuts.tap_block * cuts.in_channel_block
    nbytes = products * cuts.panel_out_channels * lanes.bytes
    # Parts are rounded to the nearest number of them, twice.
    assert products == taps * channels or (
        nbytes <= 1.5**2 * BLOCK_SHARE * lanes.cpu.l1_bytes and products <= 1.5**2 * PRODUCTS
    )


@pytest.mark.parametrize("pixels", [1, 4])
def test_weights_that_one_tile_reads_are_cut_for_their_sums_alone(pixels: int) -> None:
    case, lanes = Case(pixels, 256, 1024, (1, 1), ONE), Lanes("f32", target("x86-64-v4"))
    cuts = block(case.spec("fprop"), lanes)
    assert pixels <= cuts.tile.rows
    assert (cuts.tap_block, cuts.in_channel_block) == (1, 128)


@pytest.mark.parametrize(
    ("cpu", "channels", "rows"),
    [
        ("x86-64-v4", 64, 112),
        ("x86-64-v3", 64, 112),
        ("x86-64-v4-amx", 64, 224),
        ("x86-64-v4-amx", 1024, 112),
    ],
)
def test_a_larger_cache_holds_more_rows_of_an_item(cpu: str, channels: int, rows: int) -> None:
    case = Case(8, channels, channels, (56, 56), ONE)
    cuts = block(case.spec("fprop"), Lanes("f32", target(cpu)))
    longest = max(b - a for a, b in pairwise(cuts.bounds[0]))
    assert rows - cuts.tile.rows < longest <= rows + cuts.tile.rows


def test_what_is_rounded_less_finely_than_it_is_added_up_has_no_more_blocks() -> None:
    lanes = Lanes("f32", target("x86-64-v3"))
    halves = Case(1, 64, 16, (6, 7), THREE, types=("f16", "f16", "f32"))
    floats = Case(1, 64, 16, (6, 7), THREE)
    assert (
        block(halves.spec("fprop"), lanes).tap_block > block(floats.spec("fprop"), lanes).tap_block
    )


@pytest.mark.parametrize(
    ("channels", "windows"),
    [(64, THREE), (512, THREE), (2000, ONE), (3, (window(15, 1, 7),) * 2)],
)
def test_errors_grow_with_the_blocks(channels: int, windows: Any) -> None:
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
    part = min(products, 1.5 * PRODUCTS)
    roundings = sqrt(part / 2 + products / part / 2)
    error = float(np.sqrt(np.mean((y - exact) ** 2) / np.mean(exact**2)))
    assert error < 0.5 * 2**-24 * roundings


@pytest.mark.parametrize("channels", [*range(8, 320, 24), 512])
@pytest.mark.parametrize("taps", [2, 3, 5])
def test_no_sum_has_many_more_products_than_wanted(channels: int, taps: int) -> None:
    spec = Case(1, channels, 64, (16, 16), (window(taps, 1, 1), window(taps, 1, 1))).spec("fprop")
    cuts = block(spec, Lanes("f32", target("x86-64-v3")))
    assert cuts.tap_block * cuts.in_channel_block <= MOST * PRODUCTS
