"""Names on the command line."""

import click
import pytest
from click.testing import CliRunner

from muster.cli.main import COMMANDS, cli
from muster.cli.names.types import name_or_cron_job, name_or_queue, parse_job_name

COMMANDS_OF_JOBS = ["cancel", "wait", "hold", "release", "logs", "why", "scale", "alter"]


@pytest.mark.parametrize("command", COMMANDS_OF_JOBS)
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "'' is no name\n"),
        (".", "'.' is no name\n"),
        ("..", "'..' is no name\n"),
        ("a/status", "'a/status' is no name\n"),
        ("a%2fstatus", "'a%2fstatus' is no name\n"),
        ("a b", "'a b' is no name\n"),
        ("job/", "'job/' is no name\n"),
        ("job/a/b", "'job/a/b' is no name\n"),
        ("service/a", "'service/a' is no name\n"),
        ("job.apps/a", "'job.apps/a' is no name\n"),
    ],
)
def test_what_is_no_name_is_refused_before_anybody_is_asked(command: str, name: str, said: str) -> None:
    """An empty one, as `"$UNSET"` gives it, would mean all jobs."""
    done = CliRunner().invoke(cli, [command, name, *(["2"] if command == "scale" else [])])
    assert done.exit_code == 2
    assert done.stderr.endswith(said)


@pytest.mark.parametrize(
    "kind",
    [
        "job", "jobs", "Job", "job.batch", "jobs.batch", "jobs.v1.batch", "cj", "cronjob", "cronjobs.batch",
        "jobset", "jobsets", "jobset.jobset.x-k8s.io", "jobsets.v1alpha2.jobset.x-k8s.io",
        "pg", "podgroup", "podgroups.scheduling.volcano.sh",
    ],
)  # fmt: skip
def test_a_job_may_be_named_as_kubectl_names_it(kind: str) -> None:
    assert parse_job_name(f"{kind}/train-*") == "train-*"
    of_cron_job = kind in ("cj", "cronjob", "cronjobs.batch")
    assert name_or_cron_job(f"{kind}/train") == name_or_queue(f"{kind}/train")
    assert name_or_queue(f"{kind}/train") == ("cronjob/train" if of_cron_job else "train"), "a job may have its name"


def test_every_command_of_jobs_takes_a_type_before_the_name() -> None:
    """All arguments that complete to names of jobs parse them alike."""
    parsers = {
        name: getattr(parameter.type, "func", None)
        for name in COMMANDS
        if (command := cli.get_command(click.Context(cli), name)) is not None
        for parameter in command.params
        if isinstance(parameter, click.Argument)
        and getattr(parameter._custom_shell_complete, "__name__", "") in ("complete_jobs", "complete_jobs_and_queues")
    }
    assert parsers.keys() >= {*COMMANDS_OF_JOBS, "ps", "history", "top", "retry", "exec"}
    assert {*parsers.values()} == {parse_job_name, name_or_cron_job, name_or_queue}


@pytest.mark.parametrize("command", ["hold", "release"])
@pytest.mark.parametrize("name", ["queue/", "queue/a/b", "queue/.."])
def test_queues(command: str, name: str) -> None:
    assert CliRunner().invoke(cli, [command, name]).exit_code == 2


def takes_a_namespace(name: str) -> bool:
    command = cli.get_command(click.Context(cli), name)
    return command is not None and any(parameter.name == "namespace" for parameter in command.params)


@pytest.mark.parametrize("command", [*filter(takes_a_namespace, COMMANDS)])
def test_namespaces(command: str) -> None:
    rest = {"apply": ["-f", "-"], "scale": ["j", "2"], "run": ["true"]}.get(command, [])
    rest = rest or (["j"] if command in COMMANDS_OF_JOBS else [])
    for namespace in ("..", "a/pods"):
        done = CliRunner().invoke(cli, [command, "-n", namespace, *rest])
        assert done.exit_code == 2, done.stderr
        assert f"{namespace!r} is no name" in done.stderr
