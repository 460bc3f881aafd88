"""fprop, dgrad and products of bf16 and bytes on the tile registers of AMX."""
