"""`reduction`: passes over rows or columns, which stay on chip where they fit."""
