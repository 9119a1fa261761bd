"""What a worker gets of its caller."""

import os
from pathlib import Path

import pytest

from muster.actions.submission.caller import find_inherited_environment, make_umask_annotations


def test_little_of_the_environment_comes_along():
    assert find_inherited_environment({"PATH": "/bin", "TOKEN": "x", "MUSTER_HOME": ""}) == {"PATH": "/bin"}


def test_an_environment_of_conda_comes_along():
    activated = {"PATH": "/c/bin", "CONDA_PREFIX": "/c", "CONDA_DEFAULT_ENV": "c"}
    assert find_inherited_environment(activated | {"CONDA_SHLVL": "1"}) == activated


def test_the_home_of_the_cluster_is_the_same_wherever_the_worker_starts():
    assert find_inherited_environment({"MUSTER_HOME": "here"}) == {"MUSTER_HOME": str(Path.cwd() / "here")}
    assert find_inherited_environment({"MUSTER_SOCKET": "m.sock"}) == {"MUSTER_SOCKET": str(Path.cwd() / "m.sock")}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Umask:\t0077", {"muster.dev/umask": "0077"}),
        ("Umask:\t0022", {}),
        ("Name:\tpython", {}),
    ],
)
def test_another_umask_than_the_usual_one_is_passed_on(tmp_path, line, expected):
    (tmp_path / "status").write_text(f"{line}\nState:\tR (running)\n")
    assert make_umask_annotations(tmp_path / "status") == expected


def test_the_callers_own_umask_is_passed_on():
    before = os.umask(0o027)
    try:
        assert make_umask_annotations() == {"muster.dev/umask": "0027"}
    finally:
        os.umask(before)
