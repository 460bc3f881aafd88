"""A kernel that does nothing but the protocol of `partition.cuh`: exact sums, and who did what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.kernels.cuda.tile_schedule.schedule_type import schedule_type

if TYPE_CHECKING:
    from convir.lowering.kernels.cuda.tile_schedule.schedule import Schedule

THREADS = 64
"""Threads that hold sums; as many more do nothing, as warps that only load."""
SUMS = 8
WORKS = 64
"""Works that a unit may log."""
FIELDS = 7


_FIX_UP = f"""
    if (FixUp{{workspace, flags, thread}}(work, [&](int i) -> float& {{ return sums[i]; }})) {{
      for (int i = 0; i < {SUMS}; ++i) to[i * {THREADS} + thread] = sums[i];
    }}
"""
_REDUCE_SCATTER = f"""
    const ReduceScatter fix_up{{workspace, flags, thread}};
    fix_up(work, [&](int i) -> float& {{ return sums[i]; }}, [&](int v, const float4& total) {{
      const float of[] = {{total.x, total.y, total.z, total.w}};
      for (int i = 0; i < 4; ++i) {{
        to[(v / {THREADS} * 4 + i) * {THREADS} + v % {THREADS}] = of[i];
      }}
    }});
"""


def partition_source(schedule: Schedule) -> str:
    """The kernel `combine(terms, workspace, flags, out, log)` for one schedule.

    terms: [tiles][steps][SUMS][THREADS] f32; out: [tiles][SUMS][THREADS] f32, the sums over steps;
    log: [units][WORKS][FIELDS] i32, the works of each unit.
    """
    is_tree = "true" if schedule.partition.reduction == "tree" else "false"
    finish = _REDUCE_SCATTER if schedule.has_shares else _FIX_UP
    return f"""#include "schedule/partition.cuh"

using Schedule = {schedule_type(schedule)};
using FixUp = convir::partition::FixUp<{THREADS}, {SUMS}, {is_tree}, 1>;
using ReduceScatter = convir::partition::ReduceScatter<{THREADS}, {SUMS}, 1>;
static_assert(Schedule::kUnits == {schedule.units}, "as many units as on the host");

extern "C" __global__ void combine(const float* terms, float* workspace, unsigned* flags,
                                   float* out, int* log) {{
  const int thread = threadIdx.x;
  if (thread >= {THREADS}) return;
  convir::partition::Work work;
  int* line = log + blockIdx.x * {WORKS * FIELDS};
  for (Schedule::Walk walk(blockIdx.x); walk.next(work);) {{
    float sums[{SUMS}] = {{}};
    for (int step = work.begin; step < work.end; ++step) {{
      const float* from = terms + (work.tile * {schedule.steps} + step) * {SUMS * THREADS};
      for (int i = 0; i < {SUMS}; ++i) sums[i] += from[i * {THREADS} + thread];
    }}
    if (thread == 0) {{
      const int fields[] = {{work.tile, work.begin, work.end, work.split, work.splits,
                            work.first_unit, work.unit_step}};
      for (int i = 0; i < {FIELDS}; ++i) line[i] = fields[i];
      line += {FIELDS};
    }}
    float* to = out + work.tile * {SUMS * THREADS};
{finish}  }}
}}
"""
