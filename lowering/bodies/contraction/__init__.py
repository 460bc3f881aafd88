"""Contractions as plain integers: a kernel's tensor body goes in, a `Contraction` comes out.

The kernels of every device are planned from that one description.
"""
