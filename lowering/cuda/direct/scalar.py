"""Small convolutions without tensor cores: `templates/scalar_direct.cuh`.

f32 is multiplied as IEEE has it; groups of one channel, in any type, have one product for each
element that a tap reads, so plain cores keep up with memory.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import gcd

from convir.dialects.refusal import Refusal
from convir.lowering.contraction.spec import STORAGE_BYTES
from convir.lowering.cuda.direct.problem import DirectProblem
from convir.lowering.cuda.direct.source import source

VECTOR_BYTES = 16


@dataclass(frozen=True)
class ScalarSchedule:
    """How threads share the work."""

    vector: int
    """Neighbouring output channels of a thread."""
    read: int
    """Channels of A in one load, where a group has several."""
    unroll_rows: int
    """Output rows of a thread."""
    run: int
    """Output columns of a thread."""
    threads: int
    blocks_per_sm: int


def vectors(problem: DirectProblem) -> tuple[int, int] | Refusal:
    """The widest (columns of C, channels of A) of a thread that neighbours and alignment allow."""
    spec = problem.contraction
    widest = VECTOR_BYTES // STORAGE_BYTES[spec.a.type]
    depthwise = spec.depth == 1 and spec.columns == 1
    if not depthwise and spec.a.type != "f32":
        return Refusal("it is neither f32 nor depthwise")
    a_strides = (problem.a_image, problem.rows.a_stride, problem.cols.a_stride)
    offsets = (phase.offset for phase in problem.phases)
    c_strides = (problem.c_image, problem.rows.c_stride, problem.cols.c_stride, *offsets)
    if depthwise:
        both = gcd(widest, spec.groups, *a_strides, *c_strides)
        return both, both
    return gcd(widest, spec.columns, *c_strides), gcd(widest, spec.depth, *a_strides)


def shared_bytes(problem: DirectProblem) -> int:
    """Shared memory of a block: the weights as f32."""
    spec = problem.contraction
    return max(1, problem.taps) * spec.depth * spec.groups * spec.columns * STORAGE_BYTES["f32"]


def scalar_source(problem: DirectProblem, schedule: ScalarSchedule) -> str:
    """CUDA C++ of the kernel."""
    spec = problem.contraction
    constants = asdict(schedule) | {"shared_bytes": shared_bytes(problem)}
    del constants["blocks_per_sm"]
    features = {"depth": spec.depth, "columns": spec.columns, "groups": spec.groups}
    return source(
        "ScalarDirect", problem, problem.phases, features, constants, schedule.blocks_per_sm
    )
