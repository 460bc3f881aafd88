"""Chains of convolutions along frames, channels first, as one kernel."""
