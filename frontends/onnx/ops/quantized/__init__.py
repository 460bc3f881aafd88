"""Operators on quantised tensors."""
