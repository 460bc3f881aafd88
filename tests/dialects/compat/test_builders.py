"""Implicit builders of threads that overlap know nothing of each other."""

from __future__ import annotations

import threading

import pytest
from xdsl.builder import ImplicitBuilder
from xdsl.dialects import test
from xdsl.ir import Block

from convir.dialects import compat

pytestmark = pytest.mark.fast


def test_threads_that_overlap_add_each_op_once() -> None:
    compat.install()
    inner, outer = Block(), Block()
    has_begun, may_end = threading.Event(), threading.Event()

    def other() -> None:
        with ImplicitBuilder(inner):
            has_begun.set()
            may_end.wait()
            test.TestOp()

    thread = threading.Thread(target=other, daemon=True)
    with ImplicitBuilder(outer):
        thread.start()
        has_begun.wait()
        test.TestOp()
    test.TestOp()
    may_end.set()
    thread.join()
    test.TestOp()
    assert len(outer.ops) == 1
    assert len(inner.ops) == 1
