"""The configs of `halo_implicit_gemm`: frozen choices, one canonical string each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from convir.lowering.kernels.cuda.config import Config, Range


@dataclass(frozen=True)
class HaloImplicitGemmConfig(Config, family="halo_implicit_gemm", sizes=3):
    """How blocks and warps of `kernel.cuh` share the work.

    Prints as `halo_implicit_gemm 4x8x8 channels=64 stages=3 warps=4 resident=2`.
    """

    slices: int
    rows: int
    cols: int
    """Output pixels of a block."""
    channels: int
    """Output channels of a block, a multiple of 32."""
    stages: Annotated[int, Range(2)]
    """Filter taps in shared memory: all but one are under way while one is multiplied."""
    warps: int
    resident: int
    """Blocks of a multiprocessor: one copies while another one multiplies."""
