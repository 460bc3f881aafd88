"""Gradients of weights of bf16 on the tile registers of AMX."""
