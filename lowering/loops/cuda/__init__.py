"""Code for NVIDIA GPUs: loops become CUDA C++, contractions become templates."""
