"""Direct convolutions for small groups and few channels: contractions in, template sources out."""
