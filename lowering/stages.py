"""The names of the stations that a module passes on its way down to an rt program."""

from __future__ import annotations

STAGES = ("chunked", "chained", "rows", "fused", "regions", "selected", "outlined", "rt", "planned")
"""What each pass of `lowering.pipeline.lowering_passes` leaves, in order."""
