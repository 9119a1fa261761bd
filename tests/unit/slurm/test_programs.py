"""How a batch script finds srun."""

import subprocess

import pytest

from muster.slurm.programs import PROGRAMS, add_programs, find_programs_first

TEXT = "#!/bin/bash -l\n#SBATCH -n 1\necho $LINENO; command -v srun\n"


@pytest.mark.parametrize("words", [["bash"], ["bash", "-l"], ["env", "sh"]])
def test_a_script_of_a_shell_finds_srun_whatever_a_login_shell_sets(words):
    command = find_programs_first([*words, "-c", TEXT, "job.sh"])
    done = subprocess.run(command, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == str(PROGRAMS / "srun")
    if "bash" in words:
        assert done.stdout.splitlines()[0] == "3"


@pytest.mark.parametrize("command", [["python", "-c", TEXT], ["bash", "-c", "true", "job.sh"], ["./job", "-x"]])
def test_other_commands_stay_as_they_are(command):
    assert find_programs_first(command) == command


def test_the_programs_are_the_first_on_the_path():
    assert add_programs("/bin") == f"{PROGRAMS}:/bin"
    assert {path.name for path in PROGRAMS.iterdir()} == {"scontrol", "srun"}
