"""How scripts write sbatch's options, and what Muster does with each."""

import pytest

from muster.slurm.options import SBATCH, SRUN, Fate, OptionError, Value, read_line, read_srun


def pairs(*words):
    return [(setting.option.name, setting.value) for setting in read_line(words)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--nodes=2"], [("nodes", "2")]),
        (["--nodes", "2", "-n4"], [("nodes", "2"), ("ntasks", "4")]),
        (["-N", "2", "-J", "a b"], [("nodes", "2"), ("job-name", "a b")]),
        (["--exclusive"], [("exclusive", "")]),
        (["--exclusive=user", "--requeue"], [("exclusive", "user"), ("requeue", "")]),
        (["-QW", "-vt", "5"], [("quiet", ""), ("wait", ""), ("verbose", ""), ("time", "5")]),
        (["-t5"], [("time", "5")]),
        (["--tasks-per-node=4"], [("ntasks-per-node", "4")]),
        (["--output="], [("output", "")]),
        ([], []),
    ],
)
def test_options_are_read_as_sbatch_reads_them(words, expected):
    assert pairs(*words) == expected


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--ntask=4"], "Muster does not know --ntask of sbatch; did you mean --ntasks?"),
        (["--cpus-per-tasks", "4"], "Muster does not know --cpus-per-tasks of sbatch; did you mean --cpus-per-task?"),
        (["--job_name=x"], "Muster does not know --job_name of sbatch; did you mean --job-name?"),
        (["--workers", "4"], "Muster does not know --workers of sbatch"),
        (["-Z"], "Muster does not know -Z of sbatch"),
        (["--nodes"], "--nodes needs a value"),
        (["-n"], "--ntasks needs a value"),
        (["--requeue=1"], "--requeue takes no value"),
        (["train.py"], "'train.py' is no option; the command is the script itself"),
        (["--"], "'--' is no option; the command is the script itself"),
        (["-"], "'-' is no option; the command is the script itself"),
        (["hetjob"], "hetjob: a job has nodes of one kind; write its parts with: muster run --role"),
    ],
)
def test_what_cannot_be_read_is_said(words, complaint):
    with pytest.raises(OptionError) as refused:
        pairs(*words)
    assert str(refused.value) == complaint


@pytest.mark.parametrize(
    ("words", "settings", "command"),
    [
        (["-n4", "python", "-n", "x"], [("ntasks", "4")], ["python", "-n", "x"]),
        (["-lN", "2", "--", "--odd"], [("label", ""), ("nodes", "2")], ["--odd"]),
        (["--exact", "hostname"], [("exact", "")], ["hostname"]),
        (["hostname"], [], ["hostname"]),
        ([], [], []),
    ],
)
def test_behind_the_options_of_srun_stands_its_command(words, settings, command):
    found, rest = read_srun(words)
    assert [(setting.option.name, setting.value) for setting in found] == settings
    assert rest == command


@pytest.mark.parametrize("options", [SBATCH, SRUN], ids=["sbatch", "srun"])
def test_no_two_options_share_a_name_or_a_letter(options):
    names = [option.name for option in options]
    letters = [option.letter for option in options if option.letter]
    assert len(set(names)) == len(names)
    assert len(set(letters)) == len(letters)
    assert all(len(letter) == 1 for letter in letters)


def test_every_option_that_is_not_followed_says_why():
    told = [option for option in (*SBATCH, *SRUN) if option.fate in (Fate.IGNORED, Fate.REFUSED)]
    assert all(option.why and not option.why.endswith(".") for option in told)


def test_only_options_with_a_needed_value_take_the_next_word():
    for option in SBATCH:
        words = [f"--{option.name}", "--verbose"]
        assert len(pairs(*words)) == (1 if option.value is Value.NEEDED else 2)
