"""The work of a job, from what the caller gives."""

from typing import Any

import pytest

from muster.sdk.core import work_of


@pytest.mark.parametrize("argument", [3, "three", b"3", None])
def test_a_single_argument_is_answered_with_how_it_is_given(argument: Any) -> None:
    with pytest.raises(TypeError) as refused:
        work_of(print, argument, None)
    assert str(refused.value).endswith(f"say args=({argument!r},)")


@pytest.mark.parametrize("arguments", [(), (3,), [1, 2], range(2)])
def test_arguments_are_a_sequence(arguments: Any) -> None:
    assert list(work_of(print, arguments, None).name) == ["print"]
