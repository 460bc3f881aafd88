"""The conv dialect: its ops, their text, their rules, and the arithmetic of windows."""
