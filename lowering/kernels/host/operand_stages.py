"""The launches of one contraction, as they are collected.

Operands that kernels cannot read where they lie are copied first. Each copy is a stage, a launch
over items.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from convir.lowering.bodies.contraction.spec import Channels
from convir.lowering.kernels.host.code.elements.lanes import Lanes
from convir.lowering.kernels.host.code.elements.pairs import paired, takes_pairs
from convir.lowering.kernels.host.code.elements.quads import in_quads, takes_quads
from convir.lowering.kernels.host.code.entry import CONTRACT
from convir.lowering.kernels.host.code.fused_store import EPILOGUE_BUFFERS
from convir.lowering.kernels.host.code.operand_copy import Dimension, StageKernel, staged_phases
from convir.lowering.kernels.host.launch import HostLaunch, KernelCode, Stage

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.fused import FusedEpilogue
    from convir.lowering.bodies.contraction.spec import Contraction, StorageType
    from convir.lowering.kernels.host.launch import Buffer, Writer
    from convir.lowering.kernels.host.target import CpuTarget


class OperandStages:
    """Collects the stages of one contraction."""

    def __init__(
        self,
        spec: Contraction,
        cpu: CpuTarget,
        epilogue: FusedEpilogue | None = None,
        copied_as: StorageType | None = None,
        *,
        joins: bool = True,
    ) -> None:
        """Begin with no stage.

        Args:
            spec: the contraction.
            cpu: the processor.
            epilogue: what follows it.
            copied_as: the type that kernels read; the arithmetic's if None.
            joins: whether kernels read pairs or quads as words where these are multiplied.
        """
        self._read: StorageType = spec.element if copied_as is None else copied_as
        pairs, quads = joins and takes_pairs(spec, cpu), joins and takes_quads(spec)
        if spec.element == "i32" and not quads:
            self._read = "i8"
        self.spec = paired(spec) if pairs else in_quads(spec) if quads else spec
        """What the kernels compute: `spec` on the copies of operands, over pairs or quads where
        these are multiplied."""
        self.epilogue = epilogue
        halves = spec.a.type if joins and reads_halves(spec, cpu) else None
        if halves is not None:
            self._read = halves
        self.lanes = Lanes(spec.element, cpu, pairs, quads, halves)
        self.kernels: list[Writer] = []
        self.stages: list[Stage] = []
        self.workspace: dict[Buffer, int] = {}
        self._computes = spec, epilogue, cpu

    def contract(self, a: Buffer, b: Buffer, items: int) -> None:
        """Launch the kernel that computes C."""
        count = 0 if self.epilogue is None else len(self.epilogue.operands)
        operands: tuple[Buffer, ...] = (a, b, "c", *EPILOGUE_BUFFERS[:count])
        self.stages.append(Stage(CONTRACT, items, operands))

    def launch(
        self, family: str, prepare: tuple[Stage, ...] = (), preparing: tuple[Writer, ...] = ()
    ) -> HostLaunch:
        """Everything that was collected, as the launch of a family; `preparing` writes the kernels
        of `prepare`."""
        code = KernelCode((family, *self._computes), tuple(self.kernels), preparing)
        spec, *_ = self._computes
        return HostLaunch(code, tuple(self.stages), prepare, spec, self.workspace)

    def readable_rows(self) -> Buffer:
        """Read A where it lies, or a copy of it; returns the buffer.

        Raises:
            ValueError: it has to be copied, and the channels of its groups are not consecutive.
        """
        spec = self.spec
        if self._is_readable(spec.a):
            return "a"
        groups = 1 if spec.shares_rows else spec.groups
        channels = groups * spec.in_channels
        phases, dimensions, offset = staged_phases(spec.phases, channels, spec.a)
        self._copy("a", "a_copy", dimensions, (groups, channels), spec.a, offset)
        layout = Channels(self._read, 1, 0 if spec.shares_rows else spec.in_channels)
        self.spec = replace(spec, phases=phases, a=layout)
        return "a_copy"

    def padded_lines(
        self, spec: Contraction, lines: tuple[Dimension, ...], elements: int, zeros: tuple[int, int]
    ) -> Buffer:
        """Compute `spec` instead, on a copy of lines of A between zeros; returns the buffer.

        Args:
            spec: on the copy.
            lines: of A, slowest first.
            elements: of a line, contiguous.
            zeros: elements in front of a line of the copy, and behind it.
        """
        layout, type_ = Channels(self.spec.a.type), self._read
        stage = StageKernel(
            "copy_a", self.lanes, lines, elements, layout, copied_as=type_, zeros=zeros
        )
        self._add("a", "a_copy", stage)
        self.spec = replace(spec, a=Channels(type_))
        return "a_copy"

    def readable_outs(self) -> Buffer:
        """Read C, which is not the result, where it lies, or a copy of it; returns the buffer.

        Raises:
            ValueError: it has to be copied, and the channels of its groups are not consecutive.
        """
        spec = self.spec
        if self._is_readable(spec.c):
            return "c"
        (phase,) = spec.phases
        dimensions = tuple(Dimension(axis.size, axis.out_stride) for axis in phase.axes)
        channels = spec.groups * spec.out_channels
        strides = _dense(dimensions, channels)
        axes = tuple(
            replace(axis, out_stride=stride)
            for axis, stride in zip(phase.axes, strides, strict=True)
        )
        sizes = spec.groups, channels
        self._copy("c", "c_copy", dimensions, sizes, spec.c, phase.out_offset)
        layout = Channels(self._read, 1, spec.out_channels)
        moved = replace(phase, axes=axes, out_offset=0)
        self.spec = replace(spec, phases=(moved,), c=layout)
        return "c_copy"

    def _is_readable(self, layout: Channels) -> bool:
        return layout.type == self._read and layout.stride == 1

    def _copy(
        self,
        buffer: Buffer,
        copy: Buffer,
        dimensions: tuple[Dimension, ...],
        sizes: tuple[int, int],
        layout: Channels,
        offset: int = 0,
    ) -> None:
        groups, channels = sizes
        if groups > 1 and layout.group_stride != channels // groups * layout.stride:
            raise ValueError(f"groups of operand {buffer} do not lie behind each other")
        stage = StageKernel(
            f"copy_{buffer}", self.lanes, dimensions, channels, layout, offset, self._read
        )
        self._add(buffer, copy, stage)

    def _add(self, buffer: Buffer, copy: Buffer, stage: StageKernel) -> None:
        self.kernels.append(stage)
        self.workspace[copy] = stage.bytes
        self.stages.append(Stage(stage.name, stage.items, (buffer, copy)))


def reads_halves(spec: Contraction, cpu: CpuTarget) -> bool:
    """Whether tiles widen rows of 16-bit floats: of depthwise convolutions, whose elements are
    multiplied by one weight a tap. A copy of A in f32 would be written to memory and read again."""
    is_depthwise = spec.in_channels == spec.out_channels == 1 < spec.groups
    packed = spec.a.group_stride == spec.a.stride and spec.c.group_stride == spec.c.stride
    widens = spec.a.type == "bf16" or (spec.a.type == "f16" and cpu.f16_in_hardware)
    return spec.result == "C" and spec.element == "f32" and is_depthwise and packed and widens


def _dense(dimensions: tuple[Dimension, ...], channels: int) -> tuple[int, ...]:
    """Elements between output pixels of a dense `[position][channel]` array."""
    sizes = [dimension.size for dimension in dimensions]
    return tuple(channels * prod(sizes[place + 1 :]) for place in range(len(sizes)))
