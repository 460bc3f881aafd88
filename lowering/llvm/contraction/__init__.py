"""Contractions on the CPU: a `Contraction` enters, a register-tiled kernel leaves.

`tiles` chooses registers and blocks, `row_kernel` writes the loops around the `microkernel`s, and
`pack` brings the weights into the order in which they are read.
"""
