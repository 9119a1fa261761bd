"""`muster plan`: the command, its forms, and what it says of files that are no good."""

import json

import pytest

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}}}
spec:
  parallelism: {workers}
  completions: {workers}
  template:
    spec:
      restartPolicy: Never
      containers: [{{name: main, image: any, command: [sleep, "60"], resources: {{requests: {{cpu: 10m}}}}}}]
"""


@pytest.fixture
def file(tmp_path):
    def write(text, name="jobs.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


def test_what_is_planned_is_not_made_and_comes_true(up, file):
    path = file(JOB.format(name="train", workers=2))
    told = up("plan", "-f", path).stdout.splitlines()
    assert told[0] == "train (job.batch): would start now"
    assert told[1].startswith("   quota      from ClusterQueue muster-default through queue default: main x2: cpu (")
    assert told[2].startswith("   placement  2 pods: ")
    assert json.loads(up("ps", "-o", "json").stdout) == []
    [item] = json.loads(up("plan", "-f", path, "-o", "json").stdout)["items"]
    assert (item["verdict"], item["quota"]["counts"], sum(item["placement"]["nodes"].values())) == (
        "starts",
        {"main": 2},
        2,
    )
    assert "verdict: starts" in up("plan", "-f", path, "-o", "yaml").stdout
    up("apply", "-f", path)
    again = up("plan", "-f", path)
    assert (again.stdout, "job/train is there already: it is not planned" in again.stderr) == ("", True)


def test_a_jobset_that_is_there_already_is_not_planned(up, file):
    words = ("--name", "roles", "--workers", "2", "--", "sleep", "60")
    path = file(up("run", "--dry-run", *words).stdout)
    assert up("plan", "-f", path).stdout.startswith("roles (jobset.jobset.x-k8s.io): would start now\n")
    up("run", "--detach", *words)
    again = up("plan", "-f", path)
    assert (again.stdout, "jobset/roles is there already: it is not planned" in again.stderr) == ("", True)


def test_what_never_starts_says_why(shared_up, file):
    told = shared_up("plan", "-f", file(JOB.format(name="huge", workers=100000))).stdout
    assert told.startswith("huge (job.batch): would never start\n   its 100000 pods ")
    assert "never fit at once" in told


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: [", "Error: {file}: "),
        ("apiVersion: v9\nkind: Thing\nmetadata: {name: x}", 'the server knows no kind "Thing" in version "v9"'),
        (JOB.format(name="x", workers=1) + "  bogus: 1", 'unknown field "spec.bogus"'),
        (JOB.format(name="X_", workers=1), "metadata.name: Invalid value"),
    ],
)
def test_a_file_that_is_no_good_is_named_and_the_others_are_planned(shared_up, file, text, said):
    good, bad = file(JOB.format(name="good", workers=1)), file(text, "bad.yaml")
    told = shared_up("plan", "-f", bad, "-f", good, check=False)
    assert (told.returncode, "good (job.batch): would start now" in told.stdout) == (1, True)
    assert said.format(file=bad) in told.stderr
    assert "Traceback" not in told.stderr


def test_without_a_cluster_it_says_so(muster, file):
    told = muster("plan", "-f", file(JOB.format(name="train", workers=1)), check=False)
    assert (told.returncode, told.stdout) == (1, "")
    assert "muster up" in told.stderr


def test_roles_that_are_alike_are_told_together(shared_up, file):
    container = {"name": "c", "image": "any", "command": ["true"], "resources": {"requests": {"cpu": "10m"}}}
    pods = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    template = {"spec": {"parallelism": 1, "completions": 1, "template": pods}}
    roles = [{"name": f"r{number}", "replicas": 1 + (number == 6), "template": template} for number in range(7)]
    made = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "j"}}
    told = shared_up("plan", "-f", file(json.dumps(made | {"spec": {"replicatedJobs": roles}}))).stdout.splitlines()
    assert told[1].startswith(
        "   quota      from ClusterQueue muster-default through queue default: r0, r1, r2, r3, r4 and 1 more x1:"
    )
    assert told[2].startswith("              r6 x2: cpu (")
