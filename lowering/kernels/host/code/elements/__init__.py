"""Element types in registers: how they are loaded, widened, paired and stored."""
