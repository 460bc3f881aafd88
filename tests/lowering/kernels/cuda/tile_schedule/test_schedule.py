"""Partitions cover every step of every tile once, and their parts find each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from partition_kernel import partition_source

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.tile_schedule.partition import SPLIT_K, STREAM_K, Partition
from convir.lowering.kernels.cuda.tile_schedule.predict import (
    busiest_steps,
    partitions,
    split_k_counts,
    stream_k_refusal,
)
from convir.lowering.kernels.cuda.tile_schedule.schedule import (
    COUNTER_BYTES,
    MIN_STEPS,
    Schedule,
    Work,
    senders,
)
from convir.runtime.cuda.toolchain.compile import compile_cubin

REDUCTIONS = st.sampled_from(("linear", "tree"))
PARTITIONS = st.one_of(
    st.just(Partition()),
    st.builds(Partition, st.just(SPLIT_K), st.integers(2, 9), REDUCTIONS),
    st.builds(
        Partition,
        st.just(STREAM_K),
        st.just(1),
        REDUCTIONS,
        st.sampled_from(("persistent", "blocks")),
    ),
)
MULTIPROCESSORS = st.sampled_from((2, 3, 4, 132))


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    partition = draw(PARTITIONS)
    steps = draw(st.integers(partition.splits, 70))
    return Schedule(partition, draw(st.integers(1, 40)), steps, draw(MULTIPROCESSORS))


def all_works(schedule: Schedule) -> list[tuple[int, Work]]:
    return [(unit, work) for unit in range(schedule.units) for work in schedule.works(unit)]


@given(PARTITIONS)
def test_a_partition_is_its_text(partition: Partition) -> None:
    assert Partition.parse(str(partition)) == partition


@pytest.mark.parametrize(
    "text",
    [
        "",
        "split-k",
        "split-k:1:linear",
        "split-k:04:linear",
        "split-k:4",
        "stream-k",
        "stream-k:bush",
        "stream-k:linear:persistent",
        "data-parallel:tree",
        "stream-k:slices",
        "stream-k:linear:blocks:more",
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no partition|no reduction|splits|reduce-scatter"):
        Partition.parse(text)


@given(schedules())
def test_every_step_of_every_tile_is_done_once(schedule: Schedule) -> None:
    done = [
        (work.tile, step) for _, work in all_works(schedule) for step in range(work.begin, work.end)
    ]
    assert len(done) == schedule.tiles * schedule.steps
    assert set(done) == {(t, s) for t in range(schedule.tiles) for s in range(schedule.steps)}


@given(schedules())
def test_every_unit_has_work(schedule: Schedule) -> None:
    for unit in range(schedule.units):
        works = list(schedule.works(unit))
        assert works
        assert all(work.begin < work.end for work in works)


@given(schedules())
def test_parts_find_each_other(schedule: Schedule) -> None:
    splits: dict[tuple[int, int], tuple[int, Work]] = {}
    for unit, work in all_works(schedule):
        assert unit == work.first_unit + work.split * work.unit_step or work.splits == 1
        assert (work.tile, work.split) not in splits
        splits[work.tile, work.split] = unit, work
    for tile in range(schedule.tiles):
        count = splits[tile, 0][1].splits
        found = [splits[tile, split][1] for split in range(count)]
        assert {work.splits for work in found} == {count}
        assert [work.begin for work in found] == [0, *(work.end for work in found[:-1])]
        assert found[-1].end == schedule.steps
        assert [work.is_owner for work in found] == [False] * (count - 1) + [True]


@given(schedules())
def test_units_publish_once_in_their_slot(schedule: Schedule) -> None:
    published = [unit for unit, work in all_works(schedule) if not work.is_owner]
    assert len(set(published)) == len(published)
    assert all(unit < schedule.slots for unit in published)
    assert schedule.slots <= max(schedule.tiles * schedule.partition.splits, schedule.concurrent)
    assert schedule.workspace_bytes(64) == schedule.slots * 256
    if schedule.partition.kind == STREAM_K:
        assert schedule.slots < schedule.concurrent


@given(schedules())
def test_units_publish_before_they_wait_and_wait_for_lower_ones(schedule: Schedule) -> None:
    for unit in range(schedule.units):
        works = list(schedule.works(unit))
        owners = [work.is_owner for work in works]
        assert False not in owners[1:]
        for work in works:
            received = senders(work, schedule.partition.reduction)
            assert all(split < work.split for split in received)


@given(schedules())
def test_all_parts_reach_the_owner(schedule: Schedule) -> None:
    received: dict[int, list[int]] = {}
    for _, work in all_works(schedule):
        received.setdefault(work.tile, []).extend(senders(work, schedule.partition.reduction))
    for _, work in all_works(schedule):
        if work.is_owner:
            assert sorted(received[work.tile]) == list(range(work.splits - 1))


@given(st.integers(1, 70), st.integers(9, 70), st.sampled_from((2, 3, 4)))
def test_shares_are_equal_but_for_one_step(tiles: int, steps: int, units: int) -> None:
    schedule = Schedule(Partition(STREAM_K), tiles, steps, units)
    shares = [
        schedule.share_begin(unit + 1) - schedule.share_begin(unit)
        for unit in range(schedule.shares)
    ]
    assert not shares or max(shares) - min(shares) <= 1
    assert not shares or schedule.shares == 1 or min(shares) >= MIN_STEPS
    assert schedule.streamed < 2 * units


@pytest.mark.parametrize("units", [2, 3, 4])
def test_a_single_tile_is_divided_over_all_units(units: int) -> None:
    schedule = Schedule(Partition(STREAM_K), 1, 8 * units, units)
    assert [list(schedule.works(unit)) for unit in range(units)] == [
        [Work(0, 8 * unit, 8 * unit + 8, unit, units)] for unit in range(units)
    ]


@pytest.mark.parametrize("units", [2, 3, 4])
def test_whole_waves_have_nothing_to_reduce(units: int) -> None:
    schedule = Schedule(Partition(STREAM_K), 3 * units, 20, units)
    assert schedule.slots == 0
    assert [work.tile for work in schedule.works(1)] == [1, 1 + units, 1 + 2 * units]


def test_tiles_of_many_groups_are_streamed_in_the_last_two_waves_only() -> None:
    schedule = Schedule(Partition(STREAM_K), 32 * 9 + 1, 20, 4)
    assert schedule.streamed == 5
    assert schedule.units == 4


def test_slices_need_all_units_at_the_same_time_and_a_slot_each() -> None:
    schedule = Schedule(Partition(SPLIT_K, 33, "reduce-scatter"), 4, 100, 132)
    assert schedule.slots == schedule.units == 132
    assert schedule.flag_bytes == 4 * COUNTER_BYTES
    with pytest.raises(ValueError, match="132 units do not run at the same time"):
        Schedule(Partition(SPLIT_K, 33, "reduce-scatter"), 4, 100, 131)


def test_short_shares_have_fewer_units() -> None:
    schedule = Schedule(Partition(STREAM_K), 1, 17, 132)
    assert schedule.shares == 2


def test_the_rule_keeps_whole_tiles_where_cutlass_does() -> None:
    assert isinstance(stream_k_refusal(264, 100, 132), Refusal)
    assert isinstance(stream_k_refusal(140, 8, 132), Refusal)
    assert isinstance(stream_k_refusal(132 + 66, 100, 132), Refusal)
    assert stream_k_refusal(171, 100, 132) is None
    assert stream_k_refusal(18, 100, 132) is None


def test_split_k_fills_waves_and_keeps_steps() -> None:
    assert split_k_counts(18, 1000, 132) == (7, 14)
    assert split_k_counts(18, 56, 132) == (7,)
    assert split_k_counts(200, 1000, 132) == ()


def test_streaming_is_worth_what_it_saves() -> None:
    tried = partitions(171, 100, 132)
    assert tried == (
        Partition(),
        Partition(STREAM_K, 1, "linear"),
        Partition(STREAM_K, 1, "tree"),
    )
    assert busiest_steps(Schedule(tried[0], 171, 100, 132)) == 200
    assert busiest_steps(Schedule(tried[1], 171, 100, 132)) == 130


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    "text",
    [
        "data-parallel",
        "split-k:5:tree",
        "split-k:2:reduce-scatter",
        "stream-k:linear",
        "stream-k:tree:blocks",
    ],
)
def test_the_protocol_compiles(text: str, arch: str) -> None:
    assert compile_cubin(partition_source(Schedule(Partition.parse(text), 2, 17, 4)), arch)
