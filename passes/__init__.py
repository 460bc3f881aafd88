"""Tensors in, better tensors out: one file per pass, one file of named pipelines.

Importing the package imports no pass and nothing of xDSL; its names load on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from convir.passes.manager.pass_manager import Result, run
    from convir.passes.manager.remarks import Remark
    from convir.passes.manager.universe import UNIVERSE

__all__ = ["UNIVERSE", "Remark", "Result", "run"]

_HOMES = {
    "Remark": "convir.passes.manager.remarks",
    "Result": "convir.passes.manager.pass_manager",
    "UNIVERSE": "convir.passes.manager.universe",
    "run": "convir.passes.manager.pass_manager",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
