"""Kernels that begin before the one ahead of them has ended: they read what that has written, and
overwrite nothing that it still reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from gpu import cupy_or_skip

from convir.api.compile import compile as convir_compile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.runtime.cuda.device import RawStep

pytestmark = pytest.mark.gpu

LAYERS = 12
REPLAYS = 200


@pytest.fixture(autouse=True)
def cupy() -> Any:
    return cupy_or_skip()


def chain(size: int, channels: int) -> str:
    """Convolutions behind each other, 1x1 and 3x3 in turn, each with a maximum behind it: of few
    tiles, so that kernels end soon, in memory that they take turns at."""
    kind = f"tensor<1x{size}x{size}x{channels}xf16>"
    arguments, lines = [f"%v0: {kind}"], list[str]()
    for i in range(LAYERS):
        taps = 1 + 2 * (i % 2)
        weight = f"tensor<{channels}x{taps}x{taps}x{channels}xf16>"
        arguments.append(f"%w{i}: {weight}")
        lines.append(
            f"%a{i} = conv.fprop layouts(NHWC, KRSC, NHWC) padding({taps // 2}, {taps // 2}) "
            f"accumulate(f32) ins(%v{i}, %w{i} : {kind}, {weight}) outs(%zero : {kind})"
        )
        lines.append(f"%v{i + 1} = arith.maximumf %a{i}, %zero : {kind}")
    body = "\n  ".join(lines)
    return (
        f"func.func @main({', '.join(arguments)}) -> {kind} {{\n"
        f"  %zero = arith.constant dense<0.0> : {kind}\n  {body}\n  return %v{LAYERS} : {kind}\n}}"
    )


@pytest.mark.parametrize(("size", "channels"), [(14, 64), (7, 128), (28, 64)])
def test_a_kernel_waits_for_what_it_reads(cupy: Any, size: int, channels: int) -> None:
    executable = convir_compile(chain(size, channels), device="cuda")
    program: Any = executable.loaded
    assert sum(kernel.is_dependent for kernel in program.plan.kernels) > LAYERS // 2

    def alone(_: int, step: RawStep) -> RawStep:
        def run(memories: Sequence[int], stream: int) -> None:
            step(memories, stream)
            cupy.cuda.Device().synchronize()

        return run

    one_by_one = program.watched(alone)
    rng = np.random.default_rng(0)
    weights = [
        cupy.asarray(rng.standard_normal(spec.shape) / np.sqrt(np.prod(spec.shape[1:])), "f2")
        for spec in executable.inputs[1:]
    ]
    graph = executable.graph()
    for to, weight in zip(graph.inputs[1:], weights, strict=True):
        to[...] = weight
    want = executable.empty(executable.outputs[0])
    for _ in range(REPLAYS):
        x = cupy.asarray(rng.standard_normal(executable.inputs[0].shape), "f2")
        one_by_one.run([x, *weights], [want])
        graph.inputs[0][...] = x
        graph.outputs[0].fill(np.nan)
        graph.replay()
        assert (graph.outputs[0] == want).all()
        assert (executable(x, *weights) == want).all()
