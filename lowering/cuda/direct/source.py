"""The text that instantiates a direct template: a problem, a schedule, and a kernel's entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from convir.lowering.cuda.direct.problem import DirectPhase, DirectProblem, Taps

SYMBOL = "kernel"
"""The name of every entry."""


def source(
    template: str,
    problem: DirectProblem,
    phases: Sequence[DirectPhase],
    features: Mapping[str, int],
    schedule: Mapping[str, int],
    blocks_per_sm: int,
) -> str:
    """CUDA C++ of one kernel that takes A, B and C.

    Args:
        template: the class in `snake_case.cuh` whose `run` is the kernel.
        problem: sizes and strides.
        phases: in the order that the template wants.
        features: further constants of the problem that the template reads.
        schedule: constants of the schedule.
        blocks_per_sm: blocks whose registers have to fit an SM.
    """
    header = "".join(f"_{c.lower()}" if c.isupper() else c for c in template).lstrip("_")
    rows, cols, weights = problem.rows, problem.cols, problem.contraction.b
    constants = {
        "images": problem.images,
        "a_image": problem.a_image,
        "c_image": problem.c_image,
        "rows": problem.row_count,
        "cols": problem.col_count,
        "row_origin": rows.origin,
        "col_origin": cols.origin,
        "row_step": rows.step,
        "col_step": cols.step,
        "window_rows": rows.window,
        "window_cols": cols.window,
        "a_rows": rows.extent,
        "a_cols": cols.extent,
        "a_row_stride": rows.a_stride,
        "a_col_stride": cols.a_stride,
        "c_row_stride": rows.c_stride,
        "c_col_stride": cols.c_stride,
        "b_depth": weights.depth_stride,
        "b_column": weights.column_stride,
        "b_group": weights.group_stride,
        "phase_count": len(phases),
        **features,
    }
    row_taps = max(1, *(len(phase.rows.positions) for phase in phases))
    col_taps = max(1, *(len(phase.cols.positions) for phase in phases))
    phase_type = f"convir::DirectPhase<{row_taps}, {col_taps}>"
    lines = [
        f'#include "{header}.cuh"',
        "",
        "struct Problem {",
        f"  using Element = {problem.element};",
        *(f"  static constexpr {_type(name)} {name} = {n};" for name, n in constants.items()),
        f"  static constexpr {phase_type} phases[] = {{",
        *(f"      {_phase(phase)}," for phase in phases),
        "  };",
        "};",
        "",
        "struct Schedule {",
        *(f"  static constexpr int {name} = {value};" for name, value in schedule.items()),
        "};",
        "",
        f'extern "C" __global__ void __launch_bounds__({schedule["threads"]}, {blocks_per_sm})',
        f"{SYMBOL}(const {problem.element}* a, const {problem.element}* b, {problem.element}* c) {{",
        f"  convir::{template}<Problem, Schedule>::run(a, b, c);",
        "}",
        "",
    ]
    return "\n".join(lines)


def _type(constant: str) -> str:
    strides = {"a_image", "c_image", "a_row_stride", "c_row_stride", "b_group"}
    return "long long" if constant in strides else "int"


def _phase(phase: DirectPhase) -> str:
    rows, cols = phase.rows, phase.cols
    return (
        f"{{{rows.size}, {cols.size}, {phase.offset}, {_taps(rows)}, {_taps(cols)}}}"
    )


def _taps(taps: Taps) -> str:
    positions = ", ".join(map(str, taps.positions))
    weights = ", ".join(map(str, taps.weights))
    return f"{len(taps.positions)}, {{{positions}}}, {{{weights}}}"
