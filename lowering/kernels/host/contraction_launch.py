"""The launches of one contraction, and the code of all of them.

Operands that kernels cannot read where they lie are copied first; weights are packed; the
gradient of the weights has partial results to add up. Each is a stage, a launch over items.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from convir.lowering.contraction.spec import Channels
from convir.lowering.kernels.host.code.builder import Module
from convir.lowering.kernels.host.code.entry import CONTRACT
from convir.lowering.kernels.host.code.fused_store import EPILOGUE_BUFFERS, EpilogueBuffer
from convir.lowering.kernels.host.code.lanes import Lanes
from convir.lowering.kernels.host.code.operand_copy import Dimension, StageKernel, staged_phases
from convir.lowering.kernels.host.direct_depthwise.kernel import PlaneCuts, PlaneKernel, cut_planes
from convir.lowering.kernels.host.implicit_gemm import pack
from convir.lowering.kernels.host.implicit_gemm.blocking import Blocking, block
from convir.lowering.kernels.host.implicit_gemm.kernel import RowKernel
from convir.lowering.kernels.host.implicit_gemm.pack import PackKernel
from convir.lowering.kernels.host.wgrad import kernel as weight_kernel
from convir.lowering.kernels.host.wgrad import partial_results
from convir.lowering.kernels.host.wgrad.blocking import WeightBlocking, block_weights
from convir.lowering.kernels.host.wgrad.kernel import WeightKernel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from convir.lowering.contraction.fused import FusedEpilogue
    from convir.lowering.contraction.spec import Contraction
    from convir.lowering.kernels.host.target import Target

Buffer: TypeAlias = Literal["a", "b", "c", "packed", "a_copy", "c_copy", "parts"] | EpilogueBuffer
"""The operands, the packed weights, copies of operands, partial results, and what the epilogue
reads."""


class _Writer(Protocol):
    """What writes one kernel, or several."""

    def write(self, module: Module) -> None: ...


@dataclass(frozen=True)
class Stage:
    """One launch."""

    entry: str
    """The function of the library."""
    items: int
    """Independent items of work."""
    buffers: tuple[Buffer, ...]
    """Whose addresses it gets."""


@dataclass(frozen=True)
class ContractionPlan:
    """The code of a contraction, its launches, and the buffers they need beside the operands.

    Computing C takes `a` and packed weights; computing B takes `a` and `c`.
    """

    spec: Contraction
    blocking: Blocking | PlaneCuts | WeightBlocking
    kernels: tuple[_Writer, ...] = field(repr=False)
    """Their code together defines the entry of every stage."""
    workspace: Mapping[Buffer, int]
    """Bytes of each buffer that the caller provides; best aligned to 64 bytes. `packed` keeps
    its contents between runs, the others need not."""
    prepare: tuple[Stage, ...]
    """What depends on the weights alone: once for constant weights, else before each run. Nothing
    where weights are read as they lie."""
    stages: tuple[Stage, ...]
    """The launches of a run, in order."""

    @property
    def ir(self) -> str:
        """The code of all kernels as LLVM assembly, written anew."""
        module = Module()
        for kernel in self.kernels:
            kernel.write(module)
        return module.text()

    @property
    def entries(self) -> tuple[str, ...]:
        """The functions that `ir` exports."""
        return tuple(stage.entry for stage in (*self.prepare, *self.stages))


def plan_contraction(
    spec: Contraction, cpu: Target, epilogue: FusedEpilogue | None = None
) -> ContractionPlan:
    """Choose the kernels of `spec` for `cpu`.

    Args:
        spec: what is contracted.
        cpu: the processor.
        epilogue: what follows; `fused_store.refusal` has none for it.

    Raises:
        ValueError: there are too many taps for a row table, or the groups of an operand that has
            to be copied do not lie behind each other.
    """
    planner = _Planner(spec, Lanes(spec.element, cpu), epilogue)
    return planner.weights() if spec.result == "B" else planner.rows()


class _Planner:
    """Collects the stages of one contraction."""

    def __init__(self, spec: Contraction, lanes: Lanes, epilogue: FusedEpilogue | None) -> None:
        self.spec = self.original = spec
        self.epilogue = epilogue
        self.lanes = lanes
        self.kernels: list[_Writer] = []
        self.stages: list[Stage] = []
        self.workspace: dict[Buffer, int] = {}

    def rows(self) -> ContractionPlan:
        """C from A and B."""
        cuts = cut_planes(self.spec, self.lanes)
        if cuts is not None:
            planes = PlaneKernel(self.spec, self.lanes, cuts, self.epilogue)
            self.kernels.append(planes)
            self._contract("a", "b", planes.items)
            return self._plan(cuts, ())
        a = self._staged_rows()
        cuts = block(self.spec, self.lanes)
        rows = RowKernel(self.spec, self.lanes, cuts, self.epilogue)
        self.kernels.append(rows)
        prepare, b = (), "b"
        if not cuts.in_place:
            packing = PackKernel(self.spec, self.lanes, cuts)
            self.kernels.append(packing)
            self.workspace["packed"] = packing.packed_bytes
            prepare, b = (Stage(pack.ENTRY, packing.items, ("b", "packed")),), "packed"
        self._contract(a, b, rows.items)
        return self._plan(cuts, prepare)

    def _contract(self, a: Buffer, b: Buffer, items: int) -> None:
        """Launch the kernel that computes C."""
        count = 0 if self.epilogue is None else len(self.epilogue.operands)
        operands: tuple[Buffer, ...] = (a, b, "c", *EPILOGUE_BUFFERS[:count])
        self.stages.append(Stage(CONTRACT, items, operands))

    def weights(self) -> ContractionPlan:
        """B from A and C."""
        a, c = self._staged_rows(), self._staged_outs()
        cuts = block_weights(self.spec, self.lanes)
        weights = WeightKernel(self.spec, self.lanes, cuts)
        self.kernels.append(weights)
        if cuts.direct:
            self.stages.append(Stage(weight_kernel.ENTRY, weights.items, (a, c, "b")))
            return self._plan(cuts, ())
        self.workspace["parts"] = weights.workspace_bytes
        self.stages.append(Stage(weight_kernel.ENTRY, weights.items, (a, c, "parts")))
        self.stages.append(Stage(partial_results.ENTRY, weights.adding.items, ("parts", "b")))
        return self._plan(cuts, ())

    def _staged_rows(self) -> Buffer:
        """Read A where it lies, or a copy of it; returns the buffer."""
        spec = self.spec
        if self._is_readable(spec.a):
            return "a"
        groups = 1 if spec.shares_rows else spec.groups
        channels = groups * spec.depth
        phases, dimensions, offset = staged_phases(spec.phases, channels, spec.a)
        self._stage("a", "a_copy", dimensions, (groups, channels), spec.a, offset)
        layout = Channels(spec.element, 1, 0 if spec.shares_rows else spec.depth)
        self.spec = replace(spec, phases=phases, a=layout)
        return "a_copy"

    def _staged_outs(self) -> Buffer:
        """Read C, which is not the result, where it lies, or a copy of it."""
        spec = self.spec
        if self._is_readable(spec.c):
            return "c"
        (phase,) = spec.phases
        dimensions = tuple(Dimension(axis.size, axis.out_stride) for axis in phase.axes)
        channels = spec.groups * spec.columns
        strides = _dense(dimensions, channels)
        axes = tuple(
            replace(axis, out_stride=stride)
            for axis, stride in zip(phase.axes, strides, strict=True)
        )
        sizes = spec.groups, channels
        self._stage("c", "c_copy", dimensions, sizes, spec.c, phase.out_offset)
        layout = Channels(spec.element, 1, spec.columns)
        moved = replace(phase, axes=axes, out_offset=0)
        self.spec = replace(spec, phases=(moved,), c=layout)
        return "c_copy"

    def _is_readable(self, layout: Channels) -> bool:
        return layout.type == self.spec.element and layout.stride == 1

    def _stage(
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
        stage = StageKernel(f"copy_{buffer}", self.lanes, dimensions, channels, layout, offset)
        self.kernels.append(stage)
        self.workspace[copy] = stage.bytes
        self.stages.append(Stage(stage.name, stage.items, (buffer, copy)))

    def _plan(
        self, cuts: Blocking | PlaneCuts | WeightBlocking, prepare: tuple[Stage, ...]
    ) -> ContractionPlan:
        return ContractionPlan(
            self.original, cuts, tuple(self.kernels), self.workspace, prepare, tuple(self.stages)
        )


def _dense(dimensions: tuple[Dimension, ...], channels: int) -> tuple[int, ...]:
    """Elements between positions of a dense `[position][channel]` array."""
    sizes = [dimension.size for dimension in dimensions]
    return tuple(channels * prod(sizes[place + 1 :]) for place in range(len(sizes)))
