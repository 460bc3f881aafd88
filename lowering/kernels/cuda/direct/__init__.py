"""Direct convolutions: what their families see of a contraction, row rings, and their sources."""
