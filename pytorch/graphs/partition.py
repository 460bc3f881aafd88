"""Which calls of a graph become pieces that convir compiles: those that have a spelling, where a
piece is predicted to gain."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import fx
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from convir.frontends.pytorch.program import refusal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from convir.pytorch.graphs.report import GraphReport

_log = logging.getLogger(__name__)

_CONTRACTIONS = frozenset(
    {"convolution", "mm", "addmm", "bmm", "baddbmm", "matmul", "linear"}
    | {"_scaled_dot_product_flash_attention_for_cpu", "scaled_dot_product_attention"}
)
"""What gains by kernels of its own, whatever surrounds it."""
_VIEWS = frozenset(
    {"view", "permute", "transpose", "t", "expand", "squeeze", "unsqueeze", "slice", "select"}
    | {"alias", "detach", "split", "split_with_sizes", "unbind", "_unsafe_view", "getitem"}
)
"""What costs PyTorch no pass over memory."""
_INDEXING = frozenset({"embedding", "gather", "index", "index_select"})
"""What reads its first tensor where the others say: PyTorch looks whether that is outside."""
_ATTENTION = "_scaled_dot_product"
"""PyTorch's own kernels of it are fused, on a GPU."""
_CALL_US = 8.0
"""What calling a piece costs the host."""
_EAGER_US = {"cpu": 2.0, "cuda": 4.0}
"""What a call of PyTorch costs beside moving its tensors."""
TOO_SMALL = "its piece is too small to gain"


class _Support(OperatorSupportBase):
    """The calls that have a spelling."""

    def __init__(self, device: str, graph: fx.Graph, constants: frozenset[fx.Node]) -> None:
        self._device, self._constants = device, constants
        self.reasons: dict[fx.Node, str | None] = {}
        self.views = self._left_views(graph)
        """Those that PyTorch makes."""

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: fx.Node) -> bool:
        """Whether convir takes the call."""
        return node.op == "call_function" and node not in self.views and not self._reason(node)

    def _reason(self, node: fx.Node) -> str | None:
        if node not in self.reasons:
            self.reasons[node] = self._refusal(node)
        return self.reasons[node]

    def _left_views(self, graph: fx.Graph) -> frozenset[fx.Node]:
        """Views that nothing but the graph's caller reads, so that results share the memory that
        they share in eager mode; and those between a piece and a call that PyTorch makes, for which
        a piece would move memory."""
        left = {n for n in graph.nodes if n.op == "call_function" and not is_view(n)}
        left = {node for node in left if self._reason(node)}
        found: set[fx.Node] = set()
        for node in reversed(graph.nodes):
            readers = [user for user in node.users if user.op != "output"]
            if is_view(node) and node.users and (left | found).issuperset(readers):
                found.add(node)
        for node in graph.nodes:
            if is_view(node) and (left | found).issuperset(node.all_input_nodes):
                from_pytorch = any(each in left | found for each in node.all_input_nodes)
                if from_pytorch and all(map(_is_dense, tensors_of([node]))):
                    found.add(node)
        return frozenset(found)

    def _refusal(self, node: fx.Node) -> str | None:
        if self._device == "cuda" and _name(node).startswith(_ATTENTION):
            return "PyTorch's fused kernel"
        if _name(node) in _INDEXING and not self._constants.issuperset(node.all_input_nodes[1:]):
            return "indices that may be outside"
        places = {found.device.type for found in tensors_of([node, *node.all_input_nodes])}
        if not places <= {self._device}:
            return f"tensors of {', '.join(sorted(places))}"
        try:
            return refusal(node)
        except Exception as error:  # PyTorch computes the same, whatever it is.
            _log.warning("%s stays PyTorch's: %s", node.target, error)
            return f"{type(error).__name__}: {error}"


def _name(node: fx.Node) -> str:
    target: Any = node.target
    packet = getattr(target, "overloadpacket", target)
    return str(getattr(packet, "__name__", packet))


def is_view(node: fx.Node) -> bool:
    """Whether a node only looks at memory otherwise."""
    return node.op == "call_function" and _name(node) in _VIEWS


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether each element of its memory is one of the tensor's; not if elements of others decide
    its size."""
    if any(isinstance(each, torch.SymInt) for each in (*tensor.shape, *tensor.stride())):
        return False
    span = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.numel() == span + 1


def _computed_from(known: Collection[str], graph: fx.Graph) -> frozenset[fx.Node]:
    """What depends on no argument but those that are known."""
    found: set[fx.Node] = set()
    for node in graph.nodes:
        is_random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        is_known = node.name in known if node.op == "placeholder" else not is_random
        if is_known and found.issuperset(node.all_input_nodes):
            found.add(node)
    return frozenset(found)


def tensors_of(nodes: Iterable[fx.Node]) -> list[torch.Tensor]:
    """What nodes give, as fake tensors."""
    found: list[torch.Tensor] = []
    for node in nodes:
        value: Any = node.meta.get("val")
        values = cast("Sequence[Any]", value if isinstance(value, list | tuple) else [value])
        found += [each for each in values if isinstance(each, torch.Tensor)]
    return found


def _bytes(nodes: Iterable[fx.Node]) -> float:
    return sum(float(each.numel()) * each.element_size() for each in tensors_of(nodes))


def _gains(nodes: Sequence[fx.Node], device: str, bytes_per_us: float) -> bool:
    """Whether a piece is predicted to take less time than PyTorch's calls."""
    if any(_name(node) in _CONTRACTIONS for node in nodes):
        return True
    inside = set(nodes)
    read = {each for node in nodes for each in node.all_input_nodes if each not in inside}
    written = [node for node in nodes if any(user not in inside for user in node.users)]
    piece = _CALL_US + _bytes([*read, *written]) / bytes_per_us
    eager = sum(
        _EAGER_US[device] + _bytes([node, *node.all_input_nodes]) / bytes_per_us
        for node in nodes
        if _name(node) not in _VIEWS
    )
    return piece < eager


def partitioned(
    graph: fx.GraphModule,
    device: str,
    bytes_per_us: float,
    report: GraphReport,
    known: Collection[str] = (),
) -> fx.GraphModule:
    """`graph` with its pieces as submodules, in place.

    Args:
        graph: a functional graph of ATen calls, with what they give in `meta["val"]`.
        device: `cpu` or `cuda`, where the pieces run.
        bytes_per_us: what that device copies.
        report: where it is written what is taken, and what is left.
        known: the arguments that are constants, by name.
    """
    support = _Support(device, graph.graph, _computed_from(known, graph.graph))
    views = support.views
    partitioner = CapabilityBasedPartitioner(graph, support, allows_single_node_partition=True)
    pieces = partitioner.propose_partitions()
    good = [piece for piece in pieces if _gains(list(piece.nodes), device, bytes_per_us)]
    taken = {node for piece in good for node in piece.nodes}
    for node in graph.graph.nodes:
        if node.op == "call_function" and node not in taken | views:
            reason = support.reasons.get(node) or TOO_SMALL
            report.left[str(node.target), reason] += 1
    report.taken, report.pieces = len(taken), len(good)
    return partitioner.fuse_partitions(good) if good else graph
