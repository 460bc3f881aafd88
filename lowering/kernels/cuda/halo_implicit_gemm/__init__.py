"""`halo_implicit_gemm`: convolutions from a few tens of channels, whose pixels are read once."""
