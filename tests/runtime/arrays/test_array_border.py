"""What callers pass is read as the values that it stands for, or refused by name."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from convir.api.compile import compile as convir_compile

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT = """
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = arith.addf %x, %x : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(scope="module")
def double() -> Any:
    return convir_compile(TEXT, device="host")


@pytest.fixture(scope="module")
def dynamic() -> Any:
    return convir_compile(TEXT.replace("2x3", "?x3"), device="host")


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch", reason="PyTorch is not installed")


READ: dict[str, Callable[[Any], Any]] = {
    "plain": lambda t: t.from_numpy(X.copy()),
    "negative bit": lambda t: t._neg_view(t.from_numpy(-X)),
    "imaginary part of a conjugate": lambda t: (
        t.complex(t.zeros(2, 3), t.from_numpy(-X)).conj().imag
    ),
    "transposed": lambda t: t.from_numpy(X.T.copy()).T,
    "expanded": lambda t: t.from_numpy(X[:1].copy()).expand(2, 3),
    "strided": lambda t: t.from_numpy(np.repeat(X, 2, 1))[:, ::2],
    "offset": lambda t: t.from_numpy(np.append(0, X).astype(np.float32))[1:].reshape(2, 3),
    "parameter": lambda t: t.nn.Parameter(t.from_numpy(X.copy()), requires_grad=False),
    "named subclass": lambda t: t.from_numpy(X.copy()).as_subclass(type("Named", (t.Tensor,), {})),
    "inference": lambda t: t.inference_mode()(lambda: t.from_numpy(X.copy()) * 1)(),
    "detached": lambda t: t.from_numpy(X.copy()).requires_grad_().detach(),
    "zeros without memory": lambda t: t._efficientzerotensor((2, 3)),
}


@pytest.mark.parametrize("kind", READ)
def test_tensors_are_read_as_their_values(torch: Any, double: Any, dynamic: Any, kind: str) -> None:
    tensor = READ[kind](torch)
    expected = 2 * torch.as_tensor(tensor).detach().resolve_neg().clone().numpy()
    np.testing.assert_array_equal(double(tensor), expected)
    np.testing.assert_array_equal(dynamic(tensor), expected)


def fake(torch: Any) -> Any:
    from torch._subclasses import (  # noqa: PLC0415
        FakeTensorMode,  # pyright: ignore[reportUnknownVariableType]
    )

    with FakeTensorMode():
        return torch.ones(2, 3)


def masked(torch: Any) -> Any:
    return torch.masked.masked_tensor(torch.ones(2, 3), torch.ones(2, 3, dtype=torch.bool))


def with_rules(torch: Any) -> Any:
    """A tensor that stands for three times what lies in its memory."""

    def torch_function(_: Any, function: Any, __: Any, values: Any = (), named: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            return function(*values, **(named or {}))

    kind = type("Scaled", (torch.Tensor,), {"__torch_function__": classmethod(torch_function)})
    return torch.ones(2, 3).as_subclass(kind)


def jagged(torch: Any) -> Any:
    parts = [torch.ones(2), torch.ones(3)]
    return torch.nested.nested_tensor(parts, layout=torch.jagged)


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "requires grad": (lambda t: t.ones(2, 3, requires_grad=True), r"pass \.detach\(\)"),
    "computed": (lambda t: t.ones(2, 3, requires_grad=True) * 2, r"pass \.detach\(\)"),
    "parameter": (lambda t: t.nn.Parameter(t.ones(2, 3)), r"pass \.detach\(\)"),
    "lazy parameter": (lambda t: t.nn.UninitializedParameter(), "UninitializedParameter"),
    "sparse": (lambda t: t.ones(2, 3).to_sparse(), r"torch\.sparse_coo.* \.to_dense\(\)"),
    "rows": (lambda t: t.ones(2, 3).to_sparse_csr(), r"torch\.sparse_csr.* \.to_dense\(\)"),
    "onednn": (lambda t: t.ones(2, 3).to_mkldnn(), r"\.to_dense\(\)"),
    "meta": (lambda t: t.ones(2, 3, device="meta"), "device meta"),
    "nested": (lambda t: t.nested.nested_tensor([t.ones(2), t.ones(3)]), "is nested"),
    "jagged": (jagged, "is a NestedTensor|is nested"),
    "quantized": (lambda t: t.quantize_per_tensor(t.ones(2, 3), 0.1, 0, t.qint8), "is quantized"),
    "fake": (fake, "is a FakeTensor, whose values only PyTorch knows"),
    "masked": (masked, "is a MaskedTensor"),
    "subclass": (with_rules, r"is a Scaled, .*as_subclass\(torch\.Tensor\)"),
    "complex": (lambda t: t.ones(2, 3, dtype=t.complex64), "complex64, the program's is float32"),
    "conjugate": (lambda t: t.ones(2, 3, dtype=t.complex64).conj(), "complex64"),
    "double": (lambda t: t.ones(2, 3, dtype=t.float64), "float64, the program's is float32"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_tensors_that_are_no_plain_memory_are_refused(
    torch: Any, double: Any, dynamic: Any, kind: str
) -> None:
    make, message = REFUSED[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tensor = make(torch)
        for executable in (double, dynamic):
            with pytest.raises(TypeError, match=f"argument 0 .*({message})"):
                executable(tensor)
        with pytest.raises(TypeError, match="out 0 "):
            double(X, out=tensor)


def test_tensors_that_are_traced_are_refused(torch: Any, double: Any) -> None:
    def call(x: Any) -> Any:
        return torch.as_tensor(double(x)).sum()

    message = r"argument 0 is traced by torch\.func"
    with pytest.raises(TypeError, match=message):
        torch.vmap(call)(torch.ones(4, 2, 3))
    with pytest.raises(TypeError, match=message):
        torch.func.grad(call)(torch.ones(2, 3))


def test_results_go_to_plain_tensors(torch: Any, double: Any) -> None:
    out = torch.empty(2, 3)
    double(X, out=out)
    np.testing.assert_array_equal(out.numpy(), 2 * X)
    for lazy in (torch._neg_view(torch.ones(2, 3)), torch._efficientzerotensor((2, 3))):
        with pytest.raises(TypeError, match="out 0 is a lazy view"):
            double(X, out=lazy)
    for other in (torch.empty(3, 2).T, torch.empty(1, 3).expand(2, 3), torch.empty(2, 6)[:, ::2]):
        with pytest.raises(ValueError, match="out 0 must be dense"):
            double(X, out=other)


def test_results_may_lie_over_arguments(torch: Any) -> None:
    """Also behind a view that is resolved first: the copy is read, the memory is written."""
    text = """
    func.func @main(%x: tensor<6xf32>, %y: tensor<6xf32>) -> tensor<6xf32> {
      %r = tensor.extract_slice %x[3] [3] [1] : tensor<6xf32> to tensor<3xf32>
      %0 = tensor.insert_slice %r into %y[0] [3] [1] : tensor<3xf32> into tensor<6xf32>
      return %0 : tensor<6xf32>
    }
    """
    compiled: Any = convir_compile(text, device="host")
    base = torch.arange(6.0)
    compiled(torch._neg_view(base), base, out=base)
    np.testing.assert_array_equal(base.numpy(), [-3, -4, -5, 3, 4, 5])


ARRAYS: dict[str, Callable[[], Any]] = {
    "read-only": lambda: _read_only(X),
    "fortran": lambda: np.asfortranarray(X),
    "backwards": lambda: X[:, ::-1],
    "broadcast": lambda: np.broadcast_to(X[:1], (2, 3)),
    "field": lambda: np.stack([X, X], -1).view([("a", "f4"), ("b", "f4")])["b"][..., 0],
    "matrix": lambda: np.asmatrix(X),
    "misaligned": lambda: np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view("f4").reshape(2, 3),
}


def _read_only(array: Any) -> Any:
    array = array.copy()
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays_are_read_as_their_values(double: Any, dynamic: Any, kind: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = ARRAYS[kind]()
        np.testing.assert_array_equal(double(array), 2 * np.asarray(array))
        np.testing.assert_array_equal(dynamic(array), 2 * np.asarray(array))


REFUSED_ARRAYS: dict[str, tuple[Callable[[], Any], str]] = {
    "other byte order": (lambda: X.astype(X.dtype.newbyteorder()), "of the other byte order"),
    "structured": (lambda: np.zeros((2, 3), [("a", "f4")]), "holds void"),
    "objects": (lambda: X.astype(object), "holds object"),
    "masked": (lambda: np.ma.masked_less(X, 2), "is a masked array"),
    "complex": (lambda: X.astype(np.complex64), "holds complex64"),
    "dates": (lambda: np.zeros((2, 3), "M8[s]"), "holds datetime64"),
    "text": (lambda: X.astype("U4"), "holds str"),
    "list": (lambda: X.tolist(), "is a list, not an array|is a list"),
    "none": (lambda: None, "is a NoneType"),
    "bytes": (lambda: X.tobytes(), "is a bytes"),
}


@pytest.mark.parametrize("kind", REFUSED_ARRAYS)
def test_arrays_that_are_no_plain_memory_are_refused(double: Any, dynamic: Any, kind: str) -> None:
    make, message = REFUSED_ARRAYS[kind]
    array = make()
    for executable in (double, dynamic):
        with pytest.raises(TypeError, match=f"argument 0 .*({message})"):
            executable(array)
    if array is not None and not isinstance(array, list):
        with pytest.raises(TypeError, match=f"out 0 .*({message})"):
            double(X, out=array)


def test_numbers_have_no_dimensions(torch: Any) -> None:
    text = "func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }"
    compiled: Any = convir_compile(text, device="host")
    for value in (2.5, np.float32(2.5), np.array(2.5, np.float32), torch.tensor(2.5)):
        assert compiled(value) == 2.5
    assert compiled(torch._neg_view(torch.tensor(2.5))) == -2.5


def test_other_libraries_that_refuse_are_named(double: Any) -> None:
    class Elsewhere:
        shape, dtype = (2, 3), np.dtype(np.float32)

        def __dlpack_device__(self) -> tuple[int, int]:
            raise ValueError("nowhere")

        def __dlpack__(self, **_: Any) -> Any:
            raise ValueError("nowhere")

    with pytest.raises(TypeError, match="argument 0 cannot be read by numpy through DLPack"):
        double(Elsewhere())


def test_streams_read_values_too(tmp_path: Any) -> None:
    from convir.api.stream import Stream  # noqa: PLC0415

    made = np.ma.masked_less(X, 2)
    stream = Stream.__new__(Stream)
    stream._arrays = np  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(TypeError, match="the block is a masked array"):
        stream.process(made)
    with pytest.raises(TypeError, match="is a masked array"):
        stream.prepare(X, made)


def test_tensors_in_are_tensors_out(torch: Any, double: Any, dynamic: Any) -> None:
    for executable in (double, dynamic):
        result = executable(torch.from_numpy(X.copy()))
        assert isinstance(result, torch.Tensor)
        np.testing.assert_array_equal(result.numpy(), 2 * X)
        assert type(executable(X)) is np.ndarray


BFLOAT16_TEXT = TEXT.replace("f32", "bf16")


def test_bfloat16_goes_in_and_comes_out_as_it_came(torch: Any) -> None:
    compiled: Any = convir_compile(BFLOAT16_TEXT, device="host")
    array = X.astype(ml_dtypes.bfloat16)
    result = compiled(array)
    assert (type(result), result.dtype) == (np.ndarray, ml_dtypes.bfloat16)
    np.testing.assert_array_equal(result, (2 * X).astype(ml_dtypes.bfloat16))
    tensor = torch.from_numpy(X.copy()).to(torch.bfloat16)
    for given in (tensor, tensor.T.contiguous().T, torch._neg_view(-tensor)):
        result = compiled(given)
        assert result.dtype == torch.bfloat16
        assert torch.equal(result, 2 * tensor)
    out = torch.empty(2, 3, dtype=torch.bfloat16)
    assert compiled(array, out=out) is not None
    assert torch.equal(out, 2 * tensor)
    with pytest.raises(TypeError, match="bfloat16, the program's is float32"):
        convir_compile(TEXT, device="host")(tensor)


def test_bfloat16_of_other_libraries_is_read_as_ml_dtypes(torch: Any) -> None:
    """NumPy's DLPack knows no bf16; such arrays say their dtype and convert themselves."""

    class Foreign:
        shape, dtype = (2, 3), np.dtype(ml_dtypes.bfloat16)

        def __init__(self) -> None:
            self.tensor = torch.from_numpy(X.copy()).to(torch.bfloat16)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.tensor.__dlpack_device__()

        def __dlpack__(self, **options: Any) -> Any:
            return self.tensor.__dlpack__(**options)

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return self.tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)

    compiled: Any = convir_compile(BFLOAT16_TEXT, device="host")
    expected = (2 * X).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(compiled(Foreign()), expected)
