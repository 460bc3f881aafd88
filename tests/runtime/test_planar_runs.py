"""A whole model's block as one CUDA kernel, emulated."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from emulated_cuda import emulate, missing
from nam_cases import random_model, wavenet_reference
from xdsl.passes import PassPipeline

from convir.analysis.refusal import Refusal
from convir.api.sources import nam_source
from convir.dialects.context import new_context
from convir.lowering.kernels.cuda.launch import KernelPlan, Pointer
from convir.lowering.kernels.target import target_of
from convir.lowering.pipeline import lowering_passes
from convir.passes import run
from convir.runtime.cuda.planar_run import PACKED, in_runs, packed, planar_run
from convir.runtime.program import Copy, Launch, Space
from convir.runtime.read_program import read_program

if TYPE_CHECKING:
    from pathlib import Path

    from convir.runtime.program import Program

GPU = target_of("sm_80", multiprocessors=108, shared_bytes=163 << 10)
FRAMES = 24


def program_of(path: Path) -> Program:
    module = run(nam_source(path, FRAMES, FRAMES, 1.0).read(), "default").module
    PassPipeline(lowering_passes("cuda", gpu=GPU)).apply(new_context(), module)
    return read_program(module)


@pytest.mark.parametrize("seed", range(4))
def test_random_models_emulated(seed: int, tmp_path: Path) -> None:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    content = random_model(np.random.default_rng(seed))
    path = tmp_path / "model.nam"
    path.write_text(json.dumps(content))
    program = program_of(path)
    *copies, calls = in_runs(program.calls)
    assert all(isinstance(copy, Copy) for (copy,) in copies)
    launches = [call for call in calls if isinstance(call, Launch)]
    assert len(launches) == len(calls)
    found = planar_run(launches, GPU)
    assert not isinstance(found, Refusal), found.reason
    code, buffers = found

    weights = packed(code, buffers, program.constants)
    block, *windows = (np.zeros(spec.shape, spec.dtype) for spec in program.inputs)
    output = np.zeros(program.outputs[0].shape, np.float32)
    arena = np.full(program.arena_bytes, 0xFF, np.uint8)
    memories = {Space.INPUT: [block], Space.OUTPUT: [output, *windows], Space.ARENA: [arena]}

    def memory(pointer: Any) -> Any:
        if pointer == PACKED:
            return weights
        buffer = buffers[pointer]
        whole = memories[buffer.space][buffer.index].reshape(-1).view(np.uint8)
        return whole[buffer.offset :]

    arguments = [memory(pointer) for pointer in code.kernel.arguments]
    numbers = tuple(Pointer("input", i) for i in range(len(arguments)))
    plan = KernelPlan((replace(code.kernel, arguments=numbers),))

    def heard(frames: Any) -> Any:
        block[...] = frames
        emulate(plan, arguments, (), tmp_path)
        for window in windows:
            window[..., :-FRAMES] = window[..., FRAMES:].copy()
        return output.reshape(-1).copy()

    for _ in range(-(-sum(window.shape[-1] for window in windows) // FRAMES)):
        heard(np.float32(0))
    x = np.random.default_rng(seed + 100).uniform(-1, 1, 5 * FRAMES).astype(np.float32)
    y = np.concatenate([heard(frames) for frames in x.reshape(-1, FRAMES)])
    expected = wavenet_reference(content, x)
    assert np.abs(y - expected).max() <= 1e-5 * max(1.0, np.abs(expected).max())
