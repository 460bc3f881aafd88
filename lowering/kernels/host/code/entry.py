"""What a thread pool calls a kernel with, and the names of kernels."""

from __future__ import annotations

from convir.lowering.kernels.host.code.builder import I64, PTR

KERNEL_PARAMETERS = ((PTR, "args"), (I64, "begin"), (I64, "end"), (I64, "worker"))
"""The addresses of the arguments, a range of the items of work, and the number of the thread."""

CONTRACT = "contract"
"""The kernel that computes a contraction."""
