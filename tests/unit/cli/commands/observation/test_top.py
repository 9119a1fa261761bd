"""The tables of `muster top`."""

from collections import Counter

from muster.cli.commands.observation.top import _make_users_table


def test_the_table_of_jobs_names_their_owners() -> None:
    asked = Counter(cpu=2000, pods=1)
    users = {
        ("default", "train", "system:serviceaccount:muster-users:ada", "vision"): asked,
        ("default", "lost", "", "-"): Counter(pods=1),
    }
    header, train, lost = _make_users_table(users, ["cpu", "pods"], {}).splitlines()
    assert header.split()[:6] == ["NAMESPACE", "NAME", "OWNER", "CLUSTERQUEUE", "CPU", "PODS"]
    assert train.split()[:6] == ["default", "train", "ada", "vision", "2", "1"]
    assert lost.split()[:6] == ["default", "lost", "-", "-", "0", "1"]
