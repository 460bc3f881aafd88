"""What may stand for a contraction on a GPU: what is measured, and recorded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.signature import signature_of
from convir.lowering.implementations import GEMM
from convir.lowering.kernels.cuda.problem import ContractionProblem, read_problem
from convir.lowering.kernels.library import predict as library
from convir.lowering.kernels.library.gemm_call import GemmCall, match_gemm
from convir.lowering.kernels.registry import legal_plans, plan_on, rank

if TYPE_CHECKING:
    from collections.abc import Mapping

    from convir.dialects.kernel import ops as kernel
    from convir.lowering.kernels.cuda.launch import CudaKernel
    from convir.lowering.kernels.target import Target

FURTHER_SHARE = 4
"""Tuning measures one config of each further family for so many configs of the preferred one."""

INNER_WORDS = {"layout_conversion": 3, "block_diagonal": 2, "col2im": 2}
"""Words of a config by which the families inside of a family differ."""


@dataclass(frozen=True)
class Candidates:
    """The configs of one kernel on one GPU."""

    problem: ContractionProblem
    gpu: Target
    has_gemm: bool
    """Whether a library's GEMM computes it."""

    @property
    def tf32(self) -> bool:
        """Whether it multiplies f32 as TF32."""
        return self.problem.contraction.tf32

    @property
    def signature(self) -> str:
        """What the kernel computes: the key of its record."""
        return signature_of(self.problem.contraction, self.problem.epilogue.signature)

    @cached_property
    def launches(self) -> Mapping[str, tuple[CudaKernel, ...]]:
        """What every legal config launches, without a library's kernels; by predicted time."""
        found: dict[str, tuple[CudaKernel, ...]] = {}
        problem = self.problem
        library_us = (
            library.predict(problem.contraction, problem.epilogue, self.gpu)
            if self.has_gemm
            else None
        )
        for prediction, plan in legal_plans(problem, self.gpu):
            if library_us is not None and library_us <= prediction.us:
                found.setdefault(GEMM, ())
            found[str(prediction.config)] = plan.kernels
        if library_us is not None:
            found.setdefault(GEMM, ())
        return found

    def fastest(self, count: int) -> tuple[str, ...]:
        """The legal configs with the least predicted time, a library's GEMM among them."""
        found: list[str] = []
        library_us = inf
        if self.has_gemm:
            spec, epilogue = self.problem.contraction, self.problem.epilogue
            library_us = library.predict(spec, epilogue, self.gpu)
        for prediction in rank(self.problem.problem, self.gpu).predictions:
            if library_us <= prediction.us:
                found.append(GEMM)
                library_us = inf
            if len(found) >= count:
                break
            config = str(prediction.config)
            if self.refusal(config) is None:
                found.append(config)
        if library_us < inf:
            found.append(GEMM)
        return tuple(found[:count])

    def likely(self, most: int) -> Mapping[str, tuple[CudaKernel, ...]]:
        """What `launches` says of configs that may be the fastest: the library's, the first `most`
        of the family that is predicted to be fastest, and the first few of each further one."""
        found: dict[str, tuple[CudaKernel, ...]] = {}
        counts: dict[str, int] = {}
        for config, launches in self.launches.items():
            if config == GEMM:
                found[config] = launches
                continue
            words = config.split(" ")
            family = " ".join(words[: INNER_WORDS.get(words[0], 1)])
            counts[family] = counts.get(family, 0) + 1
            preferred = family == next(iter(counts))
            if counts[family] <= (most if preferred else -(-most // FURTHER_SHARE)):
                found[config] = launches
        return found

    def refusal(self, config: str) -> Refusal | None:
        """Why a config from anywhere is not legal here; None if it is."""
        if config == GEMM:
            return None if self.has_gemm else Refusal("it is not a GEMM of the library")
        plan = plan_on(self.gpu, self.problem, config)
        return plan if isinstance(plan, Refusal) else None


def candidates_of(function: kernel.FuncOp, gpu: Target) -> Candidates | Refusal:
    """The configs of a kernel, or why nothing but loops computes it."""
    problem = read_problem(function)
    if isinstance(problem, Refusal):
        return problem
    return Candidates(problem, gpu, isinstance(match_gemm(function), GemmCall))
