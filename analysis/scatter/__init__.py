"""Tensors of which a dense part lies in zeros: where it lies, and what may run on it alone."""
