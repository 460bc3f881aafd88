"""Code for the CPU: loops become the LLVM dialect, contractions become register-tiled kernels."""
