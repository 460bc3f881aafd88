"""Configs that older versions wrote mean the same as today's, and a note says how they are
written."""

from __future__ import annotations

import logging

import pytest

from convir.lowering.kernels.cuda import old_spelling
from convir.lowering.kernels.cuda.old_spelling import read_config, todays_words
from convir.lowering.kernels.registry import FAMILIES, family_of

OLD_AND_NEW = [
    (
        "igemm 128x128x32 stages=4 warps=2x4 split=3 copies=ab",
        "sm80_implicit_gemm 128x128x32 stages=4 warps=2x4 splits=3 converted=ab",
    ),
    (
        "wgmma 128x256 stages=4 math=pingpong cluster=1 store=direct:64 blocks=132",
        (
            "sm90_implicit_gemm 128x256 stages=4 schedule=pingpong cluster=1 "
            "store=direct:64 blocks=132"
        ),
    ),
    ("joined stages=6 store=64 blocks=132", "sm90_fused_dgrad stages=6 store=64 blocks=132"),
    (
        "wgmma-wgrad 64x64 stages=8 roles=1:4 cluster=2 partition=split-k:6:slices blocks=132",
        (
            "sm90_wgrad 64x64 stages=8 roles=1:4 cluster=2 partition=split-k:6:reduce-scatter "
            "blocks=132"
        ),
    ),
    (
        (
            "stacked-wgrad 3x3x40 depths=64 step=4x56 slab=2 stages=3 waiting=2 together=1 "
            "x=registers y=bulk roles=4:8 cluster=1 partition=split-k:8:tree blocks=132"
        ),
        (
            "sm90_row_packed_wgrad 3x3x40 tile_m=64 step=4x56 slab=2 stages=3 staging=2 prologue=1 "
            "x=registers y=tma roles=4:8 cluster=1 partition=split-k:8:tree blocks=132"
        ),
    ),
    (
        "taps-wgrad 9x40 stages=4 math=wgmma roles=4:8 partition=data-parallel blocks=132",
        (
            "multi_tap_wgrad 9x40 stages=4 instruction=wgmma roles=4:8 partition=data-parallel "
            "blocks=132"
        ),
    ),
    (
        (
            "relaid ac grouped 64x25 slice=32 rows=2 outputs=2 tiles=1 stages=2 warps=8 loaders=0 "
            "copies=async math=mma blocks=132x1"
        ),
        (
            "layout_conversion ac grouped_direct 64x25 warp_channels=32 rows=2 outputs=2 tiles=1 "
            "stages=2 warps=8 producer_warps=0 copies=async instruction=mma blocks=132x1"
        ),
    ),
    (
        (
            "grouped-wgrad 64x25 slice=32 rows=2 tiles=1 stages=2 warps=4 loaders=0 copies=async "
            "blocks=132x2"
        ),
        (
            "grouped_wgrad 64x25 warp_channels=32 rows=2 tiles=1 stages=2 warps=4 producer_warps=0 "
            "copies=async blocks=132x2"
        ),
    ),
    (
        "grouped-pairs 13 slots=4 parts=4 blocks=132x1",
        "sm90_grouped_direct 13 stages=4 group_blocks=4 blocks=132x1",
    ),
    ("grouped-wgrad-pairs 13 slots=4 blocks=132x1", "sm90_grouped_wgrad 13 stages=4 blocks=132x1"),
    (
        "narrow 73 depth=1 tiles=2 stages=2 warps=8 loaders=0 blocks=132x2",
        "few_output_channels 73 k_warps=1 tiles=2 stages=2 warps=8 producer_warps=0 blocks=132x2",
    ),
    (
        "shallow 2x64 tiles=2 warps=7 blocks=132x3",
        "few_input_channels 2x64 tiles=2 warps=7 blocks=132x3",
    ),
    ("scalar 1x2 warps=4 blocks=132x2", "simt_direct 1x2 warps=4 blocks=132x2"),
    (
        "merged wgmma 64x64 stages=4 math=cooperative cluster=1 store=direct:64 blocks=132",
        (
            "block_diagonal sm90_implicit_gemm 64x64 stages=4 schedule=cooperative cluster=1 "
            "store=direct:64 blocks=132"
        ),
    ),
]


@pytest.mark.parametrize(("old", "new"), OLD_AND_NEW)
def test_old_configs_parse_with_a_note(
    old: str, new: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(old_spelling, "_noted", set[str]())
    with caplog.at_level(logging.WARNING):
        assert read_config(old) == new
        read_config(old)
    assert caplog.text.count("is an older spelling of") == 1
    assert todays_words(new) == new
    family = family_of(old)
    assert family is not None
    assert family is family_of(new)
    parsed = family.parse(new)
    assert family.parse(str(parsed)) == parsed


NEWER = {
    *("col2im", "depthwise", "few_channels_wgrad", "grouped_planes", "halo_implicit_gemm"),
    *("pointwise", "simt_wgrad", "sm90_halo_implicit_gemm", "sm90_halo_wgrad"),
}
"""Families that never had another name."""


def test_every_family_had_another_name() -> None:
    assert set(old_spelling.FAMILIES.values()) == {family.name for family in FAMILIES} - NEWER
