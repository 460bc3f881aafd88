"""Configs of the direct templates as text: each prints as what it is parsed from, others do not."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convir.lowering.kernels.cuda.direct import config
from convir.lowering.kernels.cuda.direct.ring import Copies

if TYPE_CHECKING:
    from collections.abc import Callable

FAMILIES: dict[str, tuple[type, Callable[[str], object]]] = {
    config.GROUPED: (config.GroupedConfig, config.parse_grouped),
    config.GROUPED_PAIRS: (config.GroupedPairsConfig, config.parse_grouped_pairs),
    config.GROUPED_WGRAD: (config.GroupedWgradConfig, config.parse_grouped_wgrad),
    config.GROUPED_WGRAD_PAIRS: (
        config.GroupedWgradPairsConfig,
        config.parse_grouped_wgrad_pairs,
    ),
    config.NARROW: (config.NarrowConfig, config.parse_narrow),
    config.SCALAR: (config.ScalarConfig, config.parse_scalar),
    config.SHALLOW: (config.ShallowConfig, config.parse_shallow),
}

NUMBERS = st.integers(1, 512)
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    int: NUMBERS,
    tuple[int, int]: st.tuples(NUMBERS, NUMBERS),
    Copies: st.sampled_from(get_args(Copies)),
    config.Math: st.sampled_from(get_args(config.Math)),
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
