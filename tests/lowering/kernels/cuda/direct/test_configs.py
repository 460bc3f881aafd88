"""Configs of the direct templates as text: each prints as what it is parsed from, others do not."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convir.lowering.kernels.cuda.direct.config import Math
from convir.lowering.kernels.cuda.direct.ring import Copies
from convir.lowering.kernels.cuda.few_input_channels import config as few_input_channels
from convir.lowering.kernels.cuda.few_output_channels import config as few_output_channels
from convir.lowering.kernels.cuda.grouped_direct import config as grouped_direct
from convir.lowering.kernels.cuda.grouped_wgrad import config as grouped_wgrad
from convir.lowering.kernels.cuda.simt_direct import config as simt_direct
from convir.lowering.kernels.cuda.sm90_grouped_direct import config as sm90_grouped_direct
from convir.lowering.kernels.cuda.sm90_grouped_wgrad import config as sm90_grouped_wgrad

if TYPE_CHECKING:
    from collections.abc import Callable

FAMILIES: dict[str, tuple[type, Callable[[str], object]]] = {
    grouped_direct.FAMILY: (grouped_direct.GroupedConfig, grouped_direct.parse),
    sm90_grouped_direct.FAMILY: (sm90_grouped_direct.GroupedPairsConfig, sm90_grouped_direct.parse),
    grouped_wgrad.FAMILY: (grouped_wgrad.GroupedWgradConfig, grouped_wgrad.parse),
    sm90_grouped_wgrad.FAMILY: (
        sm90_grouped_wgrad.GroupedWgradPairsConfig,
        sm90_grouped_wgrad.parse,
    ),
    few_output_channels.FAMILY: (few_output_channels.NarrowConfig, few_output_channels.parse),
    few_input_channels.FAMILY: (few_input_channels.ShallowConfig, few_input_channels.parse),
    simt_direct.FAMILY: (simt_direct.ScalarConfig, simt_direct.parse),
}

NUMBERS = st.integers(1, 512)
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    int: NUMBERS,
    tuple[int, int]: st.tuples(NUMBERS, NUMBERS),
    Copies: st.sampled_from(get_args(Copies)),
    Math: st.sampled_from(get_args(Math)),
}


@st.composite
def configs(draw: st.DrawFn) -> tuple[str, object]:
    """A family, and any config of it."""
    family = draw(st.sampled_from(sorted(FAMILIES)))
    kind, _ = FAMILIES[family]
    hints = get_type_hints(kind)
    values = {field.name: draw(VALUES[hints[field.name]]) for field in fields(kind)}
    if "loaders" in values:
        values["loaders"] = draw(st.integers(0, 4))
    return family, kind(**values)


@given(configs())
def test_configs_print_and_parse(drawn: tuple[str, object]) -> None:
    family, one = drawn
    assert FAMILIES[family][1](str(one)) == one


@given(configs(), st.data())
def test_other_texts_are_refused(drawn: tuple[str, object], data: st.DataObject) -> None:
    family, one = drawn
    text = str(one)
    words = text.split(" ")
    number = data.draw(st.sampled_from([m for m in re.finditer(r"\d+", text) if m[0] != "0"]))
    is_of_loaders = text[: number.start()].endswith("loaders=")
    others = {
        family,
        f"other-{text}",
        f"{text} more=1",
        " ".join(words[:-1]),
        " ".join((words[0], f"{words[1]}x1", *words[2:])),
        f"{text}x1",
        re.sub(r"copies=\w+|math=\w+|\d+$", "mail", text, count=1),
        f"{text[: number.start()]}{-1 if is_of_loaders else 0}{text[number.end() :]}",
    }
    for other in others:
        with pytest.raises(ValueError, match=r"written|config|sizes|at least|one of|invalid"):
            FAMILIES[family][1](other)
