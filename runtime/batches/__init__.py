"""A program for other batches than it was compiled for: what grows with the batch, and how."""
