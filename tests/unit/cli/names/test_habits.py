"""What is suggested for a word that is not known."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from muster.cli.main import COMMANDS, cli
from muster.cli.names import habits
from muster.insight.nearest import find_nearest


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("lgos", "logs"),
        ("sta", "status"),
        ("queu", "queue"),
        ("squeue", "ps"),
        ("scancel", "cancel JOB"),
        ("delete", "cancel JOB"),
        ("submit", "run --detach"),
        ("sumbit", "run --detach"),
        ("sqeueu", "ps"),
        ("describe", "why JOB"),
        ("xyzzy", ""),
        ("", ""),
        ("s", ""),
    ],
)
def test_commands(word: str, found: str) -> None:
    assert find_nearest(word, COMMANDS, habits.COMMANDS) == found


def test_what_other_systems_have_is_called_something_that_there_is_and_is_not_here() -> None:
    for word, found in habits.COMMANDS.items():
        assert word not in COMMANDS
        first = found.partition(" ")[0].rstrip(",")
        assert first in COMMANDS or first in ("--version", "--help")
        assert f"did you mean: muster {found}\n" in CliRunner().invoke(cli, [word], prog_name="muster").stderr


def test_each_command_of_slurm_that_its_page_names_has_a_counterpart() -> None:
    page = Path(__file__).parents[4] / "docs" / "slurm.md"
    words = re.findall(r"^(?:\| `|## .*?)(s(?!bcast|lurm|ystem)[a-z]+)\b", page.read_text(), re.MULTILINE)
    assert {"sacctmgr", "squeue", "sstat"} <= set(words)
    assert set(words) <= set(habits.COMMANDS)


def test_options_of_other_systems_are_called_what_some_command_has() -> None:
    context = cli.make_context("muster", [], resilient_parsing=True)
    commands = [cli.get_command(context, name) for name in COMMANDS]
    ours = [{name for one in command.params for name in one.opts} for command in commands if command is not None]
    named = {word: found.partition(" ")[0] for word, found in habits.OPTIONS.items()}
    assert set(named.values()) <= set().union(*ours)
    assert not [word for word, found in named.items() if any({word, found} <= one for one in ours)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--ntasks", "4", "ls"], "no such option: --ntasks; did you mean --workers?"),
        (["run", "--nodes", "4", "ls"], "no such option: --nodes; did you mean --workers?"),
        (["run", "-N", "2", "ls"], "no such option: -N; did you mean --workers?"),
        (["run", "--walltime", "1h", "ls"], "no such option: --walltime; did you mean --time?"),
        (["history", "--starttime", "1h"], "no such option: --starttime; did you mean --since?"),
        (["logs", "-p", "j"], "no such option: -p\n"),
        (["run", "--chdir", "/", "ls"], "no such option: --chdir; did you mean --workdir?"),
        (["run", "--imgae", "x", "ls"], "no such option: --imgae; did you mean --image?"),
        (["run", "--fame", "x", "ls"], "no such option: --fame; did you mean --name?"),
        (["logs", "--time", "1h", "j"], "no such option: --time; did you mean --timestamps?"),
        (["ps", "--all-name"], "no such option: --all-name; did you mean --all-namespaces?"),
        (["ps", "--folow"], "no such option: --folow\n"),
        (["logs", "--folow", "j"], "no such option: --folow; did you mean --follow?"),
        (["up", "--cpus", "8"], "no such option: --cpus; did you mean --nodes process,cpu=N?"),
        (["restart", "--memory", "8Gi"], "no such option: --memory; did you mean --nodes process,memory=N?"),
        (["up", "--cpu", "8"], "no such option: --cpu; did you mean --nodes process,cpu=N?"),
        (["queue", "lst"], "no such command: lst; did you mean: muster queue list"),
        (["queue", "rm", "q"], "no such command: rm\n"),
    ],
)
def test_options_and_commands_of_commands(arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(cli, arguments, prog_name="muster")
    assert done.exit_code == 2
    assert message in done.stderr
