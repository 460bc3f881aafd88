"""Options of passes as older versions spelled them still parse, with a note."""

from __future__ import annotations

import logging

import pytest

from convir.passes.manager.pipeline_text import PipelineError, parse_pipeline

OLD_AND_NEW = [
    (
        "assign-warp-roles{load=4 math=8}",
        "assign-warp-roles{producer-warps=4 consumer-warps=8}",
        2,
    ),
    (
        "partition-reduction{kind=split-k parts=3}",
        "partition-reduction{kind=split-k splits=3}",
        1,
    ),
]


@pytest.mark.parametrize(("old", "new", "notes"), OLD_AND_NEW)
def test_old_options_parse_with_a_note(
    old: str, new: str, notes: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert parse_pipeline(old) == parse_pipeline(new)
    assert caplog.text.count("is an older spelling of") == notes


def test_an_old_option_beside_todays_is_refused() -> None:
    with pytest.raises(PipelineError, match="has no option 'parts'"):
        parse_pipeline("partition-reduction{kind=split-k parts=3 splits=3}")
