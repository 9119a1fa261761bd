"""What an executor is made with, before a cluster is asked."""

from typing import Any

import pytest

from muster import Executor


def test_the_usual_name_of_the_size_is_answered_with_ours() -> None:
    usual: Any = {"max_workers": 4}
    with pytest.raises(TypeError, match="array=4 makes four calls at a time"):
        Executor(**usual)
