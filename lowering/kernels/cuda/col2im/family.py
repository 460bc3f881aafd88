"""`col2im`: a contraction to few output channels as one matrix product with a column for each tap,
by `sm80_implicit_gemm`, and a launch that adds the columns.

    col2im sm80_implicit_gemm 128x16x32 …
      A[pixel, channel] · B[channel, (tap, n)] --> workspace[(tap, n), pixel] --> C[pixel, n]

Every element of A is read once, and a tile's columns are full, where a window of few output
channels reads A once for each tap, and leaves most columns of a tile empty. See `README.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.col2im.columns import as_product, columns_of
from convir.lowering.kernels.cuda.col2im.predict import add_work, time_of
from convir.lowering.kernels.cuda.epilogue import CPP_TYPES, Epilogue
from convir.lowering.kernels.cuda.launch import CudaKernel, KernelPlan, Pointer
from convir.lowering.kernels.cuda.layout_conversion.copies import copy_launches
from convir.lowering.kernels.cuda.sm80_implicit_gemm.family import SM80_IMPLICIT_GEMM
from convir.lowering.kernels.cuda.sm80_implicit_gemm.problem import problem_source
from convir.lowering.kernels.protocol import Problem

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.col2im.columns import Columns
    from convir.lowering.kernels.cuda.launch import Place
    from convir.lowering.kernels.cuda.layout_conversion.copies import Copy
    from convir.lowering.kernels.protocol import KernelConfig, KernelFamily
    from convir.lowering.kernels.target import Target

FAMILY = "col2im"
THREADS = 128
"""Of a block that adds columns."""
MAX_PHASES = 65535
"""The height of a grid."""


@dataclass(frozen=True)
class Col2imConfig:
    """The kernel that computes the product."""

    inner: KernelConfig

    def __str__(self) -> str:
        """`col2im sm80_implicit_gemm 128x16x32 …`."""
        return f"{FAMILY} {self.inner}"


@dataclass(frozen=True)
class Col2im:
    """The family over another one."""

    inner: KernelFamily
    name: str = FAMILY

    def problem(
        self, contraction: Contraction, epilogue: Epilogue, target: Target
    ) -> Problem | Refusal:
        """The contraction, or why its taps are no columns."""
        del target
        columns = columns_of(contraction)
        return columns if isinstance(columns, Refusal) else Problem(contraction, epilogue)

    def candidates(self, problem: Problem, target: Target) -> tuple[Col2imConfig, ...] | Refusal:
        """The configs of the inner family for the product."""
        columns = columns_of(problem.contraction)
        if isinstance(columns, Refusal):
            return columns
        configs = self.inner.candidates(_product(columns), target)
        if isinstance(configs, Refusal):
            return Refusal(f"as a product, {configs.reason}")
        return tuple(map(Col2imConfig, configs))

    def parse(self, text: str) -> Col2imConfig:
        """The config that prints as `text`.

        Raises:
            ValueError: none does.
        """
        family, _, inner = text.partition(" ")
        if family != FAMILY or inner.partition(" ")[0] != self.inner.name:
            raise ValueError(f"a config of {self.inner.name} follows")
        return Col2imConfig(self.inner.parse(inner))

    def refusal(self, problem: Problem, config: KernelConfig, target: Target) -> Refusal | None:
        """Why a config may not run on `target`; None if it may."""
        columns = columns_of(problem.contraction)
        if isinstance(columns, Refusal):
            return columns
        if len(problem.contraction.phases) > MAX_PHASES:
            return Refusal(f"{len(problem.contraction.phases)} phases are more than a grid has")
        return self.inner.refusal(_product(columns), _own(config).inner, target)

    def predict(self, problem: Problem, config: KernelConfig, target: Target) -> float:
        """µs of the product, and of adding its columns.

        Raises:
            ValueError: the taps are no columns.
        """
        columns = columns_of(problem.contraction)
        if isinstance(columns, Refusal):
            raise ValueError(columns.reason)
        inner = self.inner.predict(_product(columns), _own(config).inner, target)
        return time_of(inner, add_work(columns, target), target)

    def launch(
        self, problem: Problem, config: KernelConfig, target: Target
    ) -> KernelPlan | Refusal:
        """The launches of a config: the product's, and the one that adds its columns."""
        columns = columns_of(problem.contraction)
        if isinstance(columns, Refusal):
            return columns
        plan = self.inner.launch(_product(columns), _own(config).inner, target)
        if isinstance(plan, Refusal):
            return plan
        first = len(plan.workspace)
        places: dict[Place, Pointer] = {"c": Pointer("workspace", first)}
        placed: list[tuple[Copy, Pointer]] = []
        for i, copy in enumerate(columns.copies, first + 1):
            places[copy.operand] = Pointer("workspace", i)
            placed.append((copy, places[copy.operand]))
        inner = plan.resolved(lambda pointer: places.get(pointer.place, pointer))
        return KernelPlan(
            (
                *copy_launches(placed),
                *inner.kernels,
                _adding(problem.epilogue, columns, places["c"]),
            ),
            (*plan.workspace, columns.nbytes, *(copy.nbytes for copy in columns.copies)),
            plan.state,
        )


def _own(config: KernelConfig) -> Col2imConfig:
    if not isinstance(config, Col2imConfig):
        raise TypeError(f"'{config}' is not a config of {FAMILY}")
    return config


def _product(columns: Columns) -> Problem:
    """The product, whose sums are stored as they are."""
    spec = columns.contraction
    sums = Epilogue(
        spec.element,
        spec.element,
        "    const auto y = x;\n",
        f"    const {CPP_TYPES[spec.element]} y = 0;\n",
        rounds_only=True,
        zero_fills_are_zero_sums=True,
    )
    return Problem(as_product(columns), sums)


def _adding(epilogue: Epilogue, columns: Columns, workspace: Pointer) -> CudaKernel:
    """The launch that adds columns, and stores."""
    spec = columns.contraction
    strides = ", ".join(str(axis.out_stride) for axis in columns.axes)
    pointers = [f", const {CPP_TYPES[each.type]}* e{i}" for i, each in enumerate(epilogue.operands)]
    names = ", ".join(f"e{i}" for i in range(len(pointers)))
    source = (
        '#include "col2im/kernel.cuh"\n\n'
        f"{problem_source(spec, epilogue)}\n{epilogue.source}\n"
        "struct Columns {\n"
        f"  static constexpr long long kFirst = {columns.first}, kStep = {columns.step};\n"
        f"  static constexpr long long kPixels = {columns.pixels};\n"
        "  static __device__ constexpr int row(int axis) {\n"
        f"    constexpr int strides[] = {{{strides}}};\n    return strides[axis];\n  }}\n"
        "};\n\n"
        f'extern "C" __global__ void __launch_bounds__({THREADS})\n'
        f"add_columns(const Problem::Sum* columns, Epilogue::Stored* out{''.join(pointers)}) {{\n"
        "  convir::implicit_gemm::add_columns<Problem, Columns, Epilogue>"
        f"(columns, out, {{{names}}});\n}}\n"
    )
    pixels = max(phase.pixels for phase in spec.phases)
    operands = [Pointer("epilogue", i) for i in range(len(epilogue.operands))]
    return CudaKernel(
        source,
        "add_columns",
        (-(-pixels // THREADS), len(spec.phases), 1),
        (THREADS, 1, 1),
        0,
        (workspace, Pointer("c"), *operands),
    )


COL2IM = Col2im(SM80_IMPLICIT_GEMM)
