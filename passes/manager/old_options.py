"""Options of passes as older versions spelled them, in today's words."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xdsl.utils.arg_spec import ArgSpec

_log = logging.getLogger(__name__)

OLD_OPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "assign-warp-roles": {"load": "producer_warps", "math": "consumer_warps"},
    "partition-reduction": {"parts": "splits"},
}
"""By pass, the old name of an option and the name of the field that it sets today."""


def todays_options(spec: ArgSpec) -> ArgSpec:
    """`spec`, whose parameter names are normalised, with today's names of options.

    A note in the log says how each old name is spelled now. An old name beside today's name of the
    same option stays as it is.
    """
    parameters = dict(spec.parameters)
    for old, new in OLD_OPTIONS.get(spec.name, {}).items():
        if old not in parameters or new in parameters:
            continue
        parameters[new] = parameters.pop(old)
        today = new.replace("_", "-")
        _log.warning("pass '%s': option '%s' is an older spelling of '%s'", spec.name, old, today)
    return replace(spec, parameters=parameters)
