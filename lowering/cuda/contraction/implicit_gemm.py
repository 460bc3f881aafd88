"""`igemm`: contractions as implicit GEMMs, on tensor cores (`mma.sync`) or on the FMA units.

The most general template: any direction, layout, grouping, rank and type. Its kernels are in
`templates/implicit_gemm.cuh`; see `docs/kernels/implicit-gemm.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Final

from convir.dialects.refusal import Refusal
from convir.lowering.contraction.spec import STORAGE_BYTES
from convir.lowering.cuda.contraction.config import ConfigText, sizes
from convir.lowering.cuda.contraction.epilogue import CPP_TYPES
from convir.lowering.cuda.contraction.implicit_gemm_problem import (
    orientation,
    problem_source,
    reduced_of,
    refusal,
    rows_of,
    widths,
)
from convir.lowering.cuda.kernel_plan import CudaKernel, KernelPlan, Pointer

if TYPE_CHECKING:
    from convir.lowering.contraction.spec import Contraction
    from convir.lowering.cuda.contraction.epilogue import Epilogue
    from convir.lowering.cuda.gpu import Gpu

FAMILY: Final = "igemm"

WARP = 32
STAGING_PAD = 8
"""Elements between two lines of sums in shared memory, which puts them in different banks."""
MAX_SUMS = 128
"""Sums that a thread keeps in registers, of the 255 that it has."""
MIN_STEPS = 8
"""A part of a split reduction has at least so many steps: fewer do not pay for adding it."""
MAX_SPLIT = 64
ADDING_THREADS = 256
MAX_GRID = (1 << 31) - 1


@dataclass(frozen=True)
class ImplicitGemmConfig:
    """A tile of `m` x `n` results, reduced `k` at a time."""

    m: int
    n: int
    k: int
    stages: int
    """Tiles in flight, at least 2."""
    over: tuple[int, int]
    """The warps that a tile's rows and columns are divided over; threads without tensor cores."""
    is_mma: bool = True
    """Whether tensor cores multiply, for 16-bit types."""
    split: int = 1
    """Parts of the reduction, each its own block; the parts are added in a second launch."""

    def __str__(self) -> str:
        unit = "warps" if self.is_mma else "threads"
        split = f" split={self.split}" if self.split > 1 else ""
        over = "x".join(map(str, self.over))
        return f"{FAMILY} {self.m}x{self.n}x{self.k} stages={self.stages} {unit}={over}{split}"

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.over[0] * self.over[1] * (WARP if self.is_mma else 1)

    @property
    def sums(self) -> int:
        """Sums that a thread keeps."""
        return self.m * self.n // self.threads


def parse(text: str) -> ImplicitGemmConfig:
    """The config that prints as `text`.

    Raises:
        ValueError: none does.
    """
    found = ConfigText.parse(text)
    unit = "warps" if "warps" in found.values else "threads"
    if found.family != FAMILY or len(found.words) != 1 or unit not in found.values:
        raise ValueError(f"it is written {FAMILY} MxNxK stages=S warps=AxB")
    unknown = set(found.values) - {"stages", "split", unit}
    if unknown or "stages" not in found.values:
        raise ValueError(f"it has stages, {unit} and split, not {', '.join(sorted(unknown))}")
    m, n, k = sizes(found.words[0], 3)
    rows, columns = sizes(found.values[unit], 2)
    stages, split = int(found.values["stages"]), int(found.values.get("split", "1"))
    return ImplicitGemmConfig(m, n, k, stages, (rows, columns), unit == "warps", split)


_MMA_TILES = (
    ImplicitGemmConfig(128, 256, 32, 4, (2, 4)),
    ImplicitGemmConfig(128, 128, 32, 4, (2, 2)),
    ImplicitGemmConfig(128, 128, 64, 3, (2, 4)),
    ImplicitGemmConfig(256, 64, 32, 4, (4, 1)),
    ImplicitGemmConfig(128, 64, 32, 4, (2, 2)),
    ImplicitGemmConfig(64, 128, 32, 4, (2, 2)),
    ImplicitGemmConfig(64, 64, 32, 5, (2, 2)),
    ImplicitGemmConfig(64, 64, 64, 4, (2, 2)),
    ImplicitGemmConfig(256, 32, 32, 4, (4, 1)),
    ImplicitGemmConfig(128, 32, 32, 4, (4, 1)),
    ImplicitGemmConfig(64, 32, 32, 4, (2, 1)),
    ImplicitGemmConfig(32, 64, 32, 4, (1, 2)),
    ImplicitGemmConfig(128, 16, 32, 4, (4, 1)),
    ImplicitGemmConfig(64, 16, 32, 4, (4, 1)),
    ImplicitGemmConfig(128, 8, 32, 4, (4, 1)),
    ImplicitGemmConfig(32, 8, 32, 4, (2, 1)),
)
_FMA_TILES = (
    ImplicitGemmConfig(128, 128, 16, 3, (16, 16), is_mma=False),
    ImplicitGemmConfig(128, 64, 16, 3, (16, 8), is_mma=False),
    ImplicitGemmConfig(64, 64, 16, 3, (16, 16), is_mma=False),
    ImplicitGemmConfig(64, 64, 16, 3, (8, 8), is_mma=False),
    ImplicitGemmConfig(64, 16, 16, 3, (16, 4), is_mma=False),
    ImplicitGemmConfig(32, 32, 16, 3, (8, 8), is_mma=False),
)
"""What is chosen from; the rule below ranks them."""


def plan(
    spec: Contraction, epilogue: Epilogue, gpu: Gpu
) -> tuple[ImplicitGemmConfig, ...] | Refusal:
    """The configs that are legal for `spec` on `gpu`, by falling estimate of their speed."""
    refused = refusal(spec)
    if refused is not None:
        return refused
    tiles = _MMA_TILES if _has_mma(spec) else _FMA_TILES
    legal = [tile for tile in tiles if legality(spec, epilogue, tile, gpu.shared_bytes) is None]
    if not legal:
        return Refusal(str(legality(spec, epilogue, tiles[-1], gpu.shared_bytes)))
    split = [_split(spec, tile, gpu) for tile in legal]
    return tuple(sorted(split, key=lambda config: _cost(spec, config, gpu)))


def _has_mma(spec: Contraction) -> bool:
    other = spec.b if spec.result == "C" else spec.c
    return spec.a.type == other.type and spec.a.type in ("f16", "bf16")


def legality(
    spec: Contraction, epilogue: Epilogue, config: ImplicitGemmConfig, shared_bytes: int
) -> str | None:
    """Why the template's assertions, or the GPU, refuse `config`; None if they do not."""
    vectors = widths(spec)
    lines = orientation(spec)
    computes_b = spec.result == "B"
    other = spec.c if computes_b else spec.b
    a_line = config.k if lines.a_by_depth != computes_b else config.m
    other_line = config.k if lines.other_by_reduction else config.n
    for what, line, width, size in (
        ("A", a_line, vectors.a, STORAGE_BYTES[spec.a.type]),
        ("the other input", other_line, vectors.other, STORAGE_BYTES[other.type]),
    ):
        if line % width or line * size % 16:
            return f"a line of {line} elements of {what} is not whole vectors of {width}"
        if config.threads % (line // width):
            return f"{config.threads} threads do not share lines of {line // width} vectors"
    if config.is_mma and not _has_mma(spec):
        return f"tensor cores do not multiply {spec.a.type} and {other.type}"
    shape = (16 * config.over[0], 8 * config.over[1], 16)
    if not config.is_mma:
        shape = (4 * config.over[0], 4 * config.over[1], 4)
    if config.m % shape[0] or config.n % shape[1] or config.k % shape[2]:
        return f"{config.m}x{config.n}x{config.k} is not divided by {'x'.join(map(str, shape))}"
    if config.sums > MAX_SUMS or config.stages < len(("reading", "writing")):
        return f"{config.sums} sums a thread, {config.stages} stages"
    needed = shared_bytes_of(spec, epilogue, config)
    if needed > shared_bytes:
        return f"it needs {needed} bytes of shared memory of {shared_bytes}"
    return None


def shared_bytes_of(spec: Contraction, epilogue: Epilogue, config: ImplicitGemmConfig) -> int:
    """Dynamic shared memory of a block: the pipeline or the sums, then the rows' offsets."""
    other = spec.c if spec.result == "B" else spec.b
    stage = config.k * (
        config.m * STORAGE_BYTES[spec.a.type] + config.n * STORAGE_BYTES[other.type]
    )
    by_columns = orientation(spec).out_by_columns
    line, lines = (config.n, config.m) if by_columns else (config.m, config.n)
    staging = lines * (line + STAGING_PAD) * STORAGE_BYTES[spec.element]
    offsets = config.m * 8 * (1 + max(1, len(epilogue.operands)))
    return max(config.stages * stage, staging) + offsets


def _split(spec: Contraction, tile: ImplicitGemmConfig, gpu: Gpu) -> ImplicitGemmConfig:
    """`tile`, its reduction split where its blocks do not fill the GPU."""
    if len(spec.phases) > 1:
        return tile
    steps = -(-max(reduced_of(spec)) // tile.k)
    blocks = _blocks(spec, tile)
    resident = gpu.multiprocessors * _blocks_at_once(spec, tile, gpu)
    parts = min(resident // blocks, steps // MIN_STEPS, MAX_SPLIT)
    return replace(tile, split=max(1, parts))


def _blocks(spec: Contraction, tile: ImplicitGemmConfig) -> int:
    rows = sum(-(-rows // tile.m) for rows in rows_of(spec))
    return rows * spec.groups * -(-spec.columns // tile.n)


def _blocks_at_once(spec: Contraction, tile: ImplicitGemmConfig, gpu: Gpu) -> int:
    """Blocks that one multiprocessor holds, by shared memory and threads."""
    stage = tile.k * (tile.m + tile.n) * STORAGE_BYTES[spec.a.type] * tile.stages
    staging = tile.m * tile.n * STORAGE_BYTES[spec.element]
    return max(1, min(gpu.shared_bytes // max(stage, staging), 1024 // tile.threads))


def _cost(spec: Contraction, config: ImplicitGemmConfig, gpu: Gpu) -> float:
    """Time in units of one multiplication on one multiprocessor, roughly.

    Blocks run in waves; a step costs its multiplications at the rate that the tile allows, or its
    bytes from L2, whichever is more; every block pays to begin, to end, and to store.
    """
    at_once = _blocks_at_once(spec, config, gpu)
    total = 0.0
    columns = -(-spec.columns // config.n)
    for rows, reduced in zip(rows_of(spec), reduced_of(spec), strict=True):
        blocks = -(-rows // config.m) * spec.groups * columns * config.split
        steps = ceil(ceil(reduced / config.k) / config.split)
        waves = blocks / gpu.multiprocessors
        waves = max(waves, 1.0) if waves < at_once else waves
        tail = 1 + 0.5 / max(1.0, waves / at_once)
        multiply = config.m * config.n * config.k / _efficiency(config)
        moved = (config.m + config.n) * config.k * _BYTES_COST
        total += waves * (steps * max(multiply, moved) + _BLOCK_COST * config.m * config.n) * tail
    parts = config.split * config.m * config.n * _blocks(spec, config) / gpu.multiprocessors
    return total + (_ADDING_COST * parts + _LAUNCH_COST if config.split > 1 else 0)


_BYTES_COST = 24.0
"""Multiplications in the time in which one element reaches a multiprocessor."""
_BLOCK_COST = 48.0
"""The same for one result: its sum is staged, converted and stored, while nothing is multiplied."""
_ADDING_COST = 24.0
_LAUNCH_COST = 3.0e6


def _efficiency(config: ImplicitGemmConfig) -> float:
    """The part of the peak that a warp's tile reaches: what it reads is reused as often as it is
    wide."""
    if not config.is_mma:
        return min(1.0, config.sums / 64) / 8
    warp_m, warp_n = config.m // config.over[0], config.n // config.over[1]
    return warp_m * warp_n / (warp_m * warp_n + 16 * (warp_m + warp_n))


def kernels(
    spec: Contraction, epilogue: Epilogue, config: ImplicitGemmConfig
) -> KernelPlan | Refusal:
    """The launches of `config`: one, and one that adds the parts of a split reduction."""
    reason = legality(spec, epilogue, config, MAX_GRID)
    refused = refusal(spec) if reason is None else Refusal(reason)
    if refused is not None:
        return refused
    blocks = _blocks(spec, config)
    if blocks > MAX_GRID:
        return Refusal(f"{blocks} blocks are more than a grid has")
    operands = [Pointer("epilogue", i) for i in range(len(epilogue.operands))]
    out = Pointer("b" if spec.result == "B" else "c")
    other = Pointer("c" if spec.result == "B" else "b")
    parts = Pointer("workspace")
    is_split = config.split > 1
    source = _source(spec, epilogue, config)
    multiply = CudaKernel(
        source,
        "multiply",
        (blocks, config.split, 1),
        (config.threads, 1, 1),
        shared_bytes_of(spec, epilogue, config),
        (Pointer("a"), other, parts if is_split else out, *operands),
    )
    if not is_split:
        return KernelPlan((multiply,))
    tile = config.m * config.n
    vectors = tile // _config_out(spec, config)
    add = CudaKernel(
        source,
        "add_parts",
        (blocks, -(-vectors // ADDING_THREADS), 1),
        (ADDING_THREADS, 1, 1),
        0,
        (parts, out, *operands),
    )
    size = config.split * blocks * tile * STORAGE_BYTES[spec.element]
    return KernelPlan((multiply, add), (size,))


def _config_out(spec: Contraction, config: ImplicitGemmConfig) -> int:
    """Results that a thread stores at once: no more than a line of the tile has."""
    return min(widths(spec).out, config.n if orientation(spec).out_by_columns else config.m)


def _source(spec: Contraction, epilogue: Epilogue, config: ImplicitGemmConfig) -> str:
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
        "kSplit": config.split,
        "kAVector": vectors.a,
        "kOtherVector": vectors.other,
        "kOutVector": _config_out(spec, config),
        "kSharedBytes": shared_bytes_of(spec, epilogue, config),
    }
    flags = {"kIsMma": config.is_mma, "kOutAlongColumns": orientation(spec).out_by_columns}
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
        f'// {config}\n#include "implicit_gemm.cuh"\n\n'
        f"{problem_source(spec, epilogue)}\n"
        f"struct Config {{\n{fields}\n}};\n\n"
        f"{epilogue.source}\n"
        f"{_entries(spec, epilogue, config)}"
    )


def _entries(spec: Contraction, epilogue: Epilogue, config: ImplicitGemmConfig) -> str:
    pointers = [
        f"const {CPP_TYPES[operand.type]}* e{i}" for i, operand in enumerate(epilogue.operands)
    ]
    names = ", ".join(f"e{i}" for i in range(len(pointers)))
    is_split = config.split > 1
    inputs = ["const Problem::A* a", "const Problem::Other* b"]
    to = "Problem::Sum* parts" if is_split else "Epilogue::Stored* out"
    call = "nullptr, parts" if is_split else "out, nullptr"
    multiply = (
        f'extern "C" __global__ void __launch_bounds__({config.threads})\n'
        f"multiply({', '.join([*inputs, to, *pointers])}) {{\n"
        f"  convir::igemm::run<Problem, Config, Epilogue>(a, b, {call}, {{{names}}});\n}}\n"
    )
    if not is_split:
        return multiply
    add = ["const Problem::Sum* parts", "Epilogue::Stored* out", *pointers]
    return multiply + (
        f'\nextern "C" __global__ void __launch_bounds__({ADDING_THREADS})\n'
        f"add_parts({', '.join(add)}) {{\n"
        f"  convir::igemm::add_parts<Problem, Config, Epilogue>(parts, out, {{{names}}});\n}}\n"
    )
