"""How scripts find the nodes of their job."""

import pytest

from muster.slurm.scontrol import list_hosts

JOB = {"SLURM_JOB_NODELIST": "n0,n1"}


@pytest.mark.parametrize(
    ("words", "hosts"),
    [
        (["show", "hostnames"], ["n0", "n1"]),
        (["show", "hostname", "n1,n2"], ["n1", "n2"]),
        (["show", "hostnames", "n0"], ["n0"]),
    ],
)
def test_host_names_are_listed(words, hosts):
    assert list_hosts(words, JOB) == hosts


@pytest.mark.parametrize("words", [[], ["show", "job", "7"], ["requeue", "7"], ["show", "hostnames", "n[0-3]"]])
def test_anything_else_is_refused(words):
    with pytest.raises(ValueError, match=r"hostnames|one by one"):
        list_hosts(words, JOB)
