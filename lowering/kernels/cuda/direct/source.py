"""The text that instantiates a direct kernel family, and its launch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.direct.problem import Slices, direct_problem
from convir.lowering.kernels.cuda.epilogue import CPP_TYPES
from convir.lowering.kernels.cuda.epilogue_operands import linear_operands, operands_source
from convir.lowering.kernels.cuda.launch import CudaKernel, KernelPlan, Pointer, TensorMap
from convir.lowering.kernels.cuda.sizes import Sizes
from convir.lowering.kernels.cuda.tile_schedule.schedule import COUNTER_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from convir.lowering.bodies.contraction.spec import Contraction, Result
    from convir.lowering.kernels.cuda.direct.problem import DirectPhase, DirectProblem, Taps
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.epilogue_operands import LinearOperand
    from convir.lowering.kernels.protocol import Size

Features = TypeVar("Features")

SYMBOL: Final = "direct"
"""The name of every entry."""

_A = Pointer("a")


def _operands(
    contraction: Contraction, epilogue: Epilogue, result: Result
) -> tuple[LinearOperand, ...] | Refusal:
    """What the epilogue reads besides the accumulators, or why no direct kernel family does."""
    if result == "B" and epilogue.operands:
        return Refusal("its epilogue reads further operands")
    return linear_operands(contraction, epilogue)


def reading(
    contraction: Contraction,
    epilogue: Epilogue,
    features_of: Callable[[DirectProblem], Features | Refusal],
    result: Result = "C",
    *,
    anywhere: bool = False,
    planes: bool = False,
) -> tuple[DirectProblem, Features] | Refusal:
    """A contraction as a kernel family sees it, with what that kernel family asks of it besides.

    Args:
        contraction: what is computed.
        epilogue: what is applied before the store.
        features_of: reads what only one kernel family needs, or says why it does not take the
        problem. result: the operand that the kernel family computes. anywhere: whether it takes
        channels that are not innermost, and windows of slices. planes: whether it takes those of C
        alone.
    """
    if planes and contraction.a.stride != 1:
        return Refusal("channels are not innermost")
    are_planes = planes and contraction.c.stride != 1
    problem = direct_problem(contraction, result, anywhere=anywhere or are_planes)
    if isinstance(problem, Refusal):
        return problem
    if are_planes and problem.slices != Slices():
        return Refusal("it is not an image of rows and columns")
    operands = _operands(contraction, epilogue, result)
    if isinstance(operands, Refusal):
        return operands
    problem = replace(problem, operands=operands)
    features = features_of(problem)
    return features if isinstance(features, Refusal) else (problem, features)


def launch(
    header: str,
    template: str,
    problem: DirectProblem,
    epilogue: Epilogue,
    features: Mapping[str, Size],
    schedule: Mapping[str, int],
    grid: int,
    blocks_per_sm: int,
    rows: Pointer | TensorMap = _A,
    stores: TensorMap | None = None,
) -> KernelPlan:
    """One launch of a kernel family on A, B and C.

    Args:
        header: what the source includes.
        template: the class whose `run` is the kernel.
        problem: sizes and strides.
        epilogue: what is applied before the store.
        features: further sizes of the problem that the kernel family reads.
        schedule: constants of the schedule; `threads` and `shared_bytes` of a block among them.
        grid: blocks.
        blocks_per_sm: blocks whose registers have to fit a multiprocessor.
        rows: how A is given.
        stores: the map by which C is stored, if the kernel family asks TMA for that.
    """
    element = problem.element
    names = [f"e{i}" for i in range(len(epilogue.operands))]
    pointers = "".join(
        f", const {CPP_TYPES[operand.type]}* {name}"
        for name, operand in zip(names, epilogue.operands, strict=True)
    )
    target = f"{{c, {{{', '.join(names)}}}}}"
    given = _parameter(rows, element, "a")
    handed = [_passed(rows, "a"), "b", target]
    maps = () if stores is None else (stores,)
    if stores is not None:
        pointers += f", {_parameter(stores, element, 'c_map')}"
        handed.append(_passed(stores, "c_map"))
    sizes = _sizes(problem, epilogue, features)
    parameters = ", ".join(
        [f"{given}, const {element}* b, {element}* c{pointers}", *sizes.parameters]
    )
    handed += sizes.scalars
    definitions = _definitions(header, problem, epilogue, sizes, schedule)
    entry = _entry(template, schedule["threads"], blocks_per_sm, parameters, ", ".join(handed))
    kernel = CudaKernel(
        "\n".join([*definitions, *entry]),
        SYMBOL,
        (grid, 1, 1),
        (schedule["threads"], 1, 1),
        schedule["shared_bytes"],
        (
            rows,
            Pointer("b"),
            Pointer("c"),
            *(Pointer("epilogue", i) for i in range(len(names))),
            *maps,
            *sizes.arguments,
        ),
    )
    return KernelPlan((kernel,))


def launch_reduction(
    header: str,
    template: str,
    problem: DirectProblem,
    epilogue: Epilogue,
    features: Mapping[str, Size],
    schedule: Mapping[str, int],
    operands: tuple[Pointer | TensorMap, Pointer | TensorMap],
    owners: int,
    blocks_per_sm: int,
    accumulator_bytes: int,
    *,
    blocks_meet: bool = True,
) -> KernelPlan:
    """One launch of a kernel family whose blocks publish accumulators of B, and add them.

    Args:
        header: what the source includes.
        template: the class whose `run` is the kernel.
        problem: sizes and strides.
        epilogue: what is applied before the store.
        features: further sizes of the problem that the kernel family reads.
        schedule: constants of the schedule; `threads`, `splits` and `shared_bytes` among them.
        operands: how A and C are given.
        owners: blocks whose accumulators differ; there are `splits` of each, which share a counter.
        blocks_per_sm: blocks whose registers have to fit a multiprocessor.
        accumulator_bytes: what a block publishes.
        blocks_meet: whether blocks wait for each other and each adds a slice; else the last one
            adds all.
    """
    rows, gradients = operands
    element, threads, needed = problem.element, schedule["threads"], schedule["shared_bytes"]
    given = f"{_parameter(rows, element, 'a')}, {_parameter(gradients, element, 'c')}"
    sizes = _sizes(problem, epilogue, features)
    parameters = ", ".join(
        [f"{given}, {element}* b, float* parts, unsigned* counters", *sizes.parameters]
    )
    operands_of = f"{_passed(rows, 'a')},\n      {_passed(gradients, 'c')}, b, parts, counters"
    handed = ", ".join([operands_of, *sizes.scalars])
    definitions = _definitions(header, problem, epilogue, sizes, schedule)
    entry = _entry(template, threads, blocks_per_sm, parameters, handed)
    units = owners * schedule["splits"]
    kernel = CudaKernel(
        "\n".join([*definitions, *entry]),
        SYMBOL,
        (units, 1, 1),
        (threads, 1, 1),
        needed,
        (rows, gradients, Pointer("b"), Pointer("workspace"), Pointer("state"), *sizes.arguments),
        is_cooperative=blocks_meet and schedule["splits"] > 1,
    )
    return KernelPlan((kernel,), (units * accumulator_bytes,), (owners * COUNTER_BYTES,))


def _entry(
    template: str, threads: int, blocks_per_sm: int, parameters: str, handed: str
) -> list[str]:
    """The lines of the entry, which hands its parameters to the kernel family's `run`."""
    return [
        f'extern "C" __global__ void __launch_bounds__({threads}, {blocks_per_sm})',
        f"{SYMBOL}({parameters}) {{",
        f"  convir::{template}<Problem, Schedule>::run({handed});",
        "}",
        "",
    ]


def _parameter(operand: Pointer | TensorMap, element: str, name: str) -> str:
    """The parameter of an entry that is an operand: a pointer, or a map by value."""
    if isinstance(operand, TensorMap):
        return f"const __grid_constant__ convir::hopper::TensorMap {name}"
    return f"const {element}* {name}"


def _passed(operand: Pointer | TensorMap, name: str) -> str:
    """What the entry hands to the kernel family."""
    return f"&{name}" if isinstance(operand, TensorMap) else name


def _definitions(
    header: str,
    problem: DirectProblem,
    epilogue: Epilogue,
    sizes: Sizes,
    schedule: Mapping[str, int],
) -> list[str]:
    """The lines before the entries of a source: includes, `Epilogue`, `Problem`, `Schedule`."""
    phases = problem.phases
    row_taps = max(1, *(len(phase.rows.pixels) for phase in phases))
    col_taps = max(1, *(len(phase.cols.pixels) for phase in phases))
    phase_type = f"convir::DirectPhase<{row_taps}, {col_taps}>"
    return [
        f'#include "{header}"',
        '#include "arith/scalars.cuh"',
        "",
        epilogue.source,
        operands_source(problem.operands, epilogue),
        "struct Problem {",
        f"  using Element = {problem.element};",
        "  using Epilogue = ::Epilogue;",
        "  using Operands = ::Operands;",
        *(f"  static constexpr {_type(name)} {name} = {n};" for name, n in sizes.constants.items()),
        f"  static constexpr {phase_type} phases[] = {{",
        *(f"      {_phase(phase)}," for phase in phases),
        "  };",
        "};",
        "",
        "struct Schedule {",
        *(f"  static constexpr int {name} = {value};" for name, value in schedule.items()),
        "};",
        "",
    ]


def _sizes(problem: DirectProblem, epilogue: Epilogue, features: Mapping[str, Size]) -> Sizes:
    rows, cols, weights = problem.rows, problem.cols, problem.contraction.b
    sizes: dict[str, Size] = {
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
        "b_in_channel": weights.in_channel_stride,
        "b_out_channel": weights.out_channel_stride,
        "b_group": weights.group_stride,
        "phase_count": len(problem.phases),
        "rounds_only": int(epilogue.rounds_only),
        "zero_accumulators": int(epilogue.zero_fills_are_zero_sums),
    }
    return Sizes.of(sizes | dict(features))


def slice_features(slices: Slices) -> dict[str, int]:
    """The constants by which a kernel family walks through slices."""
    return {
        "slices": slices.size,
        "slice_taps": slices.taps,
        "a_slices": slices.extent,
        "slice_step": slices.step,
        "slice_origin": slices.row,
        "slice_tap_step": slices.row_step,
        "slice_weight": slices.weight,
        "slice_weight_step": slices.weight_step,
        "a_slice": slices.a_stride,
        "c_slice": slices.c_stride,
    }


def _type(constant: str) -> str:
    wide = {"a_image", "c_image", "a_row_stride", "c_row_stride", "b_group"}
    wide |= {"a_group", "a_channel", "c_group", "c_channel"}
    wide |= {"a_slice", "c_slice", "slice_weight", "slice_weight_step"}
    return "long long" if constant in wide else "int"


def _phase(phase: DirectPhase) -> str:
    rows, cols = phase.rows, phase.cols
    return f"{{{rows.size}, {cols.size}, {phase.offset}, {_taps(rows)}, {_taps(cols)}}}"


def _taps(taps: Taps) -> str:
    pixels = ", ".join(map(str, taps.pixels))
    weights = ", ".join(map(str, taps.weights))
    return f"{len(taps.pixels)}, {{{pixels}}}, {{{weights}}}"
