"""Symbols are found through an index that never answers what is no longer so."""

from __future__ import annotations

import gc
import weakref

import pytest
from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.rewriter import Rewriter
from xdsl.traits import SymbolTable

from convir.dialects.context import read_module

pytestmark = pytest.mark.fast

TWO = """
func.func private @one()
func.func private @two()
"""


def test_a_symbol_that_goes_or_is_renamed_is_not_found() -> None:
    module = read_module(TWO, "two")
    one = SymbolTable.lookup_symbol(module, "one")
    two = SymbolTable.lookup_symbol(module, "two")
    assert isinstance(one, FuncOp)
    assert isinstance(two, FuncOp)
    one.sym_name = StringAttr("three")
    assert SymbolTable.lookup_symbol(module, "one") is None
    assert SymbolTable.lookup_symbol(module, "three") is one
    Rewriter.erase_op(two)
    assert SymbolTable.lookup_symbol(module, "two") is None


def test_a_symbol_that_is_added_is_found() -> None:
    module = read_module(TWO, "two")
    assert SymbolTable.lookup_symbol(module, "three") is None
    added = FuncOp.external("three", [], [])
    module.body.block.add_op(added)
    assert SymbolTable.lookup_symbol(module, "three") is added


def test_a_module_that_was_asked_is_let_go() -> None:
    module = read_module(TWO, "two")
    assert SymbolTable.lookup_symbol(module, "one") is not None
    gone = weakref.ref(module)
    del module
    gc.collect()
    assert gone() is None
