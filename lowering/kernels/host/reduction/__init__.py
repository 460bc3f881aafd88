"""Reductions over rows or columns, with what is computed of them, as one kernel."""
