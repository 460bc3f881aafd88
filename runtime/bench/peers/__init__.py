"""What benchmarks compare with: PyTorch, onnxruntime, and whole networks on them."""
