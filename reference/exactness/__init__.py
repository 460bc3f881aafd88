"""Which values of an evaluation are exact, and how far the others may be off."""
