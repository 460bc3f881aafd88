"""Implicit GEMM by mma.sync, or SIMT in f32: contractions of every layout, as the last resort."""
