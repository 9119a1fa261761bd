"""The work of a job, from what the caller gives."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from muster.actions.errors import UserError
from muster.sdk.submission import work_of, write_calls


@pytest.mark.parametrize("argument", [3, "three", b"3", None])
def test_a_single_argument_is_answered_with_how_it_is_given(argument: Any) -> None:
    with pytest.raises(TypeError) as refused:
        work_of(print, argument, None)
    assert str(refused.value).endswith(f"say args=({argument!r},)")


@pytest.mark.parametrize("arguments", [(), (3,), [1, 2], range(2)])
def test_arguments_are_a_sequence(arguments: Any) -> None:
    assert list(work_of(print, arguments, None).name) == ["print"]


def test_a_call_that_cannot_be_written_is_answered_with_where_and_how_large(tmp_path: Path) -> None:
    with pytest.raises(UserError) as refused:
        asyncio.run(write_calls(tmp_path / "gone", {"call": b"1234"}))
    assert str(refused.value) == f"cannot write the call, 4 bytes, to {tmp_path}/gone/call: No such file or directory"


@pytest.mark.parametrize("cancelled", [False, True])
def test_the_loop_runs_on_while_a_call_is_written(tmp_path: Path, cancelled: bool) -> None:
    """The pipe blocks its writer until somebody reads."""
    call = b"x" * 1_000_000
    os.mkfifo(tmp_path / "call")

    async def write() -> bytes:
        writing = asyncio.create_task(write_calls(tmp_path, {"call": call, "later": b""}))
        await asyncio.sleep(0)
        for _ in range(2 * cancelled):
            writing.cancel()
            await asyncio.sleep(0.01)
        waits = not writing.done()
        reading = await asyncio.to_thread((tmp_path / "call").read_bytes)
        [ended] = await asyncio.gather(writing, return_exceptions=True)
        assert isinstance(ended, asyncio.CancelledError) is cancelled
        assert waits
        assert (tmp_path / "later").exists(), "nothing is written later"
        return reading

    assert asyncio.run(write()) == call
