"""CUDA C++ headers, shipped as package data."""
