"""All phases of a strided dgrad of few input channels in one GEMM on Hopper."""
