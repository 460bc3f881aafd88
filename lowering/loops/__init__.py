"""A kernel's tensor body becomes loops over memrefs, with nothing in between.

Enters: a `kernel.func` on tensors. Leaves: for each piece of its results one `func.func` of
`scf`, `memref` and `arith` ops over a range of an outer loop, which the host and the CUDA code
generators both read.
"""
