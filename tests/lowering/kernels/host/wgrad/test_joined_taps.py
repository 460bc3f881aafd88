"""Gradients of weights whose taps are joined: which are, and that they are right."""

from __future__ import annotations

from dataclasses import replace

import pytest
from host_contractions import BFLOAT, TARGETS, Case, Types, run, window

from convir.lowering.kernels.host.target import X86_64_V4, X86_64_V4_BF16, target
from convir.lowering.kernels.host.wgrad import joined_taps as module
from convir.lowering.kernels.host.wgrad.joined_taps import joined_taps

SEVEN = (window(7, 2, 3), window(7, 2, 3))

JOINED = {
    "seven by seven": Case(2, 3, 40, (19, 23), SEVEN),
    "no padding": Case(2, 3, 17, (9, 12), (window(3), window(4, 3))),
    "asymmetric padding": Case(1, 5, 20, (6, 11), (window(3, 1, 1), window(5, 2, 0, high=3))),
    "padding as wide as the filter": Case(1, 2, 9, (4, 3), (window(2, 1, 2), window(3, 1, 3))),
    "lines of one pixel": Case(2, 4, 9, (5, 1), (window(3, 1, 1), window(3, 1, 1))),
    "one channel": Case(2, 1, 33, (7, 70), (window(3, 1, 1), window(9, 1, 4))),
    "long lines": Case(1, 3, 16, (3, 150), (window(2), window(7, 1, 3))),
    "pixels that no tap reads": Case(1, 3, 16, (9, 29), (window(3, 4), window(3, 5))),
    "one dimension": Case(3, 2, 30, (90,), (window(15, 4, 7),)),
    "three dimensions": Case(1, 2, 12, (4, 5, 6), (window(2), window(3, 2, 1), window(3, 1, 1))),
    "accumulating": Case(1, 3, 21, (8, 9), (window(3, 1, 1), window(5, 1, 2)), accumulate=True),
}


@pytest.mark.parametrize("cpu", TARGETS)
@pytest.mark.parametrize("types", [("f32", "f32", "f32"), BFLOAT, ("f16", "f16", "f16")], ids=str)
@pytest.mark.parametrize("name", JOINED)
def test_cases(name: str, types: Types, cpu: str, monkeypatch: pytest.MonkeyPatch):
    """All that can be joined, whether it pays or not."""
    monkeypatch.setattr(module, "GAIN", float("inf"))
    case = replace(JOINED[name], types=types)
    assert joined_taps(case.spec("wgrad"), target(cpu)) is not None
    run(case, "wgrad", cpu, threads=2)


LEFT = {
    "dilated": Case(1, 3, 16, (9, 9), (window(3), window(3, 1, 1, 2))),
    "one tap a line": Case(1, 3, 16, (9, 9), (window(3), window(1))),
    "groups": Case(1, 6, 16, (9, 9), SEVEN, groups=2),
    "planes": Case(1, 3, 16, (9, 9), SEVEN, orders=(1, 0, 1)),
    "taps of a channel are neighbours": Case(1, 3, 16, (9, 9), SEVEN, orders=(0, 1, 0)),
}


@pytest.mark.fast
@pytest.mark.parametrize("name", LEFT)
def test_what_cannot_be_joined(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "GAIN", float("inf"))
    assert joined_taps(LEFT[name].spec("wgrad"), target(X86_64_V4_BF16)) is None


@pytest.mark.fast
def test_taps_are_joined_where_pairs_are_multiplied_for_it():
    """Three rows of a tap are too few for pairs; 21 are not."""
    first_layer = Case(8, 3, 64, (224, 224), SEVEN, types=BFLOAT).spec("wgrad")
    assert joined_taps(first_layer, target(X86_64_V4_BF16)) is not None
    assert joined_taps(first_layer, target(X86_64_V4)) is None
    many = Case(8, 64, 64, (56, 56), (window(3, 1, 1),) * 2, types=BFLOAT).spec("wgrad")
    assert joined_taps(many, target(X86_64_V4_BF16)) is None
