"""CUDA C++ to cubins, and what is read off them."""
