"""What tools read and write: streams, chunks, models, constants."""
