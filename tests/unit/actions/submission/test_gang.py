"""What a gang may be called, and what it can carry."""

import pytest

from muster.actions.submission.gang import Gang, name_for, no_host_name, not_text


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "examples/train_digits.py"], "train-digits-x7k2p"),
        (["python", "-u", "train.py", "--lr", "0.1"], "train-x7k2p"),
        (["./sweep.sh"], "sweep-x7k2p"),
        (["true"], "true-x7k2p"),
        (["/usr/bin/env", "X=1", "python", "a b.py"], "a-b-x7k2p"),
        (["7zip"], "run-7zip-x7k2p"),
        (["--"], "run-x7k2p"),
        (["ü"], "run-x7k2p"),
        (["x" * 80], "x" * 34 + "-x7k2p"),
    ],
)
def test_names_say_what_runs(command, name):
    assert name_for(command, "x7k2p", 40) == name


@pytest.mark.parametrize(
    ("gang", "complaint"),
    [
        (Gang("x", ["echo", "é😀\n\t"], environment={"A": "ü"}, working_directory="/ö"), ""),
        (Gang("x", ["echo", "\udcff"]), r"argument 1 of the command is not UTF-8 ('\udcff')"),
        (Gang("x", ["x"], environment={"A": "b\udcff"}), r"the variable A is not UTF-8 ('A=b\udcff')"),
        (Gang("x", ["x"], working_directory="/\udcff"), r"the working directory is not UTF-8 ('/\udcff')"),
    ],
)
def test_what_no_manifest_can_carry_is_named(gang, complaint):
    assert not_text(gang) == (f"{complaint}, and a manifest can only carry text" if complaint else "")


@pytest.mark.parametrize(
    ("name", "workers", "good"),
    [
        ("", 1, True),  # it gets one
        ("train", 1, True),
        ("2-b", 1, False),
        ("b-2", 1, True),
        ("a" * 45, 10, True),
        ("a" * 45, 11, False),
        ("Train", 1, False),
        ("my_job", 1, False),
        ("a.b", 1, False),
        ("a-", 1, False),
        ("é", 1, False),
    ],
)
def test_names_of_gangs_are_parts_of_host_names(name, workers, good):
    assert (no_host_name(name, Gang("", ["x"], workers).parts) == "") == good
