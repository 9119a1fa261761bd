"""Sweeps, as their users meet them: run, watched, looked at by trial, and what failed run again."""

import json

import pytest

ODD = "echo trial $MUSTER_INDEX; [ $((MUSTER_INDEX % 2)) = 0 ] || exit 3"


def test_trials_are_each_on_their_own(shared_up):
    done = shared_up("run", "--array", "4-7", "--cpus", "0", "--", "sh", "-c", ODD, check=False)
    assert sorted(done.stdout.splitlines()) == [f"[{index}] trial {index}" for index in range(4, 8)]
    assert done.returncode == 3
    assert "failed: 2 of 4 trials failed (5,7): trial 5 ended with exit code 3: trial 5" in done.stderr
    assert "2 of 4 done" in done.stderr


def test_a_grid_has_a_trial_for_each_combination(shared_up):
    show = ["sh", "-c", 'echo "$MUSTER_INDEX $lr $depth $1"', "sh", "{lr}-{depth}"]
    done = shared_up("run", "--grid", "lr=0.1,0.01", "--grid", "depth=2,3", "--cpus", "0", "--", *show)
    assert sorted(done.stdout.splitlines()) == [
        "[0] 0 0.1 2 0.1-2",
        "[1] 1 0.1 3 0.1-3",
        "[2] 2 0.01 2 0.01-2",
        "[3] 3 0.01 3 0.01-3",
    ]


def test_no_more_run_at_a_time_than_was_said(shared_up, tmp_path):
    count = f"mkdir {tmp_path}/$MUSTER_INDEX; ls {tmp_path} | wc -l; sleep 0.2; rmdir {tmp_path}/$MUSTER_INDEX"
    done = shared_up("run", "--array", "0-7%2", "--cpus", "0", "--", "sh", "-c", count)
    found = [int(line.split()[-1]) for line in done.stdout.splitlines()]
    assert len(found) == 8
    assert max(found) <= 2


def test_each_trial_has_its_own_time_and_retries(shared_up):
    slow = "echo attempt $MUSTER_ATTEMPT; [ $MUSTER_INDEX = 0 ] || exec sleep 600"
    options = ["--array", "0-1", "--cpus", "0", "--time", "2s", "--retries", "1"]
    done = shared_up("run", *options, "--", "sh", "-c", slow, check=False)
    assert sorted(done.stdout.splitlines()) == ["[0] attempt 0", "[1] attempt 0", "[1] attempt 1"]
    assert done.returncode != 0
    assert "1 of 2 trials failed (1): trial 1 ran into its time limit of 2s" in done.stderr


def test_only_what_failed_runs_again(up, tmp_path):
    ready = tmp_path / "ready"
    command = ["sh", "-c", f"echo $MUSTER_INDEX $seed; [ $seed = 1 ] || [ -e {ready} ]"]
    up("run", "--name", "tune", "--grid", "seed=1,2,3", "--cpus", "0", "--detach", "--", *command)
    assert up("wait", "tune", check=False).returncode == 1
    assert "1/3" in up("ps", "tune").stdout
    [row] = json.loads(up("ps", "tune", "-o", "json").stdout)
    assert row["trials"] == {"done": 1, "failed": 2, "running": 0, "left": 0, "cancelled": 0}
    assert "2 of 3 trials failed (1-2): trial 1 ended with exit code 1: 1 2" in up("why", "tune").stdout
    trials = json.loads(up("ps", "tune", "--trials", "-o", "json").stdout)
    assert [(row["index"], row["values"], row["state"]) for row in trials] == [
        (0, {"seed": "1"}, "Completed"),
        (1, {"seed": "2"}, "Failed"),
        (2, {"seed": "3"}, "Failed"),
    ]
    assert up("ps", "tune", "--trials", "--state", "Failed", "-o", "name").stdout == "1\n2\n"
    assert up("logs", "tune", "--index", "2").stdout == "2 3\n"
    ready.touch()
    again = up("retry", "tune")
    assert "2 of 3 trials again" in again.stderr
    up("wait", again.stdout.strip())
    assert sorted(up("logs", again.stdout.strip()).stdout.splitlines()) == ["[1] 1 2", "[2] 2 3"]
    assert "there is none to retry" in up("retry", again.stdout.strip()).stderr


def test_single_trials_are_cancelled_and_the_others_go_on(up, tmp_path):
    go = tmp_path / "go"
    command = ["sh", "-c", f"until [ -e {go} ]; do sleep 0.1; done; echo $MUSTER_INDEX"]
    up("run", "--name", "part", "--array", "10-14", "--cpus", "0", "--detach", "--", *command)
    assert up("cancel", "part", "--index", "11,13-14").stdout == "part goes on without trials 11,13-14\n"
    assert "keeps as it is: trial 11 ended already" in up("cancel", "part", "--index", "11").stdout
    assert "3 of 5 trials cancelled (11,13-14)" in up("ps", "part").stdout
    assert "3 of 5 trials cancelled (11,13-14)" in up("why", "part").stdout
    go.touch()
    assert up("wait", "part").returncode == 0
    trials = json.loads(up("ps", "part", "--trials", "-o", "json").stdout)
    assert [row["state"] for row in trials] == ["Completed", "Cancelled", "Completed", "Cancelled", "Cancelled"]
    assert sorted(up("logs", "part").stdout.splitlines()) == ["[10] 10", "[12] 12"]
    assert "part has ended already" in up("cancel", "part", "--index", "12").stdout
    assert "part has no trial 9" in up("cancel", "part", "--index", "9", check=False).stderr


@pytest.fixture(scope="module")
def plain(shared_up):
    """A cluster with a job that is no sweep."""
    shared_up("run", "--name", "plain", "--", "true")
    return shared_up


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["retry", "plain"], "plain is no sweep, and only trials of a sweep can be retried"),
        (["ps", "plain", "--trials"], "plain is no sweep: it has no trials"),
        (["cancel", "plain", "--index", "0"], "Error: plain is no sweep: its workers have ranks"),
        (["cancel", "plain", "tune", "--index", "0"], "--index: name one job, without --delete"),
        (["logs", "plain", "--index", "0"], "plain is no sweep: its workers have ranks"),
        (["ps", "--trials"], "--trials needs the name of one sweep: muster ps JOB --trials"),
        (["ps", "-w", "tune", "--trials"], "--trials cannot watch; follow a sweep with: muster logs -f JOB"),
        (["retry", "plain", "--name", "No_Name"], "'No_Name': at most"),
    ],
)
def test_what_is_no_sweep_is_told_so(plain, arguments, complaint):
    done = plain(*arguments, check=False)
    assert done.returncode in (1, 2)
    assert complaint in done.stderr


def test_a_sweep_goes_on_where_its_server_was_killed(muster):
    server = muster.start("up", "--port", "0")
    assert "ready" in server.stdout.readline()
    counting = 'echo "$MUSTER_INDEX"; sleep 0.3'
    muster("run", "--name", "tune", "--array", "0-9%2", "--cpus", "0", "--detach", "--", "sh", "-c", counting)
    following = muster.start("logs", "-f", "tune")
    following.stdout.readline()
    for process in (server, following):
        process.kill()
        process.communicate()
    muster("up", "--detach", "--port", "0")
    muster("wait", "tune")
    trials = json.loads(muster("ps", "tune", "--trials", "-o", "json").stdout)
    assert [row["state"] for row in trials] == ["Completed"] * 10
