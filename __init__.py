"""convir: a convolution-graph compiler on xDSL.

Convolutions enter as MLIR text, are rewritten by passes that are checked, and run on an
NVIDIA GPU or on the CPU. The folders follow the data: `frontends` → `dialects` → `passes` →
`lowering` → `runtime`, with `api` for Python and `cli` for the shell.

Importing the package imports nothing else; `convir.compile` and friends load on first use.
"""

from importlib import import_module as _import_module

__version__ = "0.1.0"

_OFFERED = {
    "Executable": "convir.runtime.executable",
    "Stream": "convir.api.stream",
    "compile": "convir.api.compile",
    "stream": "convir.api.stream",
}


def __getattr__(name: str) -> object:
    if name in _OFFERED:
        return getattr(_import_module(_OFFERED[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
