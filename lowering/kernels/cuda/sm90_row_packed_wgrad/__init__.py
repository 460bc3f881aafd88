"""Wgrad on Hopper with filter rows packed along GEMM N."""
