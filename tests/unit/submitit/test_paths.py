"""The paths of a job are those that submitit gives it."""

from pathlib import Path

import pytest

from muster.submitit.paths import JobPaths


@pytest.mark.parametrize(
    ("base", "job_id", "task", "stdout"),
    [
        ("/logs", "train", 0, "/logs/train_0_log.out"),
        ("/logs/%j", "train_3", 1, "/logs/train_3/train_3_1_log.out"),
        ("/logs/%A/%a-%t", "train_3", 1, "/logs/train/3-1/train_3_1_log.out"),
    ],
)
def test_ids_stand_where_their_marks_are(base, job_id, task, stdout):
    paths = JobPaths(Path(base), job_id, task)
    assert paths.stdout == Path(stdout)
    assert paths.stderr == paths.folder / Path(stdout).with_suffix(".err").name


def test_submitit_names_the_same_files():
    theirs = pytest.importorskip("submitit", reason="it is in the extra [test]").core.utils.JobPaths
    for name in ("folder", "stdout", "stderr"):
        assert getattr(JobPaths(Path("/logs/%A"), "7_3", 1), name) == getattr(theirs("/logs/%A", "7_3", 1), name)
