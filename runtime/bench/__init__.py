"""Benchmarks: a convolution problem and backends in, rows of honest figures out.

Backends take turns in one process, on the same data; times are medians with their spread.
"""
