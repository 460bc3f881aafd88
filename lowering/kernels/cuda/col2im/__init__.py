"""All taps as columns of one product, which a second launch adds where they belong."""
