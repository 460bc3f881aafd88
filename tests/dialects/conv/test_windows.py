"""Window arithmetic against enumeration."""

from __future__ import annotations

import pytest
from conv_cases import windows
from hypothesis import given
from xdsl.dialects.builtin import DYNAMIC_INDEX

from convir.dialects.conv.layouts import Layout
from convir.dialects.conv.windows import Window, output_shape

pytestmark = pytest.mark.fast


def reads(window: Window, input_size: int, outputs: int) -> dict[tuple[int, int], int]:
    """(output position, tap) to the input position it reads, where that is not padding."""
    return {
        (p, r): h
        for p in range(outputs)
        for r in range(window.taps)
        if 0 <= (h := p * window.stride + r * window.dilation - window.pad_low) < input_size
    }


@given(windows())
def test_output_size_counts_the_windows_that_fit(case: tuple[Window, int]) -> None:
    window, size = case
    last = size + window.pad_high - 1
    reach = (window.taps - 1) * window.dilation
    starts = range(-window.pad_low, size + window.pad_high, window.stride)
    assert window.output_size(size) == sum(start + reach <= last for start in starts)


@given(windows())
def test_smallest_input_is_the_smallest_with_as_many_outputs(case: tuple[Window, int]) -> None:
    window, size = case
    outputs = window.output_size(size)
    smallest = window.smallest_input(outputs)
    assert smallest <= size < smallest + window.stride
    assert window.output_size(smallest + window.stride) == outputs + 1


@given(windows())
def test_what_is_touched(case: tuple[Window, int]) -> None:
    window, size = case
    outputs = window.output_size(size)
    touched = reads(window, size, outputs)
    assert window.inputs_read(size, outputs) == len(set(touched.values()))
    assert window.outputs_used(size, outputs) == len({p for p, _ in touched})
    assert window.taps_used(size, outputs) == len({r for _, r in touched})
    for tap in range(window.taps):
        expected = [p for p in range(outputs) if (p, tap) in touched]
        assert list(window.outputs_of_tap(tap, size, outputs)) == expected


@given(windows())
def test_the_scatter_feeds_a_dense_correlation_with_the_flipped_filter(
    case: tuple[Window, int],
) -> None:
    window, size = case
    outputs = window.output_size(size)
    scatter = window.scatter(size, outputs)
    assert scatter.size == size + window.dilation * (window.taps - 1)
    buffer = {scatter.offset + i * scatter.stride: scatter.first + i for i in range(scatter.count)}
    assert all(0 <= position < scatter.size for position in buffer)
    found = {
        (buffer[h + flipped * window.dilation], window.taps - 1 - flipped): h
        for h in range(size)
        for flipped in range(window.taps)
        if h + flipped * window.dilation in buffer
    }
    assert found == reads(window, size, outputs)


def test_no_window_fits() -> None:
    with pytest.raises(ValueError, match="a filter that spans 5 does not fit a padded input of 4"):
        Window(taps=3, dilation=2, pad_high=1).output_size(3)


@pytest.mark.parametrize(
    ("letters", "message"),
    [
        ("NHC", "'NHC' is not the layout of an activation"),
        ("NCHWD2", "not the layout"),
        ("", "not the layout"),
        ("nhwc", "not the layout"),
        ("NNHWC", "not the layout"),
    ],
)
def test_what_is_no_layout(letters: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Layout.activation(letters)


def test_layouts_name_axes() -> None:
    layout = Layout.filter("RSCK")
    assert (layout.outer_axis, layout.channel_axis, layout.spatial_axes) == (3, 2, (0, 1))
    assert layout.arrange(8, 4, (3, 5)) == (3, 5, 4, 8)


def test_fprop_infers_its_output_in_any_layout() -> None:
    layouts = (Layout.activation("CNHW"), Layout.filter("RSCK"), Layout.activation("NHWC"))
    both = (Window(3, stride=2, pad_low=1, pad_high=1), Window(1))
    assert output_shape((4, 2, 50, 7), (3, 1, 4, 8), both, layouts) == (2, 25, 7, 8)
    dynamic = (4, DYNAMIC_INDEX, DYNAMIC_INDEX, 7)
    expected = (DYNAMIC_INDEX, DYNAMIC_INDEX, 7, 8)
    assert output_shape(dynamic, (3, 1, 4, 8), both, layouts) == expected
