"""One page of what was collected: sections, pictures, and the scripts that move them."""
