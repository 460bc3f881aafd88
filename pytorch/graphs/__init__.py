"""`torch.compile(model, backend="convir")`: whole graphs, the rest of them on PyTorch."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from convir.pytorch.graphs.report import GraphReport, reports

__all__ = ["GraphReport", "reports"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from convir.pytorch.graphs import report  # noqa: PLC0415  (imports PyTorch)

        return getattr(report, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
