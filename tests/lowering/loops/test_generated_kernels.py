"""Generated CUDA kernels of random tensor ops against the reference, run on the CPU."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pytest
from emulated_cuda import aligned, emulate, missing
from host_kernels import assert_same, poisoned, program_text
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_programs.kernels import random_kernels

from convir.dialects.context import read_module
from convir.dialects.kernel import ops as kernel
from convir.lowering.loops.cuda.plan_loops import plan_loops
from convir.reference import evaluate

if TYPE_CHECKING:
    from random_programs.function import RandomFunction

MISALIGNED_BYTES = 8


@given(random_kernels(vectors=True), st.integers(0, 1 << 16), st.booleans())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_kernels_are_their_bodies(drawn: RandomFunction, seed: int, is_aligned: bool) -> None:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    text = program_text(
        drawn.text("kernel.func", "k"),
        [v.buffer for v in drawn.inputs],
        [v.buffer for v in drawn.results],
    )
    module = read_module(text)
    function = next(op for op in module.walk() if isinstance(op, kernel.FuncOp))
    arguments = drawn.arguments(seed)
    with np.errstate(all="ignore"):
        expected = evaluate(module, "main", arguments)
    offset = 0 if is_aligned else MISALIGNED_BYTES
    inputs = [aligned(array, offset) for array in arguments]
    outputs = [aligned(poisoned(a.shape, a.dtype), offset) for a in expected]
    plan = plan_loops(function, restrict=True, aligned=is_aligned)
    with TemporaryDirectory() as folder:
        emulate(plan, inputs, outputs, Path(folder))
    for i, (got, wanted) in enumerate(zip(outputs, expected, strict=True)):
        assert_same(got, wanted, f"result {i} of\n{drawn.text('kernel.func', 'k')}")
