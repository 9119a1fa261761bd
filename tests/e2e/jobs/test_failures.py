"""A job that failed says why: in `run`, in `ps`, in `why`."""

import re

import yaml

SCRIPT = 'if [ "$RANK" = 1 ]; then echo "ValueError: boom" >&2; exit 3; fi; sleep 1000'
WHY = "rank 1 ended with exit code 3: ValueError: boom"


def manifest(name, command, namespace="default", **spec):
    container = {"name": "c", "image": "none", "command": ["sh", "-c", command]}
    container["terminationMessagePolicy"] = "FallbackToLogsOnError"
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template} | spec}


def reason(muster, name, wanted, *options):
    """What `ps` says of a job, once it says that."""
    while True:
        [row] = [row for row in yaml.safe_load(muster("ps", "-o", "yaml", *options).stdout) if row["name"] == name]
        if re.search(wanted, row["reason"]):
            return row["reason"]


def test_a_gang_that_lost_a_worker(shared_up):
    done = shared_up("run", "--name", "gang", "--workers", "3", "--", "sh", "-c", SCRIPT, check=False)
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1] == f"gang: failed: {WHY}"
    assert reason(shared_up, "gang", "failed|ended") == WHY
    first, _, told = shared_up("why", "gang").stdout.splitlines()
    assert first == f"gang: failed: {WHY}"
    assert "; BackoffLimitExceeded: Job has reached the specified backoff limit; rank 1: " in told
    assert told.startswith("as the cluster says it: FailedJobs: jobset failed due to one or more job failures ")


def test_one_that_is_tried_again_and_one_that_takes_no_quota(shared_up):
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "noq"}}
    retry = manifest("retry", "echo no luck; exit 4", backoffLimit=5)
    free = manifest("free", "sleep 1000", "noq")
    shared_up("apply", "-f", "-", input="\n---\n".join(yaml.safe_dump(one) for one in (namespace, retry, free)))
    said = reason(shared_up, "retry", "1 pod failed")
    assert re.search(r"1 pod failed, 5 may: pod retry-\w+ ended with exit code 4: no luck$", said)
    assert "   failed     pod retry-" in shared_up("why", "retry").stdout
    assert reason(shared_up, "free", "quota", "-A") == "in no queue: it takes no quota"


def test_run_says_which_cluster_it_uses_when_it_is_another(up, tmp_path):
    other = tmp_path / "other.yaml"
    other.write_text((up.home / "kubeconfig").read_text())
    named = up("run", "--kubeconfig", str(other), "--", "true").stderr
    assert re.match(rf"cluster: https://127\.0\.0\.1:\d+ \(context \S+ of {re.escape(str(other))}\)\n", named)
    up.environment = {"KUBECONFIG": str(up.home / "kubeconfig")}
    assert "cluster:" not in up("run", "--", "true").stderr
