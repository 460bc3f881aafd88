"""`convert-conv-to-linalg`: a convolution as generics, pads and a scatter."""
