"""Several names and documents, and what is said wrongly: what can be done is done, what cannot is named."""

import json

import pytest

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}}}
spec:
  completions: 4
  parallelism: 4
  completionMode: Indexed
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{{name: c, image: none, command: [sh, -c, '{script}']}}]
"""


def errors(done):
    return [line for line in done.stderr.splitlines() if line.startswith("Error: ")]


@pytest.mark.timeout(180)
def test_the_first_failure_does_not_stop_the_rest(up, tmp_path):
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "a.yaml").write_text("just text\n---" + JOB.format(name="a", script="exit 3"))
    (folder / "b.yaml").write_bytes(b"\x7fELF\xff")
    (folder / "c.yaml").write_text("")
    (folder / "d.yaml").write_text(JOB.format(name="D_D", script="true") + "---" + JOB.format(name="d", script="true"))
    (folder / "e.yaml").symlink_to("nowhere")
    (folder / "readme.txt").write_text("nothing to do with it")
    done = up("apply", "-f", str(folder), "--wait", check=False)
    assert done.returncode == 3
    assert done.stdout == "job.batch/a created\njob.batch/d created\n"
    found = errors(done)
    assert found[0] == f"Error: {folder}/a.yaml, document 1: expected an object with apiVersion and kind"
    assert found[1] == f"Error: {folder}/b.yaml: is not text in UTF-8"
    assert found[2] == f"Error: {folder}/c.yaml: holds no object"
    assert found[3] == f"Error: {folder}/e.yaml: No such file or directory"
    assert found[4].startswith(f"Error: {folder}/d.yaml, document 1: Job D_D: ")
    assert len(found) == 5

    done = up("wait", "nobody", "d", "a", "d", check=False)
    assert done.returncode == 3
    assert done.stderr.count("d: completed") == 1
    assert errors(done) == ["Error: nobody: there is no job nobody in namespace default"]
    assert up("wait", "nobody", "d", check=False).returncode == 1
    for words in (["logs"], ["logs", "-f"], ["cancel"], ["why"]):
        assert "no job dd in namespace default; did you mean d?" in up(*words, "dd", check=False).stderr, words

    done = up("logs", "d", "--rank", "7", check=False)
    assert done.returncode == 2
    assert "d has no worker 7: its ranks are 0 to 3" in done.stderr

    for command, other in (("hold", "queue/none"), ("release", "queue/none"), ("cancel", "none")):
        done = up(command, "nobody", "a", other, "d", check=False)
        assert done.returncode == 1, command
        assert [line.split()[0] for line in done.stdout.splitlines()] == ["a", "d"], command
        assert [line.split()[1] for line in errors(done)] == ["nobody:", f"{other}:"], command


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ("", "Error: stdin: holds no object\n"),
        ("# nothing\n---\n", "Error: stdin: holds no object\n"),
    ],
)
def test_nothing_to_apply_is_said(shared_up, manifest, message, tmp_path):
    done = shared_up("apply", "-f", "-", check=False, input=manifest)
    assert (done.returncode, done.stderr) == (1, message)
    done = shared_up("apply", "-f", str(tmp_path), check=False)
    assert done.returncode == 2
    assert "no *.yaml, *.yml, *.json in it" in done.stderr


KEPT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec: {containers: [{name: c, image: none}]}
"""


def test_what_the_server_warns_of_is_said_beside_what_it_did(shared_up):
    done = shared_up("apply", "-f", "-", input=KEPT)
    warning = "Warning: this cluster keeps deployments but makes no pods for them\n"
    assert (done.stdout, done.stderr) == ("deployment.apps/d created\n", warning)


def test_an_address_is_no_manifest_and_it_is_said_how_it_becomes_one(shared_up):
    done = shared_up("apply", "-f", "https://example.com/a b.yaml", check=False)
    said = "muster reads only files and stdin: curl -fsSL 'https://example.com/a b.yaml' prints it for -f -"
    assert (done.returncode, errors(done)) == (1, [f"Error: https://example.com/a b.yaml: {said}"])


def test_of_a_name_that_is_taken_nothing_is_made(shared_up):
    shared_up("run", "--name", "taken", "--", "true")
    done = shared_up("run", "--name", "taken", "--", "true", check=False)
    assert done.returncode == 1
    [said] = errors(done)
    assert said.startswith("Error: there is a job taken already: give another name, or remove it")
    assert said.endswith("muster cancel --delete taken")
    # The namespace has this Service from its beginning.
    done = shared_up("run", "--name", "kubernetes", "--", "true", check=False)
    assert done.returncode == 1
    assert errors(done) == [
        "Error: there is a Service kubernetes already, which workers would be named by: give another name"
    ]
    assert "kubernetes" not in shared_up("ps").stdout


def test_a_detached_job_that_can_never_start_is_told_so(shared_up):
    done = shared_up("run", "--detach", "--name", "big", "--memory", "9999Gi", "--", "true")
    assert done.stdout == "big\n"
    assert "big can never start: no node ever has 9999Gi memory" in done.stderr
    assert "never" not in shared_up("run", "--detach", "--name", "small", "--memory", "1Mi", "--", "true").stderr


def test_what_was_applied_is_of_the_user_who_applied_it(up):
    up("run", "--detach", "--name", "run", "--", "true")
    up("apply", "-f", "-", input=JOB.format(name="applied", script="true"))
    [owner] = {job["owner"] for job in json.loads(up("ps", "-o", "json").stdout)}
    assert set(up("ps", "--user", owner, "-o", "name").stdout.split()) == {"run", "applied"}
    assert "unchanged" in up("apply", "-f", "-", input=JOB.format(name="applied", script="true")).stdout


def test_ps_shows_what_is_named_and_says_what_there_is_not(up):
    for name in ("train", "tune"):
        up("run", "--detach", "--name", name, "--", "sleep", "100")
    assert up("ps", "tune", "-o", "name").stdout == "tune\n"
    done = up("ps", "train", "tun", "-o", "name", check=False)
    assert (done.returncode, done.stdout) == (1, "train\n")
    assert errors(done) == ["Error: there is no job tun in namespace default; did you mean tune?"]
    done = up("ps", "--state", "cancelled")
    assert (done.stdout, done.stderr) == ("", "no jobs\n")
    up("cancel", "tune")
    up("wait", "tune", check=False)
    assert up("ps", "--state", "CANCELLED", "-o", "name").stdout == "tune\n"
    assert up("ps", "-q", "default", "-o", "name").stdout == "train\ntune\n"
    done = up("ps", "--queue", "defualt", check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert errors(done) == ["Error: there is no queue defualt in namespace default; did you mean default?"]
    up("queue", "create", "idle", "--cpu", "1")
    assert up("ps", "--queue", "idle").stderr == "no jobs\n"
    done = up("ps", "-A", "nothing-like-it", check=False)
    assert (done.returncode, errors(done)) == (1, ["Error: there is no job nothing-like-it"])
