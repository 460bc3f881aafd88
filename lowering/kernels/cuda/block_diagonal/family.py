"""`block_diagonal`: a volume's groups as one, whose weights have zeros between groups, by another
kernel family.

    block_diagonal sm90_implicit_gemm 256x64 …
      B[group, tap, depth, column] --> workspace[tap, all input channels, all columns] --> wgmma

Windows of three axes are none of `grouped_direct`'s. Where all channels together are few, a dense
product on `wgmma` takes less time than `sm80_implicit_gemm` with tiles of one group. See
`README.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.spec import STORAGE_BYTES, Weights
from convir.lowering.kernels.cuda.block_diagonal.predict import time_of
from convir.lowering.kernels.cuda.launch import CudaKernel, KernelPlan, Pointer
from convir.lowering.kernels.cuda.sm90_implicit_gemm.family import SM90_IMPLICIT_GEMM
from convir.lowering.kernels.protocol import Problem

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.protocol import KernelConfig, KernelFamily
    from convir.lowering.kernels.target import Target

FAMILY = "block_diagonal"
MOST_CHANNELS = 256
"""Of all groups together, on either side: a dense product has as many times the products as there
are groups."""
THREADS = 256
"""Of a block that writes weights."""


@dataclass(frozen=True)
class BlockDiagonalConfig:
    """The kernel that computes all groups as one."""

    inner: KernelConfig

    def __str__(self) -> str:
        """`block_diagonal sm90_implicit_gemm 256x64 …`."""
        return f"{FAMILY} {self.inner}"


@dataclass(frozen=True)
class BlockDiagonalFilter:
    """Weights of groups on their way to those of one: lines, each of which is its group's."""

    weights: Weights
    groups: int
    lines: int
    """Of all groups; those of a group follow each other."""
    run: int
    """Elements of a line."""

    @property
    def nbytes(self) -> int:
        """Bytes of the merged weights."""
        return self.lines * self.groups * self.run * STORAGE_BYTES[self.weights.type]

    def kernel(self, workspace: int) -> CudaKernel:
        """The launch that writes them to a workspace."""
        nbytes = STORAGE_BYTES[self.weights.type]
        source = (
            '#include "block_diagonal/kernel.cuh"\n\n'
            "struct Problem {\n"
            f"  static constexpr int kBytes = {nbytes}, kGroups = {self.groups};\n"
            f"  static constexpr int kLines = {self.lines}, kRun = {self.run};\n"
            "};\n\n"
            f"using Element = convir::Word<{nbytes}>::Type;\n"
            f'extern "C" __global__ void __launch_bounds__({THREADS})\n'
            "pack_groups(const Element* from, Element* to) {\n"
            "  convir::pack_groups<Problem>(from, to);\n}\n"
        )
        blocks = -(-self.nbytes // (nbytes * THREADS))
        pointers = (Pointer("b"), Pointer("workspace", workspace))
        return CudaKernel(source, "pack_groups", (blocks, 1, 1), (THREADS, 1, 1), 0, pointers)


@dataclass(frozen=True)
class BlockDiagonal:
    """The family over another one."""

    inner: KernelFamily
    name: str = FAMILY

    def problem(
        self, contraction: Contraction, epilogue: Epilogue, target: Target
    ) -> Problem | Refusal:
        """The contraction, or why its groups are not merged."""
        filter_ = block_diagonal_of(contraction)
        if isinstance(filter_, Refusal):
            return filter_
        read = self.inner.problem(as_one_group(contraction, filter_), epilogue, target)
        return read if isinstance(read, Refusal) else Problem(contraction, epilogue)

    def candidates(
        self, problem: Problem, target: Target
    ) -> tuple[BlockDiagonalConfig, ...] | Refusal:
        """The configs of the inner family for all groups as one."""
        whole = _as_one_group(problem)
        if isinstance(whole, Refusal):
            return whole
        configs = self.inner.candidates(whole[0], target)
        if isinstance(configs, Refusal):
            return Refusal(f"as one group, {configs.reason}")
        return tuple(map(BlockDiagonalConfig, configs))

    def parse(self, text: str) -> BlockDiagonalConfig:
        """The config that prints as `text`.

        Raises:
            ValueError: none does.
        """
        family, _, inner = text.partition(" ")
        if family != FAMILY or inner.partition(" ")[0] != self.inner.name:
            raise ValueError(f"a config of {self.inner.name} follows")
        return BlockDiagonalConfig(self.inner.parse(inner))

    def refusal(self, problem: Problem, config: KernelConfig, target: Target) -> Refusal | None:
        """Why a config may not run on `target`; None if it may."""
        whole = _as_one_group(problem)
        if isinstance(whole, Refusal):
            return whole
        return self.inner.refusal(whole[0], _own(config).inner, target)

    def predict(self, problem: Problem, config: KernelConfig, target: Target) -> float:
        """µs of the launch that merges weights, and of the inner family's.

        Raises:
            ValueError: the groups cannot be merged.
        """
        whole = _as_one_group(problem)
        if isinstance(whole, Refusal):
            raise ValueError(whole.reason)
        inner = self.inner.predict(whole[0], _own(config).inner, target)
        return time_of(inner, whole[1].nbytes, target)

    def launch(
        self, problem: Problem, config: KernelConfig, target: Target
    ) -> KernelPlan | Refusal:
        """The launches of a config: the one that merges weights, and the inner family's."""
        whole = _as_one_group(problem)
        if isinstance(whole, Refusal):
            return whole
        plan = self.inner.launch(whole[0], _own(config).inner, target)
        if isinstance(plan, Refusal):
            return plan
        workspace = len(plan.workspace)
        weights = Pointer("workspace", workspace)
        inner = plan.resolved(lambda pointer: weights if pointer.place == "b" else pointer)
        filter_ = whole[1]
        return KernelPlan(
            (filter_.kernel(workspace), *inner.kernels),
            (*plan.workspace, filter_.nbytes),
            plan.state,
        )


def _own(config: KernelConfig) -> BlockDiagonalConfig:
    if not isinstance(config, BlockDiagonalConfig):
        raise TypeError(f"'{config}' is not a config of {FAMILY}")
    return config


def _as_one_group(problem: Problem) -> tuple[Problem, BlockDiagonalFilter] | Refusal:
    """The problem with all groups as one, or why they are not merged."""
    filter_ = block_diagonal_of(problem.contraction)
    if isinstance(filter_, Refusal):
        return filter_
    return Problem(as_one_group(problem.contraction, filter_), problem.epilogue), filter_


def block_diagonal_of(spec: Contraction) -> BlockDiagonalFilter | Refusal:
    """How the weights of a contraction are merged, or why its groups are not."""
    b = spec.b
    if spec.groups == 1 or spec.result != "C":
        return Refusal("there are no groups, or weights are what is computed")
    if all(phase.taps <= 1 for phase in spec.phases):
        return Refusal("it has no window")
    channels = spec.groups * max(spec.in_channels, spec.out_channels)
    if channels > MOST_CHANNELS:
        return Refusal(f"{channels} channels of all groups are many")
    if (spec.a.group_stride, spec.c.group_stride) != (spec.in_channels, spec.out_channels):
        return Refusal("groups are not contiguous in memory")
    if b.out_channel_stride == 1:
        run, count, stride = spec.out_channels, spec.in_channels, b.in_channel_stride
    else:
        run, count, stride = spec.in_channels, spec.out_channels, b.out_channel_stride
    offsets = [at for phase in spec.phases for axis in phase.axes for at in axis.tap_weights]
    is_lines = 1 in (b.out_channel_stride, b.in_channel_stride) and b.group_stride == count * stride
    if not is_lines or any(offset % run for offset in (stride, *offsets)):
        return Refusal("weights of a group are no lines")
    return BlockDiagonalFilter(b, spec.groups, spec.groups * count * (stride // run), run)


def as_one_group(spec: Contraction, filter_: BlockDiagonalFilter) -> Contraction:
    """`spec` as one group on merged weights."""
    groups, b = spec.groups, spec.b
    phases = tuple(
        replace(
            phase,
            axes=tuple(
                replace(axis, tap_weights=tuple(groups * at for at in axis.tap_weights))
                for axis in phase.axes
            ),
        )
        for phase in spec.phases
    )
    if b.out_channel_stride == 1:
        weights = Weights(b.type, groups * b.in_channel_stride, 1)
    else:
        weights = Weights(b.type, 1, groups * b.out_channel_stride)
    return replace(
        spec,
        phases=phases,
        in_channels=groups * spec.in_channels,
        out_channels=groups * spec.out_channels,
        a=replace(spec.a, group_stride=0),
        b=weights,
        c=replace(spec.c, group_stride=0),
        groups=1,
    )


BLOCK_DIAGONAL = BlockDiagonal(SM90_IMPLICIT_GEMM)
