"""Rewrites checked by running them: random inputs, evaluations, tolerances."""
