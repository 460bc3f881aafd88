"""Contractions over quads of bytes: which are taken, and what the instruction does, bit for bit."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from cpu_instructions import byte_dot, emulated
from host_contractions import runs_here

from convir.dialects.conv.windows import Window
from convir.lowering.bodies.contraction.convolution import Convolution, Layouts
from convir.lowering.kernels.host.code.elements.quads import in_quads, takes_quads
from convir.lowering.kernels.host.registry import plan_contraction
from convir.lowering.kernels.host.target import (
    HOST,
    X86_64,
    X86_64_V3,
    X86_64_V4,
    X86_64_V4_BF16,
    target,
)
from convir.runtime.host.jit import AS_EMITTED, compile_ir

POINTWISE = (Window(1, 1, 1, 0, 0),) * 2
PIXELS = 15


def convolution(
    c: int, k: int, groups: int = 1, layout: str = "NHWC", filters: str = "KRSC"
) -> Any:
    """A 1x1 convolution of 3x5 pixels."""
    made = Convolution(
        n=1,
        c=c,
        k=k,
        inputs=(3, 5),
        outputs=(3, 5),
        windows=POINTWISE,
        layouts=Layouts(layout, filters, layout),
        groups=groups,
        types=("i8", "i8", "i32"),
        element="i32",
    )
    return made.fprop()


@pytest.mark.fast
@pytest.mark.parametrize(
    ("spec", "taken"),
    [
        (convolution(8, 5), True),
        (convolution(8, 5, layout="NCHW"), True),
        (convolution(8, 8, groups=2), True),
        (convolution(6, 5), False),
        (convolution(12, 6, groups=2), False),
        (convolution(8, 8, groups=8), False),
    ],
)
def test_channels_of_whole_words_are_quads(spec: Any, taken: bool) -> None:
    assert takes_quads(spec) is taken


@pytest.mark.fast
def test_words_that_lie_there_are_read_as_they_are() -> None:
    spec = in_quads(convolution(8, 6))
    assert (spec.in_channels, spec.a.type, spec.b.type) == (2, "i32", "i32")
    assert (spec.b.in_channel_stride, spec.b.out_channel_stride) == (1, 2)


@pytest.mark.fast
def test_quads_that_lie_apart_are_joined() -> None:
    spec = in_quads(convolution(8, 6, layout="NCHW", filters="RSCK"))
    assert (spec.a.type, spec.a.stride) == ("i8", 60)
    assert (spec.b.type, spec.b.in_channel_stride) == ("i8", 24)


def _run(spec: Any, name: str, x: Any, w: Any, y: Any, *, models: bool = False) -> str:
    """Compute `y` by code for a CPU, or with the model in the place of its instruction; the IR."""
    plan, cpu = plan_contraction(spec, target(name)), target(name)
    ir = emulated(plan.ir) if models else plan.ir
    library = compile_ir(
        ir, exports=plan.entries, cpu=target(HOST) if models else cpu, options=AS_EMITTED
    )
    buffers: dict[Any, Any] = {"a": x, "b": w, "c": y}
    buffers |= {name: np.full(size, 0xFF, np.uint8) for name, size in plan.workspace.items()}
    for stage in (*plan.prepare, *plan.stages):
        addresses = [buffers[name].ctypes.data for name in stage.buffers]
        arguments = (ctypes.c_void_p * len(addresses))(*addresses)
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        kind(library.address(stage.entry))(ctypes.addressof(arguments), 0, stage.items)
    return plan.ir


@pytest.mark.parametrize("cpu", [X86_64, X86_64_V3, X86_64_V4, X86_64_V4_BF16, "model"])
@pytest.mark.parametrize(("c", "k"), [(4, 1), (8, 6), (36, 70), (64, 3), (1028, 16)])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_sums_are_those_of_the_instruction(layout: str, c: int, k: int, cpu: str) -> None:
    """Bit for bit, also of extremes, of which a saturating instruction would lose some."""
    models = cpu == "model"
    if not runs_here(cpu):
        pytest.skip(f"this machine is no {cpu}")
    rng = np.random.default_rng(c)
    x = np.clip(rng.integers(-200, 500, (PIXELS, c)), 0, 255).astype(np.uint8)
    w = np.clip(rng.integers(-300, 300, (k, c)), -128, 127).astype(np.int8)
    x[0], w[0] = 255, 127
    x[-1], w[-1] = 255, -128
    expected = np.zeros((PIXELS, k), np.int32)
    for quad in range(0, c, 4):
        expected = byte_dot(expected, x[:, None, quad : quad + 4], w[None, :, quad : quad + 4])
    first = layout == "NCHW"
    stored = np.ascontiguousarray(x.T) if first else x
    result = np.full((k, PIXELS) if first else (PIXELS, k), -1, np.int32)
    spec = convolution(c, k, layout=layout)
    ir = _run(spec, X86_64_V4_BF16 if models else cpu, stored, w, result, models=models)
    assert ("vpdpbusd" in ir) is (cpu in (X86_64_V4_BF16, "model"))
    np.testing.assert_array_equal(result.T if first else result, expected)
