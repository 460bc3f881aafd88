"""The tensor bodies of kernels, read as plain data: what kernel families see of them."""
