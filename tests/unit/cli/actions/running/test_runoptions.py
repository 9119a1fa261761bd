"""The options of `muster run` as values."""

import click
import pytest

from muster.api.ours.deferral import Dependency, Outcome
from muster.cli.actions.running import runoptions


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (["prep"], [Dependency("prep")]),
        (["job/prep,jobset.jobset.x-k8s.io/eval:any"], [Dependency("prep"), Dependency("eval", Outcome.ANY)]),
        (["prep", "job.batch/prep"], [Dependency("prep")]),
    ],
)
def test_jobs_to_wait_for(after: list[str], expected: list[Dependency]) -> None:
    assert [*runoptions.parse_deferral("", after).after] == expected


@pytest.mark.parametrize("after", ["pod/prep", "a/b/c", "job/prep:ok,prep:fail"])
def test_what_no_job_is_waited_for_by(after: str) -> None:
    with pytest.raises(click.BadParameter):
        runoptions.parse_deferral("", [after])
