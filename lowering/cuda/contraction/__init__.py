"""Contractions on a GPU: families of kernels that have no folder yet."""
