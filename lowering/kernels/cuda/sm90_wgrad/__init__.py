"""Wgrad as a GEMM over output pixels on Hopper, with split-K and stream-K."""
