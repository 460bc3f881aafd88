"""Elements of constants are kept while a program is compiled from them, and no longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from convir.dialects.conv.constant import BlobAttr, digest_of
from convir.dialects.conv.held_elements import held, hold, holding_elements
from convir.reference.blobs import BlobError, read_blob

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.fast

W = np.arange(6, dtype=np.float32).reshape(2, 3)
DIGEST = digest_of(W.tobytes())


def test_elements_are_kept_until_the_last_one_who_asks_is_done() -> None:
    hold(DIGEST, W)
    assert held(DIGEST) is None
    with holding_elements():
        with holding_elements():
            hold(DIGEST, W)
        assert held(DIGEST) is W
    assert held(DIGEST) is None


def test_what_is_held_is_not_read_of_its_file(tmp_path: Path) -> None:
    gone = BlobAttr(str(tmp_path / "gone.npz"), "w", DIGEST)
    with holding_elements():
        hold(DIGEST, W)
        found = read_blob(gone, (2, 3), np.dtype(np.float32))
        np.testing.assert_array_equal(found, W)
        assert not found.flags.writeable
        with pytest.raises(BlobError):
            read_blob(gone, (3, 2), np.dtype(np.float32))
    with pytest.raises(BlobError):
        read_blob(gone, (2, 3), np.dtype(np.float32))
