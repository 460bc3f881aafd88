"""`sm80_implicit_gemm`: contractions as implicit GEMMs, on tensor cores (`mma.sync`) or on the FMA
units.

The most general template: any direction, layout, grouping, rank and type. Its kernels are in
`kernel.cuh`; see `README.md`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.cuda.epilogue import CPP_TYPES
from convir.lowering.kernels.cuda.launch import CudaKernel, KernelPlan, Pointer
from convir.lowering.kernels.cuda.layout_conversion.copies import copied, copy_launches
from convir.lowering.kernels.cuda.prediction.traffic import sector_writes, traffic_of
from convir.lowering.kernels.cuda.sm80_implicit_gemm.config import (
    blocks_of,
    refusal,
    shared_bytes_of,
)
from convir.lowering.kernels.cuda.sm80_implicit_gemm.problem import problem_source
from convir.lowering.kernels.cuda.sm80_implicit_gemm.vector_widths import (
    orientation,
    rows_of,
    unsupported,
    widths,
)

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.sm80_implicit_gemm.config import Sm80ImplicitGemmConfig
    from convir.lowering.kernels.target import Target

ADDING_THREADS = 256
"""Threads of a block that adds parts."""
MAX_ADD_WIDTH = 2
"""Results that one of its threads stores, at most."""
SPILL_BYTES = 16
"""Two registers, stored once and loaded once a step: ptxas parts with them where another block then
fits, beside the 512 products of a step of FMAs (of 168 registers it keeps 128), and where a tile of
8 columns loads single elements (it keeps 48)."""
FEW_SECTOR_WRITES = 2
"""Phases of a sector that come one after the other: in turns they were measured 1 % slower."""
MAX_GRID = (1 << 31) - 1
"""Blocks of a grid."""


def kernels(
    spec: Contraction,
    epilogue: Epilogue,
    config: Sm80ImplicitGemmConfig,
    target: Target,
) -> KernelPlan | Refusal:
    """The launches of `config`: one, and one that adds the parts of a split reduction."""
    try:
        spec, converted = copied(spec, config.converted)
    except ValueError as error:
        return Refusal(str(error))
    refused = unsupported(spec) or refusal(spec, epilogue, config, target)
    if refused is not None:
        return refused
    blocks = blocks_of(spec, config)
    if blocks > MAX_GRID:
        return Refusal(f"{blocks} blocks are more than a grid has")
    operands = [Pointer("epilogue", i) for i in range(len(epilogue.operands))]
    out = Pointer("b" if spec.result == "B" else "c")
    other = Pointer("c" if spec.result == "B" else "b")
    places = {copy.operand: Pointer("workspace", i) for i, copy in enumerate(converted)}
    first = copy_launches([(copy, places[copy.operand]) for copy in converted])
    sizes = tuple(copy.nbytes for copy in converted)
    parts = Pointer("workspace", len(converted))
    is_split = config.splits > 1
    source = _source(spec, epilogue, config, target)
    multiply = CudaKernel(
        source,
        "multiply",
        (blocks, config.splits, 1),
        (config.threads, 1, 1),
        shared_bytes_of(spec, epilogue, config),
        (
            places.get("a", Pointer("a")),
            places.get("b", other),
            parts if is_split else out,
            *operands,
        ),
        spill_bytes=SPILL_BYTES,
    )
    if not is_split:
        return KernelPlan((*first, multiply), sizes)
    tile = config.m * config.n
    vectors = tile // _add_width(spec, config)
    add = CudaKernel(
        source,
        "add_parts",
        (blocks, -(-vectors // ADDING_THREADS), 1),
        (ADDING_THREADS, 1, 1),
        0,
        (parts, out, *operands),
    )
    size = config.splits * blocks * tile * STORAGE_BYTES[spec.element]
    return KernelPlan((*first, multiply, add), (*sizes, size))


def _config_out(spec: Contraction, config: Sm80ImplicitGemmConfig) -> int:
    """Results that a thread stores at once: no more than a line of the tile has."""
    return min(widths(spec).out, config.n if orientation(spec).stored_by_out_channel else config.m)


def _add_width(spec: Contraction, config: Sm80ImplicitGemmConfig) -> int:
    """Results that a thread adds the parts of: few, as many threads hide the reading."""
    return min(_config_out(spec, config), MAX_ADD_WIDTH)


def interleaved_tiles(spec: Contraction, config: Sm80ImplicitGemmConfig, target: Target) -> int:
    """Tiles of each phase whose blocks come in turns; 0 where phases come one after the other.

    More than two phases that interleave in sectors of a result larger than the L2 cache write them
    while the cache holds them. Otherwise the phase with the most taps comes first, so that the
    last blocks are short.
    """
    traffic = replace(traffic_of(spec), sector_writes=sector_writes(spec))
    if len(spec.phases) == 1 or traffic.sector_writes <= FEW_SECTOR_WRITES:
        return 0
    if not traffic.apart(target):
        return 0
    rows = min(-(-rows // config.m) for rows in rows_of(spec))
    return rows * spec.groups * -(-spec.out_channels // config.n)


def _source(
    spec: Contraction, epilogue: Epilogue, config: Sm80ImplicitGemmConfig, target: Target
) -> str:
    """`#include`, the constants, and the instances."""
    vectors = widths(spec)
    over = config.over
    constants = {
        "kBM": config.m,
        "kBN": config.n,
        "kBK": config.k,
        "kStages": config.stages,
        "kThreads": config.threads,
        "kWarpsM": over[0],
        "kWarpsN": over[1],
        "kThreadsM": over[0],
        "kThreadsN": over[1],
        "kSplit": config.splits,
        "kProducts": config.products,
        "kAVector": vectors.a,
        "kOtherVector": vectors.other,
        "kOutVector": _config_out(spec, config),
        "kAddVector": _add_width(spec, config),
        "kSharedBytes": shared_bytes_of(spec, epilogue, config),
        "kInterleavedTiles": interleaved_tiles(spec, config, target),
    }
    flags = {
        "kIsMma": config.is_mma,
        "kStoredAlongOutChannels": orientation(spec).stored_by_out_channel,
    }
    fields = "\n".join(
        [
            *(f"  static constexpr int {name} = {value};" for name, value in constants.items()),
            *(
                f"  static constexpr bool {k} = {'true' if v else 'false'};"
                for k, v in flags.items()
            ),
        ]
    )
    return (
        f'// {config}\n#include "sm80_implicit_gemm/kernel.cuh"\n\n'
        f"{problem_source(spec, epilogue)}\n"
        f"struct Config {{\n{fields}\n}};\n\n"
        f"{epilogue.source}\n"
        f"{_entries(spec, epilogue, config)}"
    )


def _entries(spec: Contraction, epilogue: Epilogue, config: Sm80ImplicitGemmConfig) -> str:
    pointers = [
        f"const {CPP_TYPES[operand.type]}* e{i}" for i, operand in enumerate(epilogue.operands)
    ]
    names = ", ".join(f"e{i}" for i in range(len(pointers)))
    is_split = config.splits > 1
    inputs = ["const Problem::A* a", "const Problem::Other* b"]
    to = "Problem::Sum* parts" if is_split else "Epilogue::Stored* out"
    call = "nullptr, parts" if is_split else "out, nullptr"
    multiply = (
        f'extern "C" __global__ void __launch_bounds__({config.threads})\n'
        f"multiply({', '.join([*inputs, to, *pointers])}) {{\n"
        f"  convir::implicit_gemm::run<Problem, Config, Epilogue>(a, b, {call}, {{{names}}});\n}}\n"
    )
    if not is_split:
        return multiply
    add = ["const Problem::Sum* parts", "Epilogue::Stored* out", *pointers]
    return multiply + (
        f'\nextern "C" __global__ void __launch_bounds__({ADDING_THREADS})\n'
        f"add_parts({', '.join(add)}) {{\n"
        f"  convir::implicit_gemm::add_parts<Problem, Config, Epilogue>(parts, "
        f"out, {{{names}}});\n}}\n"
    )
