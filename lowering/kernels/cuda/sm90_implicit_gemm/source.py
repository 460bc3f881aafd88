"""The generated text of a wgmma kernel: tables, the `Problem` struct and the named instance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from convir.lowering.kernels.cuda.epilogue import CPP_TYPES
from convir.lowering.kernels.cuda.epilogue_operands import operands_source
from convir.lowering.kernels.cuda.sizes import Sizes, value_of
from convir.lowering.kernels.cuda.sm80_implicit_gemm.problem import any_images, problem_source
from convir.lowering.kernels.cuda.sm90_implicit_gemm.config import THREADS, shared_bytes
from convir.lowering.kernels.cuda.sm90_implicit_gemm.problem import (
    ALIGNMENT,
    MAX_SPATIAL,
    PIECE_CHUNKS,
    Sm90ImplicitGemmProblem,
    of_image,
)
from convir.lowering.kernels.cuda.sm90_implicit_gemm.tile_order import tile_order_of, tiles_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.sm90_implicit_gemm.config import Sm90ImplicitGemmConfig

SYMBOL, SPLIT_SYMBOL = "sm90_implicit_gemm", "split_filter"
SPLIT_THREADS = 256

_SCHEDULES = {"cooperative": "convir::wgmma::kCooperative", "pingpong": "convir::wgmma::kPingPong"}


def source_of(
    contraction: Contraction,
    epilogue: Epilogue,
    problem: Sm90ImplicitGemmProblem,
    config: Sm90ImplicitGemmConfig,
) -> str:
    """CUDA C++ with the kernel `SYMBOL`.

    Its arguments are C, the operands of the epilogue, `problem.images` if launches hand it over,
    the workspace and the counters of splits if there are any, the tensor map of C if its boxes are
    stored, that of B, and those of A.
    """
    images = Sizes.of({"images": problem.images})
    is_split, is_f32 = config.splits > 1, config.products > 1
    has_boxes = problem.planes.lines > 0
    tile_order = () if is_split else tile_order_of(tiles_of(problem, config), config.blocks) or ()
    tables = [table for table in _tables(problem, config, tile_order) if table.rows]
    names = [f"a{i}" for i in range(len(problem.maps))]
    maps = ", ".join(f"const __grid_constant__ TensorMap {name}" for name in ("b", *names))
    operands = [f"e{i}" for i in range(len(epilogue.operands))]
    given = [
        "Epilogue::Stored* c",
        *(
            f"const {CPP_TYPES[operand.type]}* {name}"
            for name, operand in zip(operands, epilogue.operands, strict=True)
        ),
        *images.parameters,
        *(["float* workspace", "unsigned* counters"] if is_split else []),
        *(["const float* elements_of_a", "const float* elements_of_b"] if is_f32 else []),
        *(["const __grid_constant__ TensorMap planes"] if has_boxes else []),
        maps,
    ]
    splits = ["workspace", "counters"] if is_split else ["nullptr", "nullptr"]
    splits = ["{elements_of_a, elements_of_b}"] if is_f32 else splits
    planes = [] if is_f32 else ["&planes" if has_boxes else "nullptr"]
    handed = ["c", braced(operands), *(images.scalars or ["1"]), *splits, *planes, "b", *names]
    return (
        f"// {config}\n"
        f'#include "sm90_implicit_gemm/{"split" if is_f32 else "kernel"}.cuh"\n'
        "using convir::hopper::TensorMap;\n"
        + epilogue.source
        + operands_source(problem.operands, epilogue, problem.planes.channel_stride)
        + (_elements_source(contraction, epilogue) if is_f32 else "")
        + "".join(table.text for table in tables)
        + "struct Problem {\n"
        f"  using Input = {CPP_TYPES[contraction.a.type]};\n"
        "  using Epilogue = ::Epilogue;\n"
        "  using Operands = ::Operands;\n"
        + ("  using Elements = ::Elements;\n" if is_f32 else "")
        + "".join(
            f"  static constexpr int {name} = {value};\n"
            for name, value in _constants(contraction, problem, config).items()
        )
        + problem.planes.source
        + f"  static constexpr int kOrdered = {max(map(len, tile_order), default=0)};\n"
        + "".join(table.accessor for table in tables)
        + "};\n"
        f"using Config = {_config(config)};\n"
        f'extern "C" __global__ void __launch_bounds__({THREADS}, 1)\n'
        f"{SYMBOL}({', '.join(given)}) {{\n"
        f"  convir::wgmma::{'contract_split' if is_f32 else 'contract'}<Problem, Config>"
        f"({', '.join(handed)});\n"
        "}\n"
    )


def _elements_source(contraction: Contraction, epilogue: Epilogue) -> str:
    """Where the elements of the operands lie, by which results that are not finite are computed
    again: phases in the order of the problem's. The code has any number of images."""
    active = [phase for phase in contraction.phases if phase.taps]
    ordered = sorted(active, key=lambda phase: (-phase.taps, -phase.pixels))
    phases = tuple(replace(phase, axes=any_images(phase.axes)) for phase in ordered)
    return problem_source(replace(contraction, phases=phases), epilogue, "Elements")


def split_source(count: int) -> str:
    """CUDA C++ with the kernel `SPLIT_SYMBOL`, which splits `count` elements of B."""
    return (
        '#include "sm90_implicit_gemm/split.cuh"\n'
        f'extern "C" __global__ void __launch_bounds__({SPLIT_THREADS})\n'
        f"{SPLIT_SYMBOL}(const float* b, float* halves) {{\n"
        f"  convir::wgmma::split_filter(b, halves, {count}ll);\n}}\n"
    )


def _config(config: Sm90ImplicitGemmConfig) -> str:
    values = (
        config.block_m,
        config.block_n,
        config.stages,
        _SCHEDULES[config.schedule],
        config.store_channels,
        config.splits,
        config.products,
    )
    return f"convir::wgmma::Config<{', '.join(map(str, values))}>"


def _constants(
    contraction: Contraction, problem: Sm90ImplicitGemmProblem, config: Sm90ImplicitGemmConfig
) -> dict[str, int]:
    return {
        "kInChannels": contraction.in_channels,
        "kOutChannels": problem.out_channels,
        "kSpatial": problem.spatial,
        "kFilterByInChannel": int(problem.filter_by_in_channel),
        "kPieces": len(problem.pieces),
        "kPieceChannels": problem.out_channels // len(problem.pieces),
        "kPhases": len(problem.phases),
        "kTaps": sum(len(phase.taps) for phase in problem.phases),
        "kTileGroups": len(problem.groups()),
        "kCellZeroFills": len(problem.cell_zero_fills),
        "kFusedZeroFills": problem.fused_zero_fills,
        "kRowPixels": problem.row_pixels,
        "kZeroFills": len(problem.zero_fills),
        "kPieceChunks": PIECE_CHUNKS,
        "kSharedBytes": shared_bytes(problem, config),
    }


@dataclass(frozen=True)
class _Table:
    """An array in constant memory, and the function of `Problem` that reads it."""

    type: str
    name: str
    rows: tuple[str, ...]

    @property
    def text(self) -> str:
        body = "".join(f"    {row},\n" for row in self.rows)
        return f"__constant__ const convir::wgmma::{self.type} {self.name}s[] = {{\n{body}}};\n"

    @property
    def accessor(self) -> str:
        return (
            f"  static __device__ const convir::wgmma::{self.type}& {self.name}(int i) "
            f"{{ return {self.name}s[i]; }}\n"
        )


def _tables(
    problem: Sm90ImplicitGemmProblem,
    config: Sm90ImplicitGemmConfig,
    tile_order: Sequence[Sequence[int]],
) -> Iterator[_Table]:
    yield _Table("Phase", "phase", tuple(_phases(problem)))
    taps = [tap for phase in problem.phases for tap in phase.taps]
    yield _Table("Tap", "tap", tuple(braced([braced(at), weight]) for at, weight in taps))
    yield _Table("TileGroup", "tile_group", tuple(_groups(problem)))
    yield _Table("TileNumber", "next", tuple(_tile_order(tile_order)))
    yield _Table("Piece", "piece", tuple(braced([offset]) for offset in problem.pieces))
    cells = [
        braced([braced(of_image(zero_fill.sizes, problem.images)), zero_fill.offset])
        for zero_fill in problem.cell_zero_fills
    ]
    yield _Table("CellZeroFill", "cell_zero_fill", tuple(cells))
    zero_fills: list[str] = []
    for zero_fill in problem.zero_fills:
        chunks = zero_fill.run // ALIGNMENT
        pieces = -(-chunks // PIECE_CHUNKS)
        sizes = of_image(zero_fill.sizes, problem.images)
        where = [braced(sizes), braced(zero_fill.strides), zero_fill.offset]
        runs = prod(zero_fill.sizes) // value_of(problem.images)
        zero_fills.append(braced([chunks, pieces, runs, *where]))
    yield _Table("ZeroFill", "zero_fill", tuple(zero_fills))


def _phases(problem: Sm90ImplicitGemmProblem) -> Iterator[str]:
    first_tap = 0
    for phase in problem.phases:
        slides = problem.maps[phase.map].slides
        blank = (0,) * (MAX_SPATIAL - len(slides))
        yield braced(
            [
                phase.pixels // value_of(problem.images),
                braced(of_image(phase.sizes, problem.images)),
                braced(phase.strides),
                phase.offset,
                phase.map,
                braced([*(slide.corner for slide in slides), *blank]),
                braced([*(slide.step for slide in slides), *blank]),
                first_tap,
                len(phase.taps),
            ]
        )
        first_tap += len(phase.taps)


def _groups(problem: Sm90ImplicitGemmProblem) -> Iterator[str]:
    first = 0
    for group in problem.groups():
        yield braced([first, len(group), group[0].pixels // value_of(problem.images)])
        first += len(group)


def _tile_order(tile_order: Sequence[Sequence[int]]) -> Iterator[str]:
    longest = max(map(len, tile_order), default=0)
    for mine in tile_order:
        yield ", ".join(map(str, (*mine, *["convir::wgmma::kNoTile"] * (longest - len(mine)))))


def braced(values: Sequence[object]) -> str:
    """An initializer of C++."""
    return "{" + ", ".join(str(value) for value in values) + "}"
