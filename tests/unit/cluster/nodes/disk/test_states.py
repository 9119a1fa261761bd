"""What jobs keep for themselves on a machine."""

import pytest

from muster.cluster.nodes.disk.states import States


@pytest.fixture
def states(tmp_path):
    return States(tmp_path / "state")


def test_a_job_has_a_directory_that_only_we_can_enter(states):
    for _ in range(2):
        states.make("a-1")
    assert states.of("a-1").stat().st_mode & 0o777 == 0o700
    (states.of("a-1") / "step").write_text("7")
    states.make("a-1")
    assert (states.of("a-1") / "step").read_text() == "7"


def test_it_goes_out_of_the_way_at_once_and_only_once(states):
    states.make("a")
    [gone] = states.forget("a")
    assert gone.is_dir()
    assert not states.of("a").exists()
    assert states.forget("a") == []
    states.make("a")
    (gone / "x").write_text("still being removed")
    assert states.forget("a") == [states.of("a")]


def test_what_jobs_left_that_are_gone_is_found_at_the_next_start(states, tmp_path):
    for job in ("stays", "gone"):
        states.make(job)
    (tmp_path / "state" / ".half").mkdir()
    (tmp_path / "state" / "not ours").mkdir()
    later = States(tmp_path / "state")
    later.make("new")
    found = later.left_over({"stays"})
    assert sorted(path.name for path in found) == [".gone", ".half"]
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == [
        ".gone",
        ".half",
        "new",
        "not ours",
        "stays",
    ]


@pytest.mark.parametrize("job", ["", "..", "a/b", ".a"])
def test_a_uid_cannot_lead_elsewhere(states, job):
    with pytest.raises(OSError, match="cannot have a directory"):
        states.make(job)
