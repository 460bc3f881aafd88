"""Kernels for a CPU as LLVM IR: a folder for each family, over `code/`."""
