"""What `muster alter` refuses before it asks a server."""

import pytest
from click.testing import CliRunner

from muster.cli.commands.changes.alter import command


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ([], "say what to change: --time, --queue or --priority"),
        (["--force"], "say what to change: --time, --queue or --priority"),
        (["--name", "other"], "--name: a job keeps its name, by which its workers find each other"),
        (["--time", "soon"], "'soon' is no time"),
        (["--time", "90"], "90 of what? Say 90s, 90m or 90h"),
    ],
)
def test_what_means_nothing_is_refused(options: list[str], complaint: str) -> None:
    done = CliRunner().invoke(command, ["train", *options])
    assert done.exit_code == 2
    assert complaint in done.output
