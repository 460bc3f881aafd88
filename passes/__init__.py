"""Tensors in, better tensors out: one file per pass, one file of named pipelines."""
