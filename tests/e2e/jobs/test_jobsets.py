"""Jobs of several roles, on real processes: `muster run --role`, and JobSets from manifests."""

import importlib.util
import time

import pytest
import yaml
from tests.e2e.conftest import ROOT

EXAMPLES = "examples/jobsets"


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.2)


def lines(done):
    return sorted(done.stdout.splitlines())


def test_roles_have_commands_of_their_own_and_the_end_of_one_is_the_end(shared_up):
    show = 'echo "$RANK/$WORLD_SIZE $MUSTER_ROLE $MUSTER_ROLE_RANK/$MUSTER_ROLE_SIZE"; '
    peer = "getent hosts ${MASTER_ADDR%-driver*}-worker-0-1.$MUSTER_JOB > /dev/null && echo seen"
    driver = ["--role", "driver", "--until", "driver", "--", "sh", "-c", show + peer]
    worker = ["--role", "worker:2", "--", "sh", "-c", show + "exec sleep 1000"]
    done = shared_up("run", *driver, ":", *worker)
    assert lines(done) == [
        "[driver 0] 0/3 driver 0/1",
        "[driver 0] seen",
        "[worker 1] 1/3 worker 0/2",
        "[worker 2] 2/3 worker 1/2",
    ]


def test_a_worker_that_fails_ends_the_others_and_says_which_it_was(shared_up):
    fail = ["--role", "worker:2", "--", "sh", "-c", 'test "$MUSTER_ROLE_RANK" = 0 || exit 7; exec sleep 1000']
    done = shared_up("run", "--name", "j", "--role", "driver", "--", "sleep", "1000", ":", *fail, check=False)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (7, "j: failed: rank 2 (worker) ended with exit code 7")


def test_one_whose_containers_restart_says_which_worker_failed_and_with_what(shared_up):
    worker = role("w", 1, 2, 'test "$JOB_COMPLETION_INDEX" = 0 || exit 7; exec sleep 1000')
    worker["template"]["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    done = shared_up("apply", "--wait", "-f", "-", input=jobset("again", worker), check=False)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (7, "again: failed: rank 1 ended with exit code 7")
    [row] = yaml.safe_load(shared_up("ps", "again", "-o", "yaml").stdout)
    assert row["reason"] == "rank 1 ended with exit code 7"
    assert shared_up("why", "again").stdout.splitlines()[0] == "again: failed: rank 1 ended with exit code 7"


def test_the_examples(shared_up):
    assert (
        shared_up("apply", "--wait", "-f", f"{EXAMPLES}/driver.yaml", "-f", f"{EXAMPLES}/prepared.yaml").returncode == 0
    )
    waits = [f"[worker {rank}] worker {rank - 1} waits for work" for rank in (1, 2, 3)]
    # The workers end a moment later than the job, and so do their logs.
    until(lambda: lines(shared_up("logs", "driver")) == ["[driver 0] all are there", *waits])
    shards = [
        f"[shard {rank}] shard {job} of 2, part {part} of 2: 100 lines"
        for rank, job, part in ((2, 0, 0), (3, 0, 1), (4, 1, 0), (5, 1, 1))
    ]
    assert lines(shared_up("logs", "prepared")) == [*shards, "[sum 1] sum 5050"]
    failed = shared_up("apply", "--wait", "-f", f"{EXAMPLES}/failures.yaml", check=False)
    assert failed.returncode == 1
    assert failed.stderr.endswith("failures: failed: ended with exit code 1; it had been restarted once\n")
    assert [shared_up("logs", "failures", "--attempt", n).stdout for n in "12"] == ["attempt 0\n", "attempt 1\n"]


def test_the_driver_of_the_example_waits_for_workers_that_begin_late(shared_up):
    example = yaml.safe_load((ROOT / EXAMPLES / "driver.yaml").read_text().replace("driver", "waits"))
    _, worker = example["spec"]["replicatedJobs"]
    [container] = worker["template"]["spec"]["template"]["spec"]["containers"]
    container["command"] = ["sh", "-c", 'sleep 2; exec "$@"', "late", *container["command"]]
    shared_up("apply", "--wait", "-f", "-", input=yaml.safe_dump(example))
    said = [f"[worker {rank}] worker {rank - 1} waits for work" for rank in (1, 2, 3)]
    until(lambda: lines(shared_up("logs", "waits")) == ["[waits 0] all are there", *said])


def role(name, replicas, each, command, **pod):
    container = {"name": "c", "image": "none", "command": ["sh", "-c", command]}
    mounts = {"volumeMounts": [{"name": one["name"], "mountPath": "/v"} for one in pod.get("volumes", ())]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container | mounts], **pod}}
    spec = {"backoffLimit": 0, "parallelism": each, "completions": each, "template": template}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}}


def jobset(name, *roles, **spec):
    document = {"metadata": {"name": name}, "spec": {"replicatedJobs": roles, **spec}}
    return yaml.safe_dump({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"} | document)


def test_a_group_that_is_never_whole_fails_in_time_says_so_and_gives_its_quota_back(up):
    missing = [{"name": "v", "configMap": {"name": "not-there"}}]
    roles = role("there", 1, 2, "echo begun"), role("never", 1, 1, "echo begun", volumes=missing)
    manifest = jobset("late", *roles, groupSchedulingConfig={"timeoutAfterSeconds": 6})
    done = up("apply", "--wait", "-f", "-", input=manifest, check=False)
    said = "late: failed: not all workers had started after 6 s: 2 of 3 had; not yet: rank 2 (never)"
    why = 'cannot start yet: MountVolume.SetUp failed for volume "v" : configmap "not-there" not found'
    assert done.stderr.splitlines()[-1] == f"{said} {why}"
    assert done.returncode == 1
    assert up("logs", "late").stdout == ""
    [row] = yaml.safe_load(up("ps", "-o", "yaml").stdout)
    assert (row["state"], row["reason"]) == ("Failed", "not all workers had started after 6 s: 2 of 3 had")
    until(lambda: " 0/" in up("queue", "list").stdout)


def test_every_command_knows_a_jobset(up):
    command = "trap 'echo bye; exit 0' TERM; echo $JOB_COMPLETION_INDEX; while :; do sleep 0.1; done"
    up("apply", "-f", "-", input=jobset("train", role("driver", 1, 1, command), role("worker", 2, 2, command)))
    begun = ["[driver 0] 0", "[worker 1] 0", "[worker 2] 1", "[worker 3] 0", "[worker 4] 1"]
    until(lambda: lines(up("logs", "train")) == begun)
    [row] = yaml.safe_load(up("ps", "-o", "yaml").stdout)
    assert (row["name"], row["state"], row["ready"], row["wanted"]) == ("train", "Running", 5, 5)
    assert "node-0: ranks 0-4" in up("why", "train").stdout
    assert up("logs", "train", "--rank", "4").stdout == "1\n"
    assert "its ranks are 0 to 4" in up("logs", "train", "--rank", "5", check=False).stderr
    assert "say which with --role: driver, worker" in up("scale", "train", "6", check=False).stderr
    up("scale", "train", "6", "--role", "worker")
    until(lambda: len(lines(up("logs", "train"))) == 7)
    up("hold", "train")
    until(lambda: len(lines(up("logs", "train"))) == 14)
    up("release", "train")
    until(lambda: len(lines(up("logs", "train"))) == 7)
    up("cancel", "train")
    assert up("wait", "train", check=False).returncode == 1
    assert "Cancelled" in up("ps").stdout
    until(lambda: len(lines(up("logs", "train"))) == 14)
    up("cancel", "--delete", "train")
    until(lambda: "no jobs" in up("ps").stderr)


def test_what_ends_with_the_cluster_goes_on_with_it_and_has_not_failed(up):
    job = {"metadata": {"name": "job"}, "spec": role("", 1, 1, "exec sleep 1000")["template"]["spec"]}
    up("apply", "-f", "-", input=yaml.safe_dump({"apiVersion": "batch/v1", "kind": "Job"} | job))
    up("apply", "-f", "-", input=jobset("set", role("a", 2, 2, "exec sleep 1000")))

    def rows():
        return {(row["name"], row["state"], row["ready"]) for row in yaml.safe_load(up("ps", "-o", "yaml").stdout)}

    running = {("job", "Running", 1), ("set", "Running", 4)}
    until(lambda: rows() == running)
    for _ in range(2):
        up("down")
        up("up", "--detach", "--port", "0")
        until(lambda: rows() == running)
    for row in yaml.safe_load(up("ps", "-o", "yaml").stdout):
        assert row["reason"].startswith("interrupted 2 times, last: Pod ")
        assert row["reason"].endswith(" ended with the whole cluster, which was stopped")


def test_a_command_that_stays_with_a_job_hears_that_the_cluster_was_stopped(up):
    running = up.start("run", "--name", "job", "--", "sh", "-c", "echo begun; exec sleep 1000")
    assert running.stdout.readline() == "begun\n"
    up("down")
    _, said = running.communicate(timeout=60)
    again = "the job continues at the next muster up: muster logs -f job"
    assert (running.returncode, said) == (1, f"job: running\nError: the cluster was stopped; {again}\n")


def test_a_name_that_is_taken_is_said_whatever_has_it(shared_up):
    shared_up("run", "--detach", "--name", "a", "--", "true")
    shared_up("run", "--detach", "--name", "b", "--elastic", "1:1", "--", "true")
    for name, options in (("a", []), ("a", ["--elastic", "1:1"]), ("b", []), ("b", ["--elastic", "1:1"])):
        done = shared_up("run", "--detach", "--name", name, *options, "--", "true", check=False)
        assert (done.returncode, f"there is a job {name} already" in done.stderr) == (1, True)


@pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="distributed is not installed")
def test_dask_as_two_roles(muster):
    done = muster(
        "run", "--role", "head", "--role", "worker:2", "--until", "head", "--", "python", "examples/dask_pi.py"
    )
    assert "[head 0] 2 of 2 workers did 64 chunks" in done.stdout
