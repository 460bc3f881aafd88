"""What values are: constants, scalar bodies on constants, and zeros."""
