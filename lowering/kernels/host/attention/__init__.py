"""Attention: two products, and what is computed of the rows between them, in one kernel."""
