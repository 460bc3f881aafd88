"""Plans for a GPU are plain data, made without one."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from convir.api.build import Build
from convir.api.sources import source_of
from convir.frontends.conv_module import module_of_line
from convir.frontends.miopen import parse_line
from convir.lowering.kernels.cuda.launch import (
    CudaKernel,
    Pointer,
    Scalar,
    gains_as_dependent,
)
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.runtime.cuda.plan import CudaPlan, PlannedLaunch
from convir.runtime.cuda.planner import plan_program, with_dependent_launches
from convir.runtime.devices import CUDA, Device
from convir.runtime.program import Buffer, Fill, Space, TensorSpec

LINES = (
    "convfp16 -n 2 -c 64 -H 14 -W 14 -k 64 -y 3 -x 3 -p 1 -q 1 -F 1 -I NHWC -f NHWC -O NHWC",
    "convfp16 -n 2 -c 64 -H 14 -W 14 -k 64 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -F 2",
    "convbfp16 -n 2 -c 64 -H 14 -W 14 -k 64 -y 3 -x 3 -p 1 -q 1 -F 4",
    "conv -n 2 -c 64 -H 14 -W 14 -k 64 -y 3 -x 3 -p 1 -q 1 -F 1",
)


def planned(line: str) -> CudaPlan:
    source = source_of(module_of_line(parse_line(line)), (), 1.0)
    build = Build(source, "main", "default", Device(CUDA, model=DEFAULT_TARGET), None)
    return plan_program(build.program(), DEFAULT_TARGET)


@pytest.mark.parametrize("line", LINES)
def test_plans_travel_between_processes(line: str) -> None:
    plan = planned(line)
    read: CudaPlan = pickle.loads(pickle.dumps(plan))
    assert read == plan
    launches = [step for step in plan.steps if isinstance(step, PlannedLaunch)]
    assert launches
    assert len(plan.summary) == len(plan.steps)
    assert plan.calls == tuple((number,) for number in range(len(plan.steps)))
    for launch in launches:
        for kernel in launch.kernels:
            placed = [x for x in kernel.arguments if not isinstance(x, Scalar)]
            buffers = [x if isinstance(x, Pointer) else x.buffer for x in placed]
            assert set(buffers) <= set(launch.places)


def test_dependent_launches_are_behind_those_that_trigger_them() -> None:
    plain = CudaKernel("", "k", (1, 1, 1), (32, 1, 1))
    triggers = replace(plain, triggers_dependents=True)
    both = replace(triggers, is_dependent=True)
    spec = TensorSpec((4,), np.dtype(np.float32))
    fill = Fill(0.0, Buffer(Space.ARENA, 0, 0, spec.shape, spec.dtype))
    steps = [
        PlannedLaunch((both, both), {}),  # Nothing is known of what is ahead of the first.
        PlannedLaunch((plain, both), {}),
        PlannedLaunch((triggers,), {}),
        PlannedLaunch((both,), {}),
        fill,
        PlannedLaunch((both,), {}),
    ]
    found = [*with_dependent_launches(steps)]
    launches = [step.kernels for step in found if isinstance(step, PlannedLaunch)]
    dependent = [[kernel.is_dependent for kernel in kernels] for kernels in launches]
    assert dependent == [[False, True], [False, False], [False], [True], [False]]
    assert found[4] is fill


def test_blocks_that_may_be_anywhere() -> None:
    assert gains_as_dependent(132, 132, 1 << 40)
    assert gains_as_dependent(20, 132, 20 << 24)
    assert not gains_as_dependent(20, 132, 21 << 24)
