from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from convir.runtime.cores import available_cores
from convir.runtime.host.jit import Library, compile_ir
from convir.runtime.host.pool import ThreadPool, shared_pool

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.fast

# Counts every visit of an item, and burns time on it, so that workers overlap.
COUNT = """
define void @count(ptr %visits, i64 %begin, i64 %end, i64 %worker) {
entry:
  %none = icmp sge i64 %begin, %end
  br i1 %none, label %done, label %loop
loop:
  %i = phi i64 [%begin, %entry], [%next, %loop]
  %visit = getelementptr i64, ptr %visits, i64 %i
  %before = load i64, ptr %visit
  %after = add i64 %before, 1
  store i64 %after, ptr %visit
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


@pytest.fixture(scope="module")
def count() -> Library:
    return compile_ir(COUNT, exports=("count",))


@pytest.fixture
def pool() -> Iterator[ThreadPool]:
    pool = ThreadPool(4)
    yield pool
    pool.close()


@pytest.mark.parametrize("workers", [None, 1, 2, 3, 9])
@pytest.mark.parametrize("items", [0, 1, 2, 3, 17, 1000])
def test_every_item_is_done_once(pool: ThreadPool, count: Library, items: int, workers: int | None):
    visits = np.zeros(items + 1, np.int64)
    for _ in range(200):
        pool.launch(count.address("count"), visits.ctypes.data, items, workers)
    assert (visits[:items] == 200).all()
    assert visits[items] == 0


def test_launches_from_several_threads(pool: ThreadPool, count: Library):
    everything = np.zeros((4, 501), np.int64)

    def caller(visits: np.ndarray) -> None:
        for _ in range(500):
            pool.launch(count.address("count"), visits.ctypes.data, visits.size)

    callers = [threading.Thread(target=caller, args=(visits,)) for visits in everything]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    assert (everything == 500).all()


def test_closed_pool_works_on_the_caller(pool: ThreadPool, count: Library):
    visits = np.zeros(10, np.int64)
    pool.launch(count.address("count"), visits.ctypes.data, 10)
    pool.close()
    pool.close()
    assert pool.launch(count.address("count"), visits.ctypes.data, 10) == 1
    assert (visits == 2).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forked_child_has_its_own_pool():
    # In a process of its own: a fork of the test runner would carry its threads' locks.
    script = f"""
import os, warnings
warnings.simplefilter("ignore", DeprecationWarning)
import numpy as np
from convir.runtime.host.jit import compile_ir
from convir.runtime.cores import available_cores
from convir.runtime.host.pool import ThreadPool, shared_pool
library = compile_ir({COUNT!r}, exports=("count",))
visits = np.zeros(100, np.int64)
run = lambda: shared_pool().launch(library.address("count"), visits.ctypes.data, 100)
run()
child = os.fork()
run()
assert (visits == 2).all()
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="threads cannot be bound here")
@pytest.mark.skipif(available_cores() < 2, reason="there is only one core")
def test_woken_helpers_are_barred_from_the_core_of_the_caller(count: Library):
    pool = ThreadPool(2)
    free, others = os.sched_getaffinity(0), threading.enumerate()
    visits = np.zeros(1000, np.int64)
    try:
        for core in sorted(free):
            os.sched_setaffinity(0, {core})
            for _ in range(20):
                pool.launch(count.address("count"), visits.ctypes.data, visits.size)
                # The helper sleeps before the next launch.
                time.sleep(0.001)
            (helper,) = set(threading.enumerate()).difference(others)
            assert helper.native_id is not None
            assert os.sched_getaffinity(helper.native_id) == free - {core}
    finally:
        os.sched_setaffinity(0, free)
        pool.close()
    assert (visits == 20 * len(free)).all()


def test_shared_pool_is_one():
    assert shared_pool() is shared_pool()
    assert shared_pool().workers >= 1
