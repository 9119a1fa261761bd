"""What a worker gets of its caller."""

from pathlib import Path

from muster.actions.caller import inherited


def test_little_of_the_environment_comes_along():
    assert inherited({"PATH": "/bin", "TOKEN": "x", "MUSTER_HOME": ""}) == {"PATH": "/bin"}


def test_an_environment_of_conda_comes_along():
    activated = {"PATH": "/c/bin", "CONDA_PREFIX": "/c", "CONDA_DEFAULT_ENV": "c"}
    assert inherited(activated | {"CONDA_SHLVL": "1"}) == activated


def test_the_home_of_the_cluster_is_the_same_wherever_the_worker_starts():
    assert inherited({"MUSTER_HOME": "here"}) == {"MUSTER_HOME": str(Path.cwd() / "here")}
