"""Operands of an epilogue that specialised kernel families read: tensors like C, vectors over
channels.

They need no table of strides: an element lies where the result's own does, or at its channel. What
else an epilogue may read, the implicit GEMM reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.epilogue import CPP_TYPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.bodies.contraction.fused import EpilogueOperand, PhaseOffsets
    from convir.lowering.bodies.contraction.spec import Contraction, Phase
    from convir.lowering.kernels.cuda.epilogue import Epilogue


@dataclass(frozen=True)
class LinearOperand:
    """Where an operand's element for an element of C lies."""

    follows_result: bool
    """At the element's own offset; else at `offset + channel * channel_stride`."""
    offset: int = 0
    channel_stride: int = 0
    """0 for a scalar."""


def linear_operands(
    contraction: Contraction, epilogue: Epilogue
) -> tuple[LinearOperand, ...] | Refusal:
    """The operands of an epilogue of a contraction that computes C, or why one is not."""
    found: list[LinearOperand] = []
    for operand in epilogue.operands:
        linear = _linear(contraction, operand)
        if linear is None:
            return Refusal("its epilogue reads what is neither like the result nor a vector")
        found.append(linear)
    return tuple(found)


def _linear(contraction: Contraction, operand: EpilogueOperand) -> LinearOperand | None:
    if operand.follows_result:
        return LinearOperand(follows_result=True)
    offsets = {phase.offset for phase in operand.phases}
    if len(offsets) != 1 or any(map(_moves, operand.phases, contraction.phases)):
        return None
    out_channels, groups = contraction.out_channels, contraction.groups
    stride = operand.out_channel_stride if out_channels > 1 else operand.group_stride
    if out_channels > 1 and groups > 1 and operand.group_stride != out_channels * stride:
        return None
    return LinearOperand(False, offsets.pop(), stride)


def _moves(operand: PhaseOffsets, phase: Phase) -> bool:
    """Whether an operand has other elements at other output pixels."""
    along = zip(operand.axis_strides, phase.axes, strict=True)
    return any(stride != 0 for stride, axis in along if axis.size > 1)


def operands_source(
    operands: Sequence[LinearOperand], epilogue: Epilogue, channel_stride: int = 1
) -> str:
    """The struct `Operands`, for `epilogue/operands.cuh`, behind the struct `Epilogue`.

    Two adjacent channels of the result are `channel_stride` elements apart.
    """
    none = (LinearOperand(follows_result=True),)
    flags = ", ".join(str(each.follows_result).lower() for each in operands or none)
    offsets = ", ".join(str(each.offset) for each in operands or none)
    strides = ", ".join(str(each.channel_stride) for each in operands or none)
    types = [CPP_TYPES[operand.type] for operand in epilogue.operands]
    names = ", ".join(f"e{i}" for i in range(len(types)))
    fields = "".join(f"    {kind} e{i}[kRun];\n" for i, kind in enumerate(types))
    loads = "".join(f"    {_load(i, each, channel_stride)};\n" for i, each in enumerate(operands))
    row = _row_operand(operands, epilogue) if channel_stride == 1 else None
    row_source = put_row = ""
    if row is not None:
        row_source = (
            f"  static __device__ const {types[row]}* row(const Epilogue::Pointers& p)"
            f" {{ return p.e{row}; }}\n"
        )
        put_row = (
            "    template <class Bits>\n    __device__ void put_row(const Bits& bits)"
            f" {{ memcpy(e{row}, &bits, sizeof(bits)); }}\n"
        )
    return (
        "struct Operands {\n"
        f"  static constexpr int kCount = {len(operands)};\n"
        f"  static constexpr bool kFollowsResult[] = {{{flags}}};\n"
        f"  static constexpr long long kOffset[] = {{{offsets}}};\n"
        f"  static constexpr long long kChannel[] = {{{strides}}};\n"
        f"  static constexpr int kRow = {-1 if row is None else row};\n{row_source}"
        f"  template <int kRun>\n  struct Run {{\n"
        f"    static constexpr int kCount = {len(operands)};\n{fields}"
        f"    __device__ Epilogue::Pointers pointers() const {{ return {{{names}}}; }}\n{put_row}"
        "  };\n"
        "  template <int kRun>\n"
        "  static __device__ __forceinline__ Run<kRun> run(const Epilogue::Pointers& p,"
        " long long element, int channel) {\n"
        f"    Run<kRun> of;\n{loads}    return of;\n  }}\n"
        "};\n"
    )


def _row_operand(operands: Sequence[LinearOperand], epilogue: Epilogue) -> int | None:
    """The first operand of 16 bits that follows a result of 16 bits."""
    halves = ("f16", "bf16")
    for number, (linear, operand) in enumerate(zip(operands, epilogue.operands, strict=True)):
        if linear.follows_result and operand.type in halves and epilogue.stored in halves:
            return number
    return None


def _load(number: int, operand: LinearOperand, apart: int) -> str:
    """The statement that loads an operand's elements of a run, those of the result `apart`."""
    name = f"e{number}"
    if operand.follows_result and apart != 1:
        return f"convir::load_apart(of.{name}, p.{name} + element, {apart})"
    if operand.follows_result:
        return f"convir::load_contiguous(of.{name}, p.{name} + element)"
    places = f"{operand.offset}, {operand.channel_stride}"
    return f"convir::load_channels<{places}>(of.{name}, p.{name}, channel)"
