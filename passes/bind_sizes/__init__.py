"""`bind-sizes`: a function on tensors of dynamic sizes, for one set of shapes."""
