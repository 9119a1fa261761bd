"""Beside which worker of a job a command runs, and what asks for it."""

from typing import Any

import msgspec
import pytest

from muster.api.batch import Job
from muster.api.core import Pod
from muster.cli.actions.running.entering import choose_pod, make_exec_request
from muster.insight.record import record_of

RUNS: dict[str, Any] = {"running": {}}
ENDED = {"terminated": {"exitCode": 0}}


def job():
    spec = {"parallelism": 12, "completions": 12, "completionMode": "Indexed"}
    return record_of(msgspec.convert({"metadata": {"name": "j", "uid": "u"}, "spec": spec}, Job, strict=False))


def pod(rank, state, owner="u"):
    annotations = {"batch.kubernetes.io/job-completion-index": str(rank)}
    owners = [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": owner, "controller": True}]
    document = {
        "metadata": {"name": f"j-{rank}-x", "namespace": "n", "annotations": annotations, "ownerReferences": owners},
        "spec": {"containers": [{"name": "main"}, {"name": "side"}]},
        "status": {"containerStatuses": [{"name": "main", "state": state}]},
    }
    return msgspec.convert(document, Pod, strict=False)


PODS = [pod(10, RUNS), pod(2, RUNS), pod(1, ENDED), pod(0, RUNS, owner="earlier")]


@pytest.mark.parametrize(("rank", "name"), [("", "j-2-x"), ("2", "j-2-x"), ("10", "j-10-x")])
def test_it_is_the_one_that_is_named_or_the_first_that_runs(rank, name):
    assert choose_pod(job(), PODS, rank).metadata.name == name


@pytest.mark.parametrize(
    ("pods", "rank", "words"),
    [
        (PODS, "1", "worker 1 of j does not run; there run: 2, 10"),
        (PODS[2:], "", "no worker of j runs; see: muster why j"),
        ([], "0", "no worker of j runs"),
    ],
)
def test_what_does_not_run_is_said(pods, rank, words):
    with pytest.raises(LookupError, match=words):
        choose_pod(job(), pods, rank)


@pytest.mark.parametrize(
    ("tty", "stdin", "streams"),
    [
        (False, False, {"stdout": "true", "stderr": "true"}),
        (False, True, {"stdin": "true", "stdout": "true", "stderr": "true"}),
        (True, True, {"stdin": "true", "stdout": "true", "tty": "true"}),
    ],
)
def test_a_terminal_has_one_stream_for_what_is_printed(tty, stdin, streams):
    asked = make_exec_request(pod(2, RUNS), "", ["a", "b"], stdin=stdin, tty=tty)
    assert asked.path == "/api/v1/namespaces/n/pods/j-2-x/exec"
    assert asked.query == streams | {"container": "main"}
    assert asked.lists == {"command": ("a", "b")}
    assert make_exec_request(pod(2, RUNS), "side", ["a"], stdin=stdin, tty=tty).query["container"] == "side"
