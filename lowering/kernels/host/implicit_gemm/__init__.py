"""fprop and dgrad as an implicit GEMM whose rows are found by address."""
