"""Contractions over pairs of bf16: which are taken, and what the instruction does, bit for bit."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cpu_instructions import bf16_dot, emulated

from convir.dialects.conv.windows import Window
from convir.lowering.bodies.contraction.convolution import Convolution, Layouts
from convir.lowering.kernels.host.code.elements.pairs import paired, takes_pairs
from convir.lowering.kernels.host.registry import plan_contraction
from convir.lowering.kernels.host.target import HOST, X86_64_V4, X86_64_V4_BF16, target
from convir.lowering.kernels.host.wgrad.blocking import lanes_of
from convir.runtime.host.jit import AS_EMITTED, compile_ir

BF16 = ml_dtypes.bfloat16
POINTWISE = (Window(1, 1, 1, 0, 0),) * 2


def convolution(c: int, k: int, groups: int = 1, layout: str = "NHWC", **changes: Any) -> Any:
    """A 1x1 convolution of 3x5 pixels."""
    made = Convolution(
        n=1,
        c=c,
        k=k,
        inputs=(3, 5),
        outputs=(3, 5),
        windows=POINTWISE,
        layouts=Layouts(layout, "KRSC" if layout == "NHWC" else "KCRS", layout),
        groups=groups,
        types=("bf16", "bf16", "f32"),
    )
    return replace(made, **changes)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("spec", "taken"),
    [
        (convolution(8, 5).fprop(), True),
        (convolution(8, 6).dgrad(), False),
        (convolution(8, 6, types=("bf16",) * 3).dgrad(), True),
        (convolution(8, 5, types=("bf16",) * 3).dgrad(), False),
        (convolution(7, 6).fprop(), False),
        (convolution(6, 6, groups=2).fprop(), False),
        (convolution(8, 8, types=("bf16", "f32", "f32")).fprop(), False),
        (convolution(8, 8, types=("f16",) * 3).fprop(), False),
    ],
)
def test_even_input_channels_of_bf16_are_paired(spec: Any, taken: bool) -> None:
    assert takes_pairs(spec, target(X86_64_V4_BF16)) is taken
    assert not takes_pairs(spec, target(X86_64_V4))


@pytest.mark.fast
@pytest.mark.parametrize(
    ("spec", "taken"),
    [
        (convolution(64, 64, types=("bf16",) * 3).wgrad(), True),
        (convolution(63, 65, types=("bf16", "f32", "bf16")).wgrad(), True),
        (convolution(64, 64, layout="NCHW", types=("bf16",) * 3).wgrad(), True),
        (convolution(3, 9, types=("bf16",) * 3).wgrad(), False),
        (convolution(64, 64, 32, "NCHW", types=("bf16",) * 3).wgrad(), False),
        (convolution(64, 64, types=("bf16", "bf16", "f32")).wgrad(), False),
    ],
)
def test_output_pixels_of_many_rows_are_paired(spec: Any, taken: bool) -> None:
    assert lanes_of(spec, target(X86_64_V4_BF16)).pairs is taken
    assert not lanes_of(spec, target(X86_64_V4)).pairs


@pytest.mark.fast
def test_words_that_lie_there_are_read_as_they_are() -> None:
    spec = paired(convolution(8, 6).fprop())
    assert (spec.in_channels, spec.a.type, spec.b.type) == (4, "f32", "f32")
    assert (spec.b.in_channel_stride, spec.b.out_channel_stride) == (1, 4)


@pytest.mark.fast
def test_pairs_that_lie_apart_are_joined() -> None:
    spec = paired(convolution(8, 6, layout="NCHW").fprop())
    assert (spec.a.type, spec.a.stride, spec.b.type) == ("bf16", 30, "f32")
    spec = paired(convolution(8, 6, types=("bf16",) * 3).dgrad())
    assert (spec.a.type, spec.b.type, spec.b.in_channel_stride) == ("f32", "bf16", 16)


def _run(spec: Any, x: Any, w: Any, y: Any, *, on_hardware: bool) -> None:
    """Compute `y` by code for AVX512-BF16, or with the model in the place of its instruction."""
    plan = plan_contraction(spec, target(X86_64_V4_BF16))
    ir, cpu = plan.ir, target(X86_64_V4_BF16)
    assert "dpbf16ps" in ir
    if not on_hardware:
        ir, cpu = emulated(ir), target(HOST)
    library = compile_ir(ir, exports=plan.entries, cpu=cpu, options=AS_EMITTED)
    buffers: dict[Any, Any] = {"a": x, "b": w, "c": y}
    buffers |= {name: np.full(size, 0xFF, np.uint8) for name, size in plan.workspace.items()}
    for stage in (*plan.prepare, *plan.stages):
        addresses = [buffers[name].ctypes.data for name in stage.buffers]
        arguments = (ctypes.c_void_p * len(addresses))(*addresses)
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        kind(library.address(stage.entry))(ctypes.addressof(arguments), 0, stage.items)


@pytest.mark.parametrize("on_hardware", [False, True], ids=["model", "hardware"])
@pytest.mark.parametrize("scale", [1.0, 2.0**-62])
@pytest.mark.parametrize(("c", "k"), [(2, 1), (8, 6), (34, 70), (64, 3)])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_sums_are_those_of_the_instruction(
    layout: str, c: int, k: int, scale: float, on_hardware: bool
) -> None:
    """Bit for bit where one accumulator sums a result's products; else to the last rounding."""
    if on_hardware and not target(HOST).bf16_conversion:
        pytest.skip("this CPU has no AVX512-BF16")
    rng = np.random.default_rng(c)
    x = (rng.standard_normal((15, c)) * scale).astype(BF16)
    w = (rng.standard_normal((k, c)) * scale).astype(BF16)
    y = np.full((15, k), np.nan, np.float32)
    expected = np.zeros((15, k), np.float32)
    for pair in range(0, c, 2):
        expected = bf16_dot(expected, x[:, None, pair : pair + 2], w[None, :, pair : pair + 2])
    first = layout == "NCHW"
    stored = np.ascontiguousarray(x.T) if first else x
    result = np.full((k, 15), np.nan, np.float32) if first else y
    spec = convolution(c, k, layout=layout).fprop()
    _run(spec, stored, w, result, on_hardware=on_hardware)
    found = result.T if first else result
    if k >= 16:
        np.testing.assert_array_equal(found, expected)
    bound = np.abs(x.astype(np.float64)) @ np.abs(w.T.astype(np.float64)) * c * 2.0**-24
    assert prod(found.shape) == np.count_nonzero(abs(found - expected) <= bound + c * 2.0**-126)
