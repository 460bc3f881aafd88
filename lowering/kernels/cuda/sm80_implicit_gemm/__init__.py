"""Implicit GEMM by mma.sync, or SIMT in f32, for every layout: contractions that no other family takes."""
