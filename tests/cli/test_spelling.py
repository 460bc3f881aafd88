"""Flags as LLVM's command lines spell them."""

from __future__ import annotations

import argparse

import pytest

from convir.cli.arguments.parser import ArgumentParser, UsageError


@pytest.fixture
def parser() -> ArgumentParser:
    parser = ArgumentParser("tool", "A tool.")
    parser.add_argument("file", nargs="?")
    parser.add_argument("-p", "--passes")
    parser.add_argument("--loud", "--mlir-loud", action="store_true")
    parser.add_argument("--check", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--remarks", nargs="?")
    return parser


@pytest.mark.parametrize(
    ("argv", "name", "value"),
    [
        (["-passes=a"], "passes", "a"),
        (["-passes", "a"], "passes", "a"),
        (["-pa"], "passes", "a"),
        (["-loud"], "loud", True),
        (["--mlir-loud=true"], "loud", True),
        (["-mlir-loud=1"], "loud", True),
        (["--loud=false"], "loud", False),
        (["--check=false"], "check", False),
        (["-check=0"], "check", False),
        (["--no-check"], "check", False),
        (["--check=true"], "check", True),
        (["--remarks", "in.mlir"], "remarks", ""),
        (["--remarks", "in.mlir"], "file", "in.mlir"),
        (["--remarks=r.json", "in.mlir"], "remarks", "r.json"),
        (["in.mlir"], "remarks", None),
    ],
)
def test_spellings(parser: ArgumentParser, argv: list[str], name: str, value: object) -> None:
    assert getattr(parser.parse(argv), name) == value


@pytest.mark.parametrize("argv", [["--loud=maybe"], ["-lou"], ["--remark"], ["-p", "--loud"]])
def test_wrong_spellings(parser: ArgumentParser, argv: list[str]) -> None:
    with pytest.raises(UsageError):
        parser.parse(argv)
