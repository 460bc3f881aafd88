"""Functions that CPUs have no instruction for, as arithmetic that every lane does alike."""
