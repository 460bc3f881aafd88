"""convir: a convolution-graph compiler on xDSL.

Convolutions enter as MLIR text, are rewritten by passes that are checked, and run on an
NVIDIA GPU or on the CPU. The folders follow the data: `frontends` → `dialects` → `passes` →
`lowering` → `runtime`, with `api` for Python and `cli` for the shell.

Importing the package imports nothing else; `convir.compile` and friends load on first use.
"""

__version__ = "0.1.0"
