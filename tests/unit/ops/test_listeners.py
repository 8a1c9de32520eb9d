"""Who has a port."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from fleet.ops.listeners import first_free, holder, is_free


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_taken_port_is_named_with_its_process(taken: int) -> None:
    assert not is_free(taken)
    assert holder(taken).startswith(f"pid {os.getpid()} (")


def test_the_next_free_port_is_found(taken: int) -> None:
    assert first_free(taken) > taken


def test_no_free_port_is_an_error(taken: int) -> None:
    with pytest.raises(OSError, match="no free port"):
        first_free(taken, count=1)
