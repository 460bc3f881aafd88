"""convir: a convolution-graph compiler on xDSL.

Convolutions enter as MLIR text, are rewritten by passes that are checked, and run on an
NVIDIA GPU or on the CPU. The folders follow the data: `frontends` → `dialects` → `passes` →
`lowering` → `runtime`, with `api` for Python and `cli` for the shell.

Importing the package imports nothing else; `convir.compile` and friends load on first use.
"""

from importlib import import_module as _import_module

TYPE_CHECKING = False  # As in `typing`, which is not imported for it.
if TYPE_CHECKING:
    from convir.api.compile import compile
    from convir.api.stream import Stream, stream
    from convir.report.explain import Report, explain
    from convir.runtime.executable import Executable
del TYPE_CHECKING

__version__ = "0.1.0"

__all__ = ["Executable", "Report", "Stream", "__version__", "compile", "explain", "stream"]

_HOMES = {
    "Executable": "convir.runtime.executable",
    "Report": "convir.report.explain",
    "Stream": "convir.api.stream",
    "compile": "convir.api.compile",
    "explain": "convir.report.explain",
    "stream": "convir.api.stream",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(_import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
