"""Operands copied to channels last first, for the families that want them so."""
