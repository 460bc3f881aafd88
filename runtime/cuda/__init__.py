"""NVIDIA GPUs through CuPy: kernel compilation, cuBLAS and the device itself."""
