"""What `muster run` refuses before it asks a cluster."""

import pytest
from click.testing import CliRunner

from muster.cli.main import cli


@pytest.mark.parametrize(
    ("schedule", "sentence"),
    [
        ("61 * * * *", "end of range (61) above maximum (59): 61; a schedule is such as '0 3 * * *' or @daily"),
        ("daily", "expected exactly 5 fields, found 1: [daily]"),
        ("0 0 30 2 *", "no date matches, so that the job would never start"),
        ("", "it is empty; without a value leave it out"),
    ],
)
def test_a_schedule_that_makes_no_sense(schedule: str, sentence: str) -> None:
    done = CliRunner().invoke(cli, ["run", "--cron", schedule, "--", "true"])
    assert done.exit_code == 2
    assert sentence in done.stderr


@pytest.mark.parametrize(
    "others",
    [
        ["--role", "a"], ["--elastic", "1:2"], ["--workers", "2", "--mpi"], ["--exclusive"], ["--start-timeout", "9s"],
        ["--workers", "2", "--retries", "1"],
    ],
)  # fmt: skip
def test_a_cronjob_makes_jobs_alone(others: list[str]) -> None:
    done = CliRunner().invoke(cli, ["run", "--dry-run", "--image", "i", "--cron", "@daily", *others, "--", "true"])
    assert done.exit_code == 2
    option = next(word for word in reversed(others) if word.startswith("--"))
    assert f"--cron and {option} exclude each other: a CronJob makes Jobs" in done.stderr
