"""What `muster shell` asks for."""

import subprocess

import click
import pytest

from muster.actions.parsing.quantities import Amount
from muster.actions.submission.gang import Gang
from muster.actions.submission.workers import pod_spec
from muster.api.values.shells import HANGS_UP, find_typed_command
from muster.cli.actions.running.shells import make_shell_gang, on_terminal

ASKED = {"name": "", "cpus": Amount("2", "2"), "memory": None, "gpus": 1, "image": "", "queue": "vision"}
ASKED |= {"priority": "", "queue_priority": ""}


def test_it_is_one_worker_on_a_terminal_that_begins_when_a_user_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/zsh")
    monkeypatch.setenv("TERM", "xterm")
    gang = make_shell_gang((), ASKED, "lab", on_this_machine=True)
    assert (gang.size, gang.namespace, gang.queue) == (1, "lab", "vision")
    assert gang.name.startswith("shell-")
    spec = pod_spec(gang, gang.parts[0], 0)
    [container] = spec["containers"]
    assert (container["stdin"], container["stdinOnce"], container["tty"]) == (True, True, True)
    assert container["command"][:2] == ["sh", "-c"]
    assert gang.annotations == {HANGS_UP: "true"}
    assert spec["terminationGracePeriodSeconds"] == 2, "a shell heeds no SIGTERM"
    assert find_typed_command(container["command"]) == ["/bin/zsh"]  # so says history
    assert {"name": "TERM", "value": "xterm"} in container["env"]
    assert container["resources"] == {"requests": {"cpu": "2"}, "limits": {"cpu": "2", "nvidia.com/gpu": 1}}


def test_where_nodes_have_images_it_is_that_of_one_and_none_of_ours() -> None:
    gang = make_shell_gang((), ASKED | {"image": "python"}, "lab", on_this_machine=False)
    assert gang.command[-1] == "sh"
    assert (gang.working_directory, set(gang.environment)) == ("", {"TERM"})
    with pytest.raises(click.UsageError, match="name one with --image"):
        make_shell_gang((), ASKED, "lab", on_this_machine=False)


def test_it_begins_with_a_line_that_comes_and_not_without() -> None:
    gang = make_shell_gang(("sh", "-c", "read x; echo got $x"), ASKED, "lab", on_this_machine=True)
    joined = subprocess.run(gang.command, input=b"\nhello\n", capture_output=True, check=False)
    assert (joined.returncode, joined.stdout) == (0, b"got hello\n")
    alone = subprocess.run(gang.command, input=b"", capture_output=True, check=False)
    assert (alone.returncode, alone.stdout) == (1, b"no client connected to this terminal\n")


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(click.BadParameter, match="becomes part of host names"):
        make_shell_gang((), ASKED | {"name": "Box"}, "lab", on_this_machine=True)
    assert make_shell_gang(("ipython", "-i"), ASKED, "lab", on_this_machine=True).command[-2:] == ["ipython", "-i"]


def test_only_rank_0_of_several_workers_is_on_the_terminal() -> None:
    gang = on_terminal(Gang("train", ["python", "a.py"], workers=4, gpus=1))
    assert [(role.name, role.workers, role.gpus) for role in gang.parts] == [("first", 1, 1), ("workers", 3, 1)]
    first, others = (pod_spec(gang, role, rank) for role, rank in zip(gang.parts, (0, 1), strict=True))
    assert (first["containers"][0]["tty"], first["terminationGracePeriodSeconds"]) == (True, 2)
    assert {"stdin", "tty"}.isdisjoint(others["containers"][0])
    assert "terminationGracePeriodSeconds" not in others
    assert {tuple(find_typed_command(spec["containers"][0]["command"])) for spec in (first, others)} == {
        ("python", "a.py")
    }
