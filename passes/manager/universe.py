"""What a stock `xdsl-opt` sees of convir: the entry point `xdsl.universe`.

It offers nothing that xDSL has itself, since one name offered twice stops every `xdsl-opt`.
"""

from __future__ import annotations

from xdsl.universe import Universe

from convir.dialects.registry import CONVIR_DIALECTS
from convir.passes.manager.registry import NEW_PASSES

UNIVERSE = Universe(all_dialects=dict(CONVIR_DIALECTS), all_passes=dict(NEW_PASSES))
"""Our dialects, and our passes that xDSL lacks."""
