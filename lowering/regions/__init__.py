"""Which tensor ops will be one launch: forming, fusing and outlining kernel regions."""
