"""Programs in, results out: the NumPy reference, checking, devices and timing."""
