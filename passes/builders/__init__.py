"""Building IR on tensors: what several rewrites write."""
