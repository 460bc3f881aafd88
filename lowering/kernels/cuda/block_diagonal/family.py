"""`merged`: a volume's groups as one, whose weights have zeros between groups, by another template.

    merged wgmma 256x64 …
      B[group, tap, depth, column] --> workspace[tap, all depths, all columns] --> wgmma

Windows of three axes are none of `grouped`'s. Where all channels together are few, a dense product
on `wgmma` takes less time than `igemm` with tiles of one group. See `README.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from convir.dialects.refusal import Refusal
from convir.lowering.contraction.spec import STORAGE_BYTES, Weights
from convir.lowering.kernels.cuda.block_diagonal.predict import time_of
from convir.lowering.kernels.cuda.launch import CudaKernel, KernelPlan, Pointer
from convir.lowering.kernels.cuda.sm90_implicit_gemm.family import SM90_IMPLICIT_GEMM
from convir.lowering.kernels.protocol import Problem

if TYPE_CHECKING:
    from convir.lowering.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.protocol import KernelConfig, KernelFamily
    from convir.lowering.kernels.target import Target

FAMILY = "merged"
MOST_CHANNELS = 256
"""Of all groups together, on either side: a dense product has as many times the products as there
are groups."""
THREADS = 256
"""Of a block that writes weights."""


@dataclass(frozen=True)
class MergedConfig:
    """The kernel that computes all groups as one."""

    inner: KernelConfig

    def __str__(self) -> str:
        """`merged wgmma 256x64 …`."""
        return f"{FAMILY} {self.inner}"


@dataclass(frozen=True)
class Merge:
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
            "merge_groups(const Element* from, Element* to) {\n"
            "  convir::merge_groups<Problem>(from, to);\n}\n"
        )
        blocks = -(-self.nbytes // (nbytes * THREADS))
        pointers = (Pointer("b"), Pointer("workspace", workspace))
        return CudaKernel(source, "merge_groups", (blocks, 1, 1), (THREADS, 1, 1), 0, pointers)


@dataclass(frozen=True)
class BlockDiagonal:
    """The family over another one."""

    inner: KernelFamily
    name: str = FAMILY

    def problem(
        self, contraction: Contraction, epilogue: Epilogue, target: Target
    ) -> Problem | Refusal:
        """The contraction, or why its groups are not merged."""
        merge = merge_of(contraction)
        if isinstance(merge, Refusal):
            return merge
        read = self.inner.problem(merged(contraction, merge), epilogue, target)
        return read if isinstance(read, Refusal) else Problem(contraction, epilogue)

    def candidates(self, problem: Problem, target: Target) -> tuple[MergedConfig, ...] | Refusal:
        """The configs of the inner family for all groups as one."""
        whole = _merged(problem)
        if isinstance(whole, Refusal):
            return whole
        configs = self.inner.candidates(whole[0], target)
        if isinstance(configs, Refusal):
            return Refusal(f"as one group, {configs.reason}")
        return tuple(map(MergedConfig, configs))

    def parse(self, text: str) -> MergedConfig:
        """The config that prints as `text`.

        Raises:
            ValueError: none does.
        """
        family, _, inner = text.partition(" ")
        if family != FAMILY or inner.partition(" ")[0] != self.inner.name:
            raise ValueError(f"a config of {self.inner.name} follows")
        return MergedConfig(self.inner.parse(inner))

    def refusal(self, problem: Problem, config: KernelConfig, target: Target) -> Refusal | None:
        """Why a config may not run on `target`; None if it may."""
        whole = _merged(problem)
        if isinstance(whole, Refusal):
            return whole
        return self.inner.refusal(whole[0], _own(config).inner, target)

    def predict(self, problem: Problem, config: KernelConfig, target: Target) -> float:
        """µs of the launch that merges weights, and of the inner family's.

        Raises:
            ValueError: the groups cannot be merged.
        """
        whole = _merged(problem)
        if isinstance(whole, Refusal):
            raise ValueError(whole.reason)
        inner = self.inner.predict(whole[0], _own(config).inner, target)
        return time_of(inner, whole[1].nbytes, target)

    def launch(
        self, problem: Problem, config: KernelConfig, target: Target
    ) -> KernelPlan | Refusal:
        """The launches of a config: the one that merges weights, and the inner family's."""
        whole = _merged(problem)
        if isinstance(whole, Refusal):
            return whole
        plan = self.inner.launch(whole[0], _own(config).inner, target)
        if isinstance(plan, Refusal):
            return plan
        workspace = len(plan.workspace)
        weights = Pointer("workspace", workspace)
        inner = plan.resolved(lambda pointer: weights if pointer.place == "b" else pointer)
        merge = whole[1]
        return KernelPlan(
            (merge.kernel(workspace), *inner.kernels), (*plan.workspace, merge.nbytes), plan.state
        )


def _own(config: KernelConfig) -> MergedConfig:
    if not isinstance(config, MergedConfig):
        raise TypeError(f"'{config}' is no config of {FAMILY}")
    return config


def _merged(problem: Problem) -> tuple[Problem, Merge] | Refusal:
    """The problem with all groups as one, or why they are not merged."""
    merge = merge_of(problem.contraction)
    if isinstance(merge, Refusal):
        return merge
    return Problem(merged(problem.contraction, merge), problem.epilogue), merge


def merge_of(spec: Contraction) -> Merge | Refusal:
    """How the weights of a contraction are merged, or why its groups are not."""
    b = spec.b
    if spec.groups == 1 or spec.result != "C":
        return Refusal("there are no groups, or weights are what is computed")
    if all(phase.taps <= 1 for phase in spec.phases):
        return Refusal("it has no window")
    channels = spec.groups * max(spec.depth, spec.columns)
    if channels > MOST_CHANNELS:
        return Refusal(f"{channels} channels of all groups are many")
    if (spec.a.group_stride, spec.c.group_stride) != (spec.depth, spec.columns):
        return Refusal("groups are not neighbours in memory")
    if b.column_stride == 1:
        run, count, stride = spec.columns, spec.depth, b.depth_stride
    else:
        run, count, stride = spec.depth, spec.columns, b.column_stride
    offsets = [at for phase in spec.phases for axis in phase.axes for at in axis.tap_weights]
    is_lines = 1 in (b.column_stride, b.depth_stride) and b.group_stride == count * stride
    if not is_lines or any(offset % run for offset in (stride, *offsets)):
        return Refusal("weights of a group are no lines")
    return Merge(b, spec.groups, spec.groups * count * (stride // run), run)


def merged(spec: Contraction, merge: Merge) -> Contraction:
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
    if b.column_stride == 1:
        weights = Weights(b.type, groups * b.depth_stride, 1)
    else:
        weights = Weights(b.type, 1, groups * b.column_stride)
    return replace(
        spec,
        phases=phases,
        depth=groups * spec.depth,
        columns=groups * spec.columns,
        a=replace(spec.a, group_stride=0),
        b=weights,
        c=replace(spec.c, group_stride=0),
        groups=1,
    )


BLOCK_DIAGONAL = BlockDiagonal(SM90_IMPLICIT_GEMM)
