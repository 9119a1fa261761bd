"""A kubeconfig that somebody changed is seen without parsing it."""

import pytest
import yaml

from muster.api.ours.writtenconfig import add_mark, is_unchanged

TEXT = b"apiVersion: v1\nkind: Config\nusers: []\n"


def test_a_marked_text_is_unchanged_and_still_the_same_yaml() -> None:
    assert is_unchanged(add_mark(TEXT))
    assert yaml.safe_load(add_mark(TEXT)) == yaml.safe_load(TEXT)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(TEXT, id="never marked, or written again by kubectl"),
        pytest.param(add_mark(TEXT) + b"\n", id="a line more"),
        pytest.param(add_mark(TEXT).replace(b"v1", b"v2"), id="another value"),
        pytest.param(add_mark(TEXT)[:-1], id="cut off"),
        pytest.param(add_mark(TEXT).partition(b"\n")[0], id="the mark alone"),
        pytest.param(b"\n" + add_mark(TEXT), id="an empty line before the mark"),
    ],
)
def test_any_change_is_seen(content: bytes) -> None:
    assert not is_unchanged(content)
