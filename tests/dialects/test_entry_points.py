"""What other packages offer is found in their metadata, and what is wrong there is left out."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from xdsl.ir import Dialect
from xdsl.universe import Universe

from convir.dialects import entry_points, installed
from convir.dialects.entry_points import CUDA_KERNELS, HOST_KERNELS, UNIVERSES, EntryPoint
from convir.dialects.installed import RegisteredDialects, installed_universe

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

pytestmark = pytest.mark.fast

METADATA = """
[console_scripts]
mine = mine_of_tests:main

[convir.host_kernels]
loops = mine_of_tests:LOOPS [extra]
nothing = mine_of_tests:NOTHING
lost = lost_of_tests:LOST
[xdsl.universe]
mine = mine_of_tests : UNIVERSE
own = convir.passes:UNIVERSE
theirs = xdsl.universe:UNIVERSE
"""
CODE = """
from xdsl.universe import Universe
LOOPS = "loops"
UNIVERSE = Universe(all_dialects={"a": "A", "b": "B"}, all_passes={"p": "P"})
SECOND = Universe(all_dialects={"b": "other", "c": "C"}, all_passes={"p": "other", "q": "Q"})
"""
SECOND = "[xdsl.universe]\nsecond = mine_of_tests:SECOND\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """A folder of packages; only what lies there is found."""
    (tmp_path / "mine_of_tests.py").write_text(CODE)
    for name, text in (("mine-1.0.dist-info", METADATA), ("second.egg-info", SECOND)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "entry_points.txt").write_text(text)
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "entry_points.txt").write_text(SECOND.replace("second", "plain"))
    (tmp_path / "empty.dist-info").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "none"), *sys.path])
    monkeypatch.setattr(entry_points.os, "listdir", only(tmp_path, entry_points.os.listdir))
    entry_points.entry_points.cache_clear()
    installed_universe.cache_clear()
    yield tmp_path
    entry_points.entry_points.cache_clear()
    installed_universe.cache_clear()
    sys.modules.pop("mine_of_tests", None)


def only(folder: Path, listdir: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    return lambda path: listdir(path) if str(path).startswith(str(folder)) else []


@pytest.mark.usefixtures("package")
def test_entry_points_are_found() -> None:
    assert entry_points.entry_points() == (
        EntryPoint("loops", HOST_KERNELS, "mine_of_tests", "LOOPS"),
        EntryPoint("lost", HOST_KERNELS, "lost_of_tests", "LOST"),
        EntryPoint("mine", UNIVERSES, "mine_of_tests", "UNIVERSE"),
        EntryPoint("nothing", HOST_KERNELS, "mine_of_tests", "NOTHING"),
        EntryPoint("second", UNIVERSES, "mine_of_tests", "SECOND"),
    )


@pytest.mark.usefixtures("package")
def test_what_cannot_be_loaded_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    assert entry_points.installed(HOST_KERNELS, str) == ("loops",)
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "the entry point lost of convir.host_kernels cannot be loaded",
        "the entry point nothing of convir.host_kernels cannot be loaded",
    ]
    caplog.clear()
    assert entry_points.installed(HOST_KERNELS, Universe) == ()
    assert "the entry point loops of convir.host_kernels is not a Universe" in caplog.text
    assert entry_points.installed(CUDA_KERNELS, str) == ()


@pytest.mark.usefixtures("package")
def test_the_first_of_a_name_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    universe = installed_universe()
    assert universe.all_dialects == {"a": "A", "b": "B", "c": "C"}
    assert universe.all_passes == {"p": "P", "q": "Q"}
    assert [record.getMessage() for record in caplog.records] == [
        "several packages offer a dialect 'b': the first one's is taken",
        "several packages offer a pass 'p': the first one's is taken",
    ]


def test_other_packages_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def universe() -> Universe:
        asked.append("universe")
        return Universe(all_dialects={"theirs": mine, "own": theirs})

    def mine() -> Dialect:
        return Dialect("mine")

    def theirs() -> Dialect:
        return Dialect("theirs")

    monkeypatch.setattr(installed, "installed_universe", universe)
    dialects = RegisteredDialects(own=mine)
    assert "own" in dialects
    assert not asked
    assert "theirs" in dialects
    assert dialects["own"] is mine
    assert "nobody's" not in dialects
    assert "nobody's" not in dialects.copy()
    assert asked == ["universe"]
    assert "nobody's" not in RegisteredDialects(own=mine).copy()
    assert asked == ["universe", "universe"]
