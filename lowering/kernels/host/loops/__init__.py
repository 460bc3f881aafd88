"""Loops generated from a kernel's body."""
