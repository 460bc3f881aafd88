"""Planar kernels: every group count, tap, dilation and number of frames, on every target."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import f32
from xdsl.ir import Block

from convir.lowering.contraction.scalar_program import Operand, Result, ScalarOp, Sum
from convir.lowering.llvm.planar.kernel_code import planar_ir
from convir.lowering.llvm.target import HOST, X86_64, X86_64_V3, target
from convir.lowering.planar.program import (
    Binding,
    Bound,
    Column,
    Parameter,
    PlanarProgram,
    Rows,
    Stage,
    Temporary,
    Term,
    Write,
)
from convir.runtime.host.jit import AS_EMITTED, compile_ir
from convir.runtime.host_memory import address_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from convir.lowering.llvm.target import Target

    Array = NDArray[np.float32]

TARGETS = (HOST, X86_64_V3, X86_64)
GUARD = 16
"""Frames between rows that nothing may write."""


@dataclass(frozen=True)
class Case:
    """One convolution along frames."""

    groups: int
    depth: int
    columns: int
    taps: int
    dilation: int
    frames: int
    items: int

    @property
    def inputs(self) -> int:
        return self.groups * self.depth

    @property
    def channels(self) -> int:
        return self.groups * self.columns

    @property
    def seen(self) -> int:
        return self.frames + self.dilation * (self.taps - 1)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Convolutions of at most 64 channels."""
    groups = draw(st.integers(1, 64))
    depth, columns = (draw(st.integers(1, 64 // groups)) for _ in range(2))
    return Case(
        groups,
        depth,
        columns,
        taps=draw(st.integers(1, 16)),
        dilation=draw(st.sampled_from((1, 2, 3, 7, 16, 64, 512))),
        frames=draw(st.one_of(st.integers(1, 80), st.sampled_from((64, 128, 200, 1029, 2112)))),
        items=draw(st.integers(1, 2)),
    )


def convolved(x: Array, w: Array, case: Case) -> NDArray[np.float64]:
    """The convolution of f32[items, inputs, seen] in f64, one tap at a time."""
    image = x.astype(np.float64).reshape(case.items, case.groups, case.depth, case.seen)
    weights = w.astype(np.float64).reshape(case.groups, case.columns, case.depth, case.taps)
    total = np.zeros((case.items, case.groups, case.columns, case.frames))
    for tap in range(case.taps):
        first = tap * case.dilation
        read = image[..., first : first + case.frames]
        total += np.einsum("gcd,ngdt->ngct", weights[..., tap], read)
    return total.reshape(case.items, case.channels, case.frames)


def run(program: PlanarProgram, binding: Binding, arrays: list[NDArray[Any]], cpu: Target) -> None:
    """One launch on arrays, the arguments in order."""
    ir = planar_ir({"kernel": (program, binding)}, cpu)
    library = compile_ir(ir, exports=("kernel",), cpu=cpu, options=AS_EMITTED)
    kernel = ctypes.CFUNCTYPE(
        None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64
    )(library.address("kernel"))
    table = (ctypes.c_int64 * len(arrays))(*map(address_of, arrays))
    kernel(ctypes.addressof(table), 0, binding.items, 0)


@pytest.mark.parametrize("name", TARGETS)
@given(case=cases(), near=st.booleans(), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_convolutions_along_frames(name: str, case: Case, near: bool, seed: int) -> None:
    """Sums of products in f32 against f64, the dilation a number of the launch or known where code
    is written; rows lie apart, and what lies between stays."""
    numbers = np.random.default_rng(seed)
    x = numbers.standard_normal((case.items, case.inputs, case.seen)).astype(np.float32)
    shape = (case.channels, case.depth, case.taps)
    w = numbers.standard_normal(shape).astype(np.float32)
    pitch = case.frames + GUARD
    y = np.full((case.items, case.channels, pitch), np.nan, np.float32)
    program = PlanarProgram(
        3,
        (),
        (
            Stage(
                case.channels,
                (
                    Term(
                        Rows(Parameter(0)),
                        Parameter(1),
                        case.depth,
                        case.taps,
                        case.groups,
                        case.dilation if near else None,
                    ),
                ),
                (),
                (),
                (Write(Rows(Parameter(2)), Sum()),),
            ),
        ),
    )
    binding = Binding(
        (
            Bound(0, 0, case.seen, case.dilation, case.inputs * case.seen),
            Bound(1, 0),
            Bound(2, 0, pitch, 0, case.channels * pitch),
        ),
        case.frames,
        case.items,
    )
    run(program, binding, [x, w, y], target(name))
    terms = case.depth * case.taps
    expected = convolved(x, w, case)
    bound = convolved(np.abs(x), np.abs(w), case) * (terms + 1) * 2.0**-24
    assert np.all(np.abs(y[..., : case.frames] - expected) <= bound)
    assert np.isnan(y[..., case.frames :]).all()


def adding(*operands: Any) -> ScalarOp:
    """The sum of two terms of f32."""
    block = Block(arg_types=[f32, f32])
    return ScalarOp.of(arith.AddfOp(block.args[0], block.args[1]), operands)


def tanh_of(operand: Any) -> ScalarOp:
    """The hyperbolic tangent of a term of f32."""
    return ScalarOp.of(math.TanhOp(Block(arg_types=[f32]).args[0]), [operand])


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("frames", [1, 17, 64, 100])
def test_a_layer_passes_through_temporaries(name: str, frames: int) -> None:
    """conv + bias, tanh, a sum beside it, 1x1 + residual: three stages, one launch."""
    channels, taps, dilation = 6, 3, 5
    numbers = np.random.default_rng(3)
    seen = frames + dilation * (taps - 1)

    def drawn(*shape: int) -> Array:
        return numbers.standard_normal(shape).astype(np.float32)

    x, w, bias, mix = (
        drawn(channels, seen),
        drawn(channels, channels, taps),
        drawn(channels),
        drawn(channels, channels),
    )
    head = drawn(channels, frames)
    heads, y = (np.full((channels, frames), np.nan, np.float32) for _ in range(2))
    between = Rows(Temporary(0))
    stages = (
        Stage(
            channels,
            (Term(Rows(Parameter(0)), Parameter(1), channels, taps, 1),),
            (Column(Parameter(2)),),
            (adding(Sum(), Operand(0)),),
            (Write(between, Result(0)),),
        ),
        Stage(
            channels,
            (),
            (between, Rows(Parameter(4))),
            (tanh_of(Operand(0)), adding(Result(0), Operand(1))),
            (Write(between, Result(0)), Write(Rows(Parameter(5)), Result(1))),
        ),
        Stage(
            channels,
            (Term(between, Parameter(3), channels, 1, 1),),
            (Rows(Parameter(6)),),
            (adding(Operand(0), Sum()),),
            (Write(Rows(Parameter(7)), Result(0)),),
        ),
    )
    here = dilation * (taps - 1)
    binding = Binding(
        (
            Bound(0, 0, seen, dilation),
            Bound(1, 0),
            Bound(2, 0),
            Bound(3, 0),
            Bound(4, 0, frames),
            Bound(5, 0, frames),
            Bound(0, here, seen),
            Bound(6, 0, frames),
        ),
        frames,
        1,
    )
    run(PlanarProgram(8, (channels,), stages), binding, [x, w, bias, mix, head, heads, y],
        target(name))  # fmt: skip
    case = Case(1, channels, channels, taps, dilation, frames, 1)
    z = np.tanh(convolved(x[None], w, case)[0] + bias[:, None])
    assert np.abs(heads - (head + z)).max() < 4e-6
    assert np.abs(y - (x[:, here:] + mix @ z)).max() < 1e-5


def test_layers_that_differ_in_numbers_share_a_function() -> None:
    """Dilations and the places of rows are numbers of an entry."""
    stage = Stage(
        4,
        (Term(Rows(Parameter(0)), Parameter(1), 4, 3, 1),),
        (),
        (),
        (Write(Rows(Parameter(2)), Sum()),),
    )
    program = PlanarProgram(3, (), (stage,))
    launches = {
        f"layer{dilation}": (
            program,
            Binding(
                (Bound(0, 0, 64 + 2 * dilation, dilation), Bound(1, 0), Bound(2, 0, 64)), 64, 1
            ),
        )
        for dilation in (1, 2, 4)
    }
    ir = planar_ir(launches, target())
    assert ir.count("define internal") == 1
    assert ir.count("define void") == len(launches)
