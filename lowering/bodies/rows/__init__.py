"""Reductions over rows or columns, and what is computed of them element by element, as data."""
