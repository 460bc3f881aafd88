"""Windows of one or two dimensions, each reduced to one number."""
