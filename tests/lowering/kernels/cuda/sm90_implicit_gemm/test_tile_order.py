"""Which block computes which tiles of a wgmma contraction."""

from __future__ import annotations

import re

from contraction_readings import dgrad_line, reading
from hypothesis import given
from hypothesis import strategies as st

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.sm90_implicit_gemm import candidates as sm90_candidates
from convir.lowering.kernels.cuda.sm90_implicit_gemm import launch as wgmma
from convir.lowering.kernels.cuda.sm90_implicit_gemm.tile_order import (
    MOST_ORDERED,
    Tiles,
    busiest_cycles,
    tile_order_of,
)
from convir.lowering.kernels.target import DEFAULT_TARGET

GROUPS = st.lists(
    st.builds(Tiles, st.integers(1, 200), st.floats(1.0, 100.0)), min_size=1, max_size=4
)


@given(GROUPS, st.integers(1, 140))
def test_every_tile_has_one_turn(tiles: list[Tiles], blocks: int) -> None:
    tile_order = tile_order_of(tiles, blocks)
    count = sum(group.count for group in tiles)
    if tile_order is None:
        assert len(tiles) == 1 or count > MOST_ORDERED * blocks
        return
    assert sorted(tile for mine in tile_order for tile in mine) == list(range(count))
    # In a launch of as many blocks as there are tiles, none is without.
    assert all(mine for mine in tile_order[:count])


@given(GROUPS, st.integers(1, 140))
def test_no_block_is_busier_than_one_tile_above_the_mean(tiles: list[Tiles], blocks: int) -> None:
    if tile_order_of(tiles, blocks) is None:
        return
    mean = sum(group.count * group.cycles for group in tiles) / blocks
    longest = max(group.cycles for group in tiles)
    assert busiest_cycles(tiles, blocks) <= mean + longest + 1e-6


def test_long_tiles_are_not_followed_by_those_of_every_phase() -> None:
    # 72, 156 and 86 tiles of 16, 8 and 4 chunks: in rounds, 22 blocks get one of each.
    tiles = [Tiles(72, 16.0), Tiles(156, 8.0), Tiles(86, 4.0)]
    assert busiest_cycles(tiles, 132) == 24.0
    alike = [Tiles(314, 8.0)]
    assert tile_order_of(alike, 132) is None
    assert busiest_cycles(alike, 132) == 24.0


def test_only_phases_that_differ_have_a_table() -> None:
    def tile_order(line: str) -> int:
        found = reading(line)
        configs = sm90_candidates.plan(found.contraction, found.epilogue, DEFAULT_TARGET)
        assert not isinstance(configs, Refusal)
        plans = [
            wgmma.kernels(found.contraction, found.epilogue, config, DEFAULT_TARGET)
            for config in configs
        ]
        sources = [plan.kernels[0].source for plan in plans if not isinstance(plan, Refusal)]
        return max(int(re.findall(r"kOrdered = (\d+);", source)[0]) for source in sources)

    assert tile_order(dgrad_line(32, 256, 256, (25, 25), 3, 1, 2)) > 1
    assert tile_order(dgrad_line(32, 256, 256, (24, 24), 4, 1, 2)) == 0
    assert tile_order(dgrad_line(32, 256, 256, (24, 24), 3, 1, 1)) == 0
