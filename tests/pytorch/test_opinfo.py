"""PyTorch's own samples of its operators (`op_db`), as functional graphs cut in pieces, beside
eager mode: values, shapes, dtypes, strides; no piece is handed back. PyTorch's collection needs
expecttest."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

torch: Any = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's samples need expecttest")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.utils import _pytree as tree  # noqa: E402

from convir.frontends.pytorch.exported import decompositions  # noqa: E402
from convir.pytorch.graphs import backend, reports  # noqa: E402
from convir.pytorch.graphs.options import Options  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Generator

OPS: list[Any] = list(op_db)
SAMPLES = 4
"""Of each operator and dtype; the first one, and others at random."""
DTYPES = (torch.float32, torch.int64, torch.bool)

pytestmark = [pytest.mark.exhaustive, pytest.mark.filterwarnings("ignore")]


def _always(*_: Any) -> bool:
    return True


@pytest.fixture(autouse=True)
def _all_pieces(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    monkeypatch.setattr("convir.pytorch.graphs.partition._gains", _always)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.no_grad():
        yield
    torch.set_num_threads(before)


def samples(op: Any, dtype: Any) -> list[Any]:
    if dtype not in op.dtypes:
        return []
    torch.manual_seed(0)
    found = list(op.sample_inputs("cpu", dtype, requires_grad=False))
    return found[:1] + random.Random(0).sample(found[1:], min(SAMPLES - 1, len(found[1:])))


def tensors_in(given: Any) -> list[Any]:
    return [leaf for leaf in tree.tree_leaves(given) if isinstance(leaf, torch.Tensor)]


def with_memory_of_its_own(tensor: Any) -> Any:
    """A copy, and of all memory around it where an operator may look at that."""
    if tensor.layout != torch.strided or not tensor.untyped_storage().nbytes():
        return tensor.clone()
    memory = tensor.untyped_storage().clone()
    place = tensor.storage_offset(), tensor.shape, tensor.stride()
    return torch.empty(0, dtype=tensor.dtype).set_(memory, *place)


def check(op: Any, sample: Any) -> None:
    leaves, shape = tree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def function(*tensors: Any) -> list[Any]:
        given = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            given[place] = tensor
        first, args, kwargs = tree.tree_unflatten(given, shape)
        return tensors_in(op.op(first, *args, **kwargs))

    def anew() -> list[Any]:
        return [with_memory_of_its_own(leaves[place]) for place in places]

    want = function(*anew())
    try:
        graph = make_fx(function, decompositions(), tracing_mode="fake")(*anew())
    except Exception:  # It depends on elements, or refuses fake tensors.
        return
    count = len(reports())
    run = backend._in_pieces(graph, {}, Options())  # pyright: ignore[reportPrivateUsage]
    (report,) = reports()[count:] or [None]
    if report is None or not (report.taken or report.left):
        return
    assert not [why for _, why in report.left if why == "its piece was not compiled"]
    if not report.taken:
        return
    for mine, other in zip(run(*anew()), want, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4, equal_nan=True)
        strides = [
            [step for step, size in zip(x.stride(), x.shape, strict=True) if size > 1]
            for x in (mine, other)
        ]
        assert strides[0] == strides[1] or not other.numel()


@pytest.mark.parametrize("op", OPS, ids=[f"{op.name}-{op.variant_test_name}" for op in OPS])
def test_samples(op: Any) -> None:
    if op.name.startswith("jiterator"):
        pytest.skip("PyTorch compiles it for a GPU alone")
    for dtype in DTYPES:
        for sample in samples(op, dtype):
            check(op, sample)
