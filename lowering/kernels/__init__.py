"""Kernel families: what computes a contraction, a folder each; `registry.py` lists them."""
