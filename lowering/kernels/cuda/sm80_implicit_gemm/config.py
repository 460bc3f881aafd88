"""The configs of implicit GEMMs: a tile, its pipeline and its threads, and which are legal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.cuda.config import Config, Key, OneOf, Range, Spells
from convir.lowering.kernels.cuda.sm80_implicit_gemm.vector_widths import (
    orientation,
    reduced_of,
    rows_of,
    widths,
)

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.target import Target

WARP = 32
STAGING_PAD = 8
"""Elements between two lines of accumulators in shared memory, which puts them in different
banks."""
MAX_ACCUMULATORS = 128
"""Accumulators that a thread keeps in registers."""
MAX_REGISTERS = 230
"""Registers that a thread may be estimated to need, of the 255 that it has."""
BASE_REGISTERS = 40
"""Registers for addresses and loops."""
MIN_SPLIT_REDUCED = 40
"""The least that is reduced by three products of TF32: from here on the bound of their error is at
most that of multiply-adds one after the other."""
SPLIT_COLUMNS = 24
"""Registers for the columns that are multiplied as three products, and their sums."""
ASYNC_BYTES = 4
"""The least that is copied to shared memory without registers in between."""


@dataclass(frozen=True)
class Sm80ImplicitGemmConfig(Config, family="sm80_implicit_gemm", sizes=3):
    """A tile of `m` x `n` results, reduced `k` at a time."""

    m: int
    n: int
    k: int
    stages: Annotated[int, Range(2)]
    """Tiles in flight."""
    over: Annotated[tuple[int, int], Key("warps")]
    """The warps that a tile's rows and columns are divided over; threads without tensor cores."""
    is_mma: Annotated[bool, Spells("warps", "threads")] = True
    """Whether tensor cores multiply: 16-bit types, or f32 that may be rounded to TF32."""
    products: Annotated[int, OneOf(1, 3)] = 1
    """Products of tensor cores for each product: 3 of TF32 are one of f32."""
    splits: int = 1
    """Parts of the reduction, each its own block; the parts are added in a second launch."""
    converted: Annotated[str, OneOf("a", "b", "ab")] = ""
    """The operands, of `ab`, that are copied first so that their channels are contiguous."""

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.over[0] * self.over[1] * (WARP if self.is_mma else 1)

    @property
    def accumulators(self) -> int:
        """Accumulators that a thread keeps."""
        return self.m * self.n // self.threads


def has_mma(spec: Contraction) -> bool:
    """Whether tensor cores multiply the operands of `spec`."""
    a, other = spec.inputs
    return a.type == other.type and (spec.tf32 or a.type in ("f16", "bf16"))


def refusal(
    spec: Contraction, epilogue: Epilogue, config: Sm80ImplicitGemmConfig, target: Target
) -> Refusal | None:
    """Why the kernel family's assertions, or the GPU, refuse `config`; None if they do not."""
    vectors = widths(spec)
    lines = orientation(spec)
    computes_b = spec.result == "B"
    other = spec.c if computes_b else spec.b
    a_line = config.k if lines.a_by_in_channel != computes_b else config.m
    other_line = config.k if lines.other_by_reduction else config.n
    for what, line, width, size in (
        ("A", a_line, vectors.a, STORAGE_BYTES[spec.a.type]),
        ("the other input", other_line, vectors.other, STORAGE_BYTES[other.type]),
    ):
        if line % width or line * size % 16:
            return Refusal(f"a line of {line} elements of {what} is not whole vectors of {width}")
        if config.threads % (line // width):
            vectors_of_line = line // width
            return Refusal(
                f"{config.threads} threads do not share lines of {vectors_of_line} vectors"
            )
    refused = _split_refusal(spec, config)
    if refused is not None:
        return refused
    if config.is_mma and config.products == 1 and not has_mma(spec):
        return Refusal(f"tensor cores do not multiply {spec.a.type} and {other.type}")
    shape = (16 * config.over[0], 8 * config.over[1], 16)
    if not config.is_mma:
        shape = (4 * config.over[0], 4 * config.over[1], 4)
    if config.m % shape[0] or config.n % shape[1] or config.k % shape[2]:
        tile, unit = f"{config.m}x{config.n}x{config.k}", "x".join(map(str, shape))
        return Refusal(f"{tile} is not divided by {unit}")
    if config.accumulators > MAX_ACCUMULATORS:
        return Refusal(
            f"{config.accumulators} accumulators a thread are more than {MAX_ACCUMULATORS}"
        )
    registers = registers_of(spec, config)
    if registers > MAX_REGISTERS:
        return Refusal(f"a thread needs about {registers} registers")
    return target.shared_refusal(shared_bytes_of(spec, epilogue, config))


def splits_f32(spec: Contraction) -> Refusal | None:
    """Why three products of TF32 are not as good as one of f32; None if they are."""
    if {operand.type for operand in spec.inputs} != {"f32"} or spec.element != "f32":
        return Refusal("three products are those of f32")
    shortest = min((reduced for reduced in reduced_of(spec) if reduced), default=0)
    if shortest < MIN_SPLIT_REDUCED:
        return Refusal(
            f"a reduction of {shortest} is shorter than {MIN_SPLIT_REDUCED}:"
            " three products may be less accurate than f32"
        )
    return None


def _split_refusal(spec: Contraction, config: Sm80ImplicitGemmConfig) -> Refusal | None:
    if config.products == 1:
        return None
    return splits_f32(spec) if config.is_mma else Refusal("threads multiply once")


def registers_of(spec: Contraction, config: Sm80ImplicitGemmConfig) -> int:
    """Registers of a thread: accumulators, fragments, and for each operand what its loader
    keeps."""
    vectors, flat = widths(spec), orientation(spec)
    computes_b = spec.result == "B"
    other = spec.c if computes_b else spec.b
    place = 2 + len(spec.phases[0].axes)
    kept = 0
    for across, width, size, along, each in (
        (
            config.m,
            vectors.a,
            STORAGE_BYTES[spec.a.type],
            flat.a_by_in_channel != computes_b,
            place,
        ),
        (config.n, vectors.other, STORAGE_BYTES[other.type], flat.other_by_reduction, 2),
    ):
        passes = max(1, config.k * across // width // config.threads)
        kept += passes * each if along else each
        kept += passes if width * size < ASYNC_BYTES else 0
    words = STORAGE_BYTES[spec.element] // 4
    rows, out_channels = config.m // config.over[0], config.n // config.over[1]
    fragments = (
        rows // 4 + out_channels // 4 if config.is_mma else 4 * (rows + out_channels) * words
    )
    if config.products > 1:
        fragments = rows // 2 + SPLIT_COLUMNS
    return BASE_REGISTERS + config.accumulators * words + fragments + kept


def shared_bytes_of(spec: Contraction, epilogue: Epilogue, config: Sm80ImplicitGemmConfig) -> int:
    """Dynamic shared memory of a block: the pipeline or the accumulators, then the rows'
    offsets."""
    other = spec.c if spec.result == "B" else spec.b
    stage = config.k * (
        config.m * STORAGE_BYTES[spec.a.type] + config.n * STORAGE_BYTES[other.type]
    )
    by_columns = orientation(spec).stored_by_out_channel
    line, lines = (config.n, config.m) if by_columns else (config.m, config.n)
    staging = lines * (line + STAGING_PAD) * STORAGE_BYTES[spec.element]
    offsets = config.m * 8 * (1 + max(1, len(epilogue.operands)))
    return max(config.stages * stage, staging) + offsets


def blocks_of(spec: Contraction, tile: Sm80ImplicitGemmConfig) -> int:
    """Tiles of the result, each a block for every part of its reduction."""
    rows = sum(-(-rows // tile.m) for rows in rows_of(spec))
    return rows * spec.groups * -(-spec.out_channels // tile.n)
