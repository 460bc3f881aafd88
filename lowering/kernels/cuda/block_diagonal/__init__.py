"""Groups packed block-diagonally into a dense product, weights first."""
