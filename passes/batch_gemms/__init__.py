"""`batch-gemms`: a loop over samples becomes ops over all of them."""
