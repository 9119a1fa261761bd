"""What the options about the users of a queue mean, and what is wrong with them."""

import click
import pytest

from muster.cli.actions.queues.queueoptions import read_limits, read_quotas, read_users


def test_users_and_limits_are_lists() -> None:
    assert read_users("ada, bob,ada", "--users") == frozenset({"ada", "bob"})
    assert read_users(None, "--users") is None
    assert read_limits(["jobs=4,gpus=2", "gpus=unlimited"]) == {"jobs": "4", "gpus": "unlimited"}


@pytest.mark.parametrize("text", ["", "ada,,bob", "ada bob", "unix:ada", ","])
def test_a_strange_user_is_named(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is no name of a user; expected NAME,NAME"):
        read_users(text, "--users")


@pytest.mark.parametrize("text", ["job=4", "jobs", "jobs=-1", "jobs=1.5", "gpus=two"])
def test_a_strange_limit_is_named_with_those_that_there_are(text: str) -> None:
    with pytest.raises(click.BadParameter, match=f"'{text}': expected LIMIT=N, where LIMIT is jobs or gpus or waiting"):
        read_limits([text])


@pytest.mark.parametrize(
    ("cpus", "pairs", "sentence"),
    [("1e30", [], "1e30 cpu is more than Kubernetes counts"), ("", ["a/b=10E"], "10E a/b is more than Kubernetes")],
)
def test_a_quota_that_cannot_be_counted_is_refused(cpus: str, pairs: list[str], sentence: str) -> None:
    with pytest.raises(click.BadParameter, match=sentence):
        read_quotas({"cpus": cpus, "memory": "", "gpus": "", "quota": pairs})
