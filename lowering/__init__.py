"""Tensors in, runtime programs out: kernel regions, buffers, memory plans, and kernel code."""
