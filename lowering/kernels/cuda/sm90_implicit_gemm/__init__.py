"""Implicit GEMM on Hopper: TMA, warp specialisation and wgmma, with a scattering epilogue."""
