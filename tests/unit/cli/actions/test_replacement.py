"""The jobs that `muster run --replace` can replace."""

import pytest
from click.testing import CliRunner

from muster.cli.main import cli


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ([], "--replace needs the name of the job: add --name"),
        (["--name", "j", "--cron", "@daily"], "--replace and --cron exclude each other: a CronJob never ends"),
    ],
)
def test_a_job_without_a_name_or_an_end_is_not_replaced(options, complaint):
    done = CliRunner().invoke(cli, ["run", "--replace", *options, "--dry-run", "--", "true"], prog_name="muster")
    assert done.exit_code == 2
    assert f"Error: {complaint}\n" in done.output
