"""Two teams share a machine, on real processes: borrow, reclaim with preemption, requeue, and an explanation."""

import json
import time
from pathlib import Path

import pytest

PATIENCE = 30.0


@pytest.fixture
def teams(up):
    """Two queues of one CPU each in a cohort, with a command for a job that lasts until a file appears."""
    for team in ("red", "blue"):
        up("queue", "create", team, "--cpu", "1", "--cohort", "all")
    return up


def jobs(muster):
    return {row["name"]: row for row in json.loads(muster("ps", "-o", "json").stdout)}


def holds(look, seconds=PATIENCE):
    """Wait for something to be so; what is so."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, "it never was"
        time.sleep(0.1)
    return found


def until(muster, name, word, reason=""):
    """Wait for a job to be in that state, for a reason that begins so; its row."""

    def look():
        row = jobs(muster)[name]
        return row if row["state"] == word and row["reason"].startswith(reason) else None

    return holds(look)


def taken(muster):
    """What of the CPUs of each ClusterQueue is used, and what of that is borrowed."""
    listed = json.loads(muster("queue", "list", "-o", "json").stdout)["clusterQueues"]
    return {row["name"]: (row["quotas"][0]["used"], row["quotas"][0]["borrowed"]) for row in listed}


def submit(muster, name, workers, queue, file, *options):
    """A job whose workers say that they have started, and end once the file is there."""
    script = f"echo started >> {file}.log; while [ ! -e {file} ]; do sleep 0.1; done"
    arguments = ["--queue", queue, "--cpus", "1", "--workers", str(workers), *options]
    muster("run", "--detach", "--name", name, *arguments, "--", "sh", "-c", script)


def starts(file: Path) -> int:
    """How many workers have ever started."""
    log = file.with_name(f"{file.name}.log")
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_two_teams_borrow_and_take_back(teams, tmp_path):
    red, blue = tmp_path / "red", tmp_path / "blue"
    submit(teams, "borrower", 2, "red", red)
    assert until(teams, "borrower", "Running")["clusterQueue"] == "red"
    holds(lambda: taken(teams) == {"muster-default": ("0", "0"), "red": ("2", "1"), "blue": ("0", "0")})

    # The owner comes: the borrower gives all of it back, and waits.
    submit(teams, "owner", 1, "blue", blue)
    until(teams, "owner", "Running")
    row = until(teams, "borrower", "Queued", "insufficient unused quota")
    assert (row["queue"], row["position"], row["ready"]) == ("red", 1, 0)

    why = json.loads(teams("why", "borrower", "-o", "json").stdout)
    level = why["levels"][0]
    assert (level["name"], level["state"]) == ("quota", "here")
    assert why["reason"] == "insufficient unused quota for cpu in flavor muster-nodes, 1 more needed"
    assert [(need["asked"], need["available"], need["missing"]) for need in why["needs"]] == [("2", "1", "1")]
    assert [holder["name"] for holder in why["holders"]] == ["owner"]
    assert any("lost its quota (Preempted)" in detail for detail in level["details"])
    assert (why["starts"]["certainty"], why["starts"]["because"]) == ("cannot say", "nothing says when owner ends")
    assert "position 1 of 1" in teams("why", "borrower").stdout

    # It says where it stands to whoever waits for it, starts again once the owner has ended, and ends well.
    with teams.start("wait", "borrower") as waiting:
        said = waiting.stderr.readline()
        assert said.startswith("borrower: waiting in queue red, position 1: insufficient unused quota")
        blue.touch()
        until(teams, "owner", "Completed")
        until(teams, "borrower", "Running")
        red.touch()
        assert waiting.wait(PATIENCE) == 0
    assert starts(red) == 4
    until(teams, "borrower", "Completed")
    assert teams("why", "borrower").stdout == "borrower: completed\n"


def test_run_times_tell_when_the_next_one_starts(teams, tmp_path):
    for number in range(3):
        teams("run", "--queue", "red", "--cpus", "1", "--name", f"old{number}", "--", "sleep", "1")
    file = tmp_path / "red"
    submit(teams, "first", 2, "red", file)
    until(teams, "first", "Running")
    submit(teams, "second", 2, "red", file)
    until(teams, "second", "Queued", "insufficient unused quota")
    starts = json.loads(teams("why", "second", "-o", "json").stdout)["starts"]
    assert starts["at"] is not None
    assert starts["because"].startswith("first ends then, ")
    file.touch()
    until(teams, "second", "Completed")


def test_queues_and_jobs_are_held(teams, tmp_path):
    file = tmp_path / "red"
    teams("queue", "stop", "red")
    submit(teams, "j", 1, "red", file)
    assert until(teams, "j", "Queued", "LocalQueue red is inactive")["queue"] == "red"
    assert "Stopped" in teams("queue", "list").stdout
    assert starts(file) == 0
    teams("queue", "resume", "red")
    until(teams, "j", "Running")
    teams("hold", "j")
    assert until(teams, "j", "Held")["nodes"] == []
    teams("release", "j")
    until(teams, "j", "Running")
    assert teams("top").stdout.count("red") >= 2, "among the quotas, and as what the job uses"
    file.touch()
    until(teams, "j", "Completed")


BAD = [
    (["run", "--queue", "green", "--", "true"], 1, "no queue green in namespace default; there is: blue, default, red"),
    (["queue", "stop", "green"], 1, "no queue green in namespace default; there is: "),
    (["queue", "create", "green"], 2, "a queue needs a quota"),
    (
        ["queue", "create", "red", "--cpu", "1"],
        1,
        "there is a ClusterQueue red already: change it (muster queue edit red)",
    ),
    (["why", "nobody"], 1, "there is no job nobody in namespace default"),
    (["hold", "nobody"], 1, "there is no job nobody in namespace default"),
]


def test_bad_input_gets_one_clear_line(teams):
    for arguments, code, message in BAD:
        done = teams(*arguments, check=False)
        assert (done.returncode, done.stdout) == (code, "")
        assert message in done.stderr
        assert "Traceback" not in done.stderr


CIRCLE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: Cohort
metadata: {name: upper}
spec: {parentName: lower}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Cohort
metadata: {name: lower}
spec: {parentName: upper}
"""
WAITING = """
apiVersion: batch/v1
kind: Job
metadata: {name: planned, labels: {kueue.x-k8s.io/queue-name: ring}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: none, resources: {requests: {cpu: 1}}}]}}}
"""


def test_that_a_queue_admits_nothing_is_said_by_all_that_shows_it(up):
    up("apply", "-f", "-", input=CIRCLE)
    up("queue", "create", "ring", "--cpu", "1", "--cohort", "lower")
    up("run", "--detach", "--name", "train", "--queue", "ring", "--cpus", "1", "--", "true")
    why = "its cohorts name each other in a circle"
    until(up, "train", "Queued", f"ClusterQueue ring is inactive: {why}")
    for command in (("why", "train"), ("ps",), ("status",), ("plan", "-f", "-")):
        assert why in up(*command, input=WAITING).stdout, command
    assert why in up("wait", "train", "--timeout", "2s", check=False).stderr
    assert ["ring", "lower", "Inactive"] in [line.split()[:3] for line in up("top").stdout.splitlines()]


NO_QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: empty}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: bare}
spec: {podSets: [{name: main, count: 1, template: {spec: {containers: [{name: c, image: none}]}}}]}
"""


def test_what_has_no_queue_is_told_so(up):
    up("apply", "-f", "-", input=NO_QUEUE)
    up("run", "--detach", "--name", "lost", "--queue", "empty", "--", "true")
    assert "cannot say: it names no queue" in up("why", "bare").stdout
    assert "cannot say: LocalQueue empty names no ClusterQueue" in up("why", "lost").stdout


def test_a_deleted_queue_that_no_job_uses_is_gone_at_once(up):
    up("queue", "create", "blue", "--cpu", "1")
    up("queue", "delete", "blue", "--yes")
    assert "blue" not in up("queue", "list").stdout


def test_a_queue_that_is_changed_lets_more_start_and_one_that_is_deleted_lets_nothing(up, tmp_path):
    file = tmp_path / "go"
    up("queue", "create", "blue", "--cpu", "1", "--cohort", "all")
    submit(up, "first", 1, "blue", file)
    until(up, "first", "Running")
    submit(up, "second", 1, "blue", file)
    until(up, "second", "Queued")
    assert up("queue", "edit", "blue", "--cpu", "2").stdout == "clusterqueue/blue changed\n"
    until(up, "second", "Running")
    assert up("queue", "edit", "blue", "--cpu", "2").stdout == "clusterqueue/blue is unchanged\n"
    assert "borrowingLimit: '4'" in up("queue", "edit", "blue", "--borrow", "cpu=4", "--dry-run").stdout
    assert "borrowingLimit" not in up("queue", "edit", "blue", "--weight", "2", "--dry-run").stdout
    for arguments, words in (
        (("edit", "blue"), "name a change"),
        (("edit", "nonesuch", "--cpu", "1"), "there is no ClusterQueue nonesuch"),
        (("edit", "blue", "--borrow", "gpu=1"), "blue: a limit of gpu needs a quota of that resource"),
        (("delete", "nonesuch"), "no queue nonesuch in namespace default; there is: blue, default"),
    ):
        refused = up("queue", *arguments, check=False)
        assert refused.returncode in (1, 2)
        assert words in refused.stderr
    submit(up, "third", 1, "blue", file)
    until(up, "third", "Queued")
    refused = up("queue", "delete", "blue", check=False)
    assert (refused.returncode, refused.stdout) == (2, "")
    for words in (
        "localqueue/blue of namespace default will be deleted",
        "job second continues",
        "job third does not start any more",
    ):
        assert words in refused.stderr
    done = up("queue", "delete", "blue", "--yes")
    assert done.stdout == (
        "localqueue/blue (namespace default) deleted\nclusterqueue/blue deleted when its running jobs have ended\n"
    )
    until(up, "second", "Running")
    up("cancel", "third")
    file.touch()
    up("wait", "first", "second")
    holds(lambda: "blue" not in taken(up))
