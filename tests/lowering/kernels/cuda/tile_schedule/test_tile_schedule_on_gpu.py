"""Blocks do what the schedule says, and leave the flags as they found them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu import cupy_or_skip
from partition_kernel import FIELDS, SUMS, THREADS, WORKS, partition_source

from convir.lowering.kernels.cuda.tile_schedule.partition import Partition
from convir.lowering.kernels.cuda.tile_schedule.schedule import FLAG_BYTES, Schedule
from convir.runtime.cuda import toolkit
from convir.runtime.cuda.toolchain.compile import compile_cubin

pytestmark = pytest.mark.gpu

BOUNDED = ("-DCONVIR_BOUNDED_WAITS=2000000000ll",)

SCHEDULES = [
    Schedule(Partition.parse(text), tiles, steps, concurrent)
    for text in (
        "data-parallel",
        "split-k:2:linear",
        "split-k:5:tree",
        "split-k:16:linear",
        "stream-k:linear",
        "stream-k:tree",
        "stream-k:linear:blocks",
        "stream-k:tree:blocks",
    )
    for tiles, steps, concurrent in (
        (1, 70, 2),
        (1, 133, 16),
        (3, 64, 4),
        (6, 16, 3),
        (7, 20, 3),
        (9, 50, 4),
        (18, 80, 132),
        (37, 17, 4),
    )
] + [
    Schedule(Partition.parse(text), tiles, 40, 132)
    for text in (
        "split-k:2:reduce-scatter",
        "split-k:7:reduce-scatter",
        "split-k:33:reduce-scatter",
    )
    for tiles in (1, 3)
]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_blocks_put_parts_together(schedule: Schedule) -> None:
    cupy = cupy_or_skip()
    module: Any = cupy.cuda.function.Module()
    module.load(compile_cubin(partition_source(schedule), toolkit.architecture(), BOUNDED))
    combine = module.get_function("combine")
    rng = np.random.default_rng(7)
    shape = (schedule.tiles, schedule.steps, SUMS, THREADS)
    integers = rng.integers(-8, 9, shape).astype(np.float32)
    floats = rng.standard_normal(shape).astype(np.float32)
    flags = cupy.zeros(max(FLAG_BYTES, schedule.flag_bytes) // FLAG_BYTES, np.uint32)
    results: list[Any] = []
    for terms in (integers, floats, floats):
        workspace = cupy.full(max(1, schedule.slots) * SUMS * THREADS, np.nan, np.float32)
        out = cupy.full((schedule.tiles, SUMS, THREADS), np.nan, np.float32)
        log = cupy.full((schedule.units, WORKS, FIELDS), -1, np.int32)
        combine(
            (schedule.units, 1, 1),
            (2 * THREADS, 1, 1),
            (cupy.asarray(terms), workspace, flags, out, log),
            enable_cooperative_groups=schedule.has_shares,
        )
        assert not cupy.asnumpy(flags).any()
        results.append(cupy.asnumpy(out))
        done = cupy.asnumpy(log)
        for unit in range(schedule.units):
            expected = [
                [w.tile, w.begin, w.end, w.split, w.splits, w.first_unit, w.unit_step]
                for w in schedule.works(unit)
            ]
            logged = done[unit, : len(expected)].tolist()
            assert [line[:5] for line in logged] == [line[:5] for line in expected]
            assert [line[5:] for line in logged if line[4] > 1] == [
                line[5:] for line in expected if line[4] > 1
            ]
            assert (done[unit, len(expected) :] == -1).all()
    assert np.array_equal(results[0], integers.sum(1))
    np.testing.assert_allclose(results[1], floats.sum(1, dtype=np.float64), rtol=0, atol=1e-4)
    assert np.array_equal(results[1], results[2])
