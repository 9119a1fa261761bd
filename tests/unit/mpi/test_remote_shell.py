"""What stands behind the name of the program that mpirun takes for ssh."""

import os

import pytest

from muster.mpi.remote_shell import export, find_rank, parse, read_environment

NAMES = ["sum-workers-0-0.sum", "sum-workers-0-1.sum", "sum-workers-0-10.sum"]


@pytest.mark.parametrize(
    "words",
    [
        ["host", "orted", "-mca", "x", "1"],
        ["-x", "-q", "host", "orted -mca", "x 1"],
        ["-l", "me", "-p", "22", "-x", "host", "orted", "-mca x 1"],
    ],
)
def test_options_of_ssh_stand_before_the_host_and_all_behind_it_is_for_a_shell(words):
    assert parse(words) == ("host", "orted -mca x 1")


@pytest.mark.parametrize("words", [[], ["host"], ["-x", "host"], ["-l", "me"]])
def test_a_call_without_a_command_is_refused(words):
    with pytest.raises(ValueError, match="HOST COMMAND"):
        parse(words)


@pytest.mark.parametrize(
    ("host", "rank"), [("sum-workers-0-1.sum", 1), ("sum-workers-0-1", 1), ("sum-workers-0-10", 2)]
)
def test_a_host_is_known_by_its_name_or_by_the_first_part_of_it(host, rank):
    assert find_rank(host, NAMES) == rank


def test_another_host_is_none_of_the_job():
    with pytest.raises(ValueError, match=r"other.org is no worker of this job"):
        find_rank("other.org", NAMES)


def test_daemons_find_what_the_script_has_set_and_nothing_of_its_worker():
    before = {"PATH": "/bin", "HOSTNAME": "n0", "A": "1"}
    environment = before | {"PATH": "/opt/my mpi/bin:/bin", "B": "it's", "BASH_FUNC_x%%": "() { :; }"}
    assert export(environment, before) == "export PATH='/opt/my mpi/bin:/bin'; export B='it'\"'\"'s'; "
    assert export(before, before) == ""


def test_without_a_script_nothing_is_passed_on(tmp_path):
    assert export(os.environ, read_environment(tmp_path)) == ""
    (tmp_path / "environment.json").write_text("{}")
    assert "export PATH=" in export(os.environ, read_environment(tmp_path))
