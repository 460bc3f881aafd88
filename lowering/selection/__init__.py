"""Which kernel family computes a region, with which config."""
