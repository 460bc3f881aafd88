"""Planar programs with what they must compute: convolutions along frames, and a layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import f32
from xdsl.ir import Block

from convir.lowering.bodies.contraction.scalar_program import Operand, Result, ScalarOp, Sum
from convir.lowering.bodies.planar.program import (
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

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[np.float32]

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


@dataclass(frozen=True)
class Problem:
    """One launch, its arguments in order, and what must hold after it."""

    program: PlanarProgram
    binding: Binding
    arrays: list[Array]
    check: Callable[[], None]


def convolution(case: Case, seed: int, *, near: bool = False) -> Problem:
    """Sums of products in f32 against f64, the dilation a number of the launch or known where code
    is written; rows lie apart, and what lies between stays."""
    numbers = np.random.default_rng(seed)
    x = numbers.standard_normal((case.items, case.inputs, case.seen)).astype(np.float32)
    shape = (case.channels, case.depth, case.taps)
    w = numbers.standard_normal(shape).astype(np.float32)
    pitch = case.frames + GUARD
    y = np.full((case.items, case.channels, pitch), np.nan, np.float32)
    reach = case.dilation if near else None
    term = Term(Rows(Parameter(0)), Parameter(1), case.depth, case.taps, case.groups, reach)
    stage = Stage(case.channels, (term,), (), (), (Write(Rows(Parameter(2)), Sum()),))
    bound = (
        Bound(0, 0, case.seen, case.dilation, case.inputs * case.seen),
        Bound(1, 0),
        Bound(2, 0, pitch, 0, case.channels * pitch),
    )

    def check() -> None:
        expected = convolved(x, w, case)
        terms = case.depth * case.taps
        allowed = convolved(np.abs(x), np.abs(w), case) * (terms + 1) * 2.0**-24
        assert np.all(np.abs(y[..., : case.frames] - expected) <= allowed)
        assert np.isnan(y[..., case.frames :]).all()

    program = PlanarProgram(3, (), (stage,))
    return Problem(program, Binding(bound, case.frames, case.items), [x, w, y], check)


def adding(*operands: Any) -> ScalarOp:
    """The sum of two terms of f32."""
    block = Block(arg_types=[f32, f32])
    return ScalarOp.of(arith.AddfOp(block.args[0], block.args[1]), operands)


def tanh_of(operand: Any) -> ScalarOp:
    """The hyperbolic tangent of a term of f32."""
    return ScalarOp.of(math.TanhOp(Block(arg_types=[f32]).args[0]), [operand])


def layer(frames: int) -> Problem:
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

    def check() -> None:
        case = Case(1, channels, channels, taps, dilation, frames, 1)
        z = np.tanh(convolved(x[None], w, case)[0] + bias[:, None])
        assert np.abs(heads - (head + z)).max() < 4e-6
        assert np.abs(y - (x[:, here:] + mix @ z)).max() < 1e-5

    program = PlanarProgram(8, (channels,), stages)
    return Problem(program, binding, [x, w, bias, mix, head, heads, y], check)
