"""Wgrad that keeps the accumulators of all filter taps of a tile."""
