"""Trials of a sweep that run again."""

import msgspec
import pytest
from tests.unit.runtime.conftest import MemoryServer

from muster.actions.errors import UserError
from muster.actions.jobs.retrying import retry
from muster.actions.submission.caller import find_account_name
from muster.actions.submission.gang import Gang, name_for_retry
from muster.actions.submission.manifests import make_job
from muster.actions.submission.sweep import Sweep, make_retry
from muster.api.batch import JOB
from muster.api.ours.trials import Array
from muster.runtime.client import Client
from muster.runtime.clock import run_virtual
from muster.runtime.ids import Ids


def sweep(array="0-9%4", grid=(), **status):
    """What a server has of it at last."""
    whole = make_job(
        Gang("tune", ["sh", "-c", "$(A)"], queue="q", labels={"team": "x"}, sweep=Sweep.parse(array, grid))
    )
    whole["metadata"] |= {"uid": "u", "resourceVersion": "7"}
    whole["metadata"]["annotations"] |= {
        "batch.kubernetes.io/job-tracking": "",
        "muster.dev/submitted-by": "eve",
        "note": "mine",
    }
    whole["spec"] |= {"selector": {"matchLabels": {"a": "b"}}, "suspend": False, "parallelism": 2}
    whole["spec"]["template"]["metadata"] = {
        "labels": {
            "job-name": "tune",
            "batch.kubernetes.io/controller-uid": "u",
            "kueue.x-k8s.io/podset": "main",
            "team": "x",
        }
    }
    whole["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "gpu"}
    conditions = [{"type": "Failed", "status": "True", "reason": "FailedIndexes"}]
    return whole | {"status": {"conditions": conditions} | status}


def container(manifest):
    [found] = manifest["spec"]["template"]["spec"]["containers"]
    return found


def variables(manifest):
    return {entry["name"]: entry.get("value") for entry in container(manifest)["env"]}


def test_the_new_sweep_is_as_the_old_one_was_asked_for():
    before = {"metadata": {"labels": {"team": "x", "job-name": "tune"}}, "spec": {"containers": []}}
    found = make_retry(sweep(), Array.parse("3,7"), "tune-x", before)
    assert found["metadata"] == {
        "name": "tune-x",
        "namespace": "default",
        "labels": {"kueue.x-k8s.io/queue-name": "q", "team": "x"},
        "annotations": {
            "muster.dev/gang": "false",
            "muster.dev/array": "3,7%4",
            "muster.dev/retry-of": "tune",
            "kueue.x-k8s.io/job-min-parallelism": "1",
            "note": "mine",
        },
    }
    spec = found["spec"]
    assert (spec["completions"], spec["parallelism"], spec["backoffLimitPerIndex"]) == (2, 2, 0)
    assert not {"selector", "suspend"} & spec.keys()
    assert spec["template"]["metadata"]["labels"] == {"team": "x"}
    assert "nodeSelector" not in spec["template"]["spec"]  # its queue had given it


def test_what_its_queue_gave_it_stays_where_nothing_tells_what_was_before():
    template = make_retry(sweep(), Array.parse("3"), "tune-x", None)["spec"]["template"]
    assert template["metadata"]["labels"] == {"team": "x"}
    assert template["spec"]["nodeSelector"] == {"pool": "gpu"}


@pytest.mark.parametrize(
    ("array", "left", "index", "wrapped"),
    [
        ("0-9", "0-3", None, False),  # Kubernetes' own indexes are still right
        ("0-9", "3,7", "3,7", True),
        ("10-19", "13", "13", True),
        ("10-19", "0-3", "0-3", True),
    ],
)
def test_trials_keep_their_indexes(array, left, index, wrapped):
    whole = sweep(array)
    found = make_retry(whole, Array.parse(left), "tune-x", None)
    assert variables(found).get("MUSTER_ARRAY") == index
    assert variables(found)["MUSTER_JOB"] == "tune-x"
    assert ("MUSTER_INDEX" in variables(found)) == (index is None)
    command = container(found)["command"]
    assert command[-3:] == ["sh", "-c", "$$(A)"]
    assert (len(command) > 3) == wrapped
    once_more = make_retry(found | {"status": {}}, Array.parse("3"), "tune-y", None)
    assert len(container(once_more)["command"]) == len(command) or index is None
    assert once_more["metadata"]["annotations"]["muster.dev/retry-of"] == "tune"


def test_the_values_of_a_grid_are_those_of_the_index():
    found = make_retry(sweep("", ["lr=1,2"]), Array.parse("1"), "tune-x", None)
    assert found["metadata"]["annotations"]["muster.dev/grid"] == '{"lr":["1","2"]}'
    assert "pick lr 1 1 2" in container(found)["command"][6]


def test_a_container_that_names_no_command_cannot_be_told():
    whole = sweep()
    del container(whole)["command"]
    with pytest.raises(ValueError, match="its container names no command"):
        make_retry(whole, Array.parse("3"), "tune-x", None)


def retried(document, new="", account=""):
    server = MemoryServer()

    async def main():
        client = Client(server)
        await client.create(JOB.seen_as(dict), document, "default")
        made = await retry(client, document["metadata"]["name"], "default", new, Ids(1), account)
        if made is None:
            return None, None
        job = await client.get(JOB, made.name, "default")
        return made, job

    return run_virtual(main())


def test_whoever_retries_is_the_submitter():
    _, job = retried(sweep("10-19", completedIndexes="0-8", failedIndexes="9"), account="ada")
    assert job.metadata.annotations["muster.dev/submitted-by"] == "ada"
    _, own = retried(sweep("10-19", completedIndexes="0-8", failedIndexes="9"))
    assert own.metadata.annotations.get("muster.dev/submitted-by", "") == find_account_name()


def test_trials_that_were_cancelled_one_by_one_do_not_run_again():
    whole = sweep("10-19", completedIndexes="0-6", failedIndexes="7-9")
    whole["metadata"]["annotations"] |= {
        "muster.dev/cancelled-indexes": "8,9",
        "muster.dev/notified": "end",
        "muster.dev/notify-failure": "it failed",
    }
    made, job = retried(whole)
    assert made is not None
    assert str(made.trials) == "17"
    assert not {name for name in job.metadata.annotations if "cancelled" in name or "notif" in name}
    whole["metadata"]["annotations"]["muster.dev/cancelled-indexes"] = "7-9"
    assert retried(whole) == (None, None)


def test_what_has_not_succeeded_runs_again():
    made, job = retried(sweep("10-19", completedIndexes="0-2,4-8", failedIndexes="3"))
    assert (str(made.trials), made.of) == ("13,19", 10)  # the last had not run when its sweep was ended
    assert job.metadata.annotations["muster.dev/array"] == "13,19"
    assert job.metadata.name.startswith("tune-")


def test_nothing_is_made_where_all_have_succeeded():
    assert retried(sweep("0-9", completedIndexes="0-9")) == (None, None)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"status": {}}, "tune has not ended yet: retry it once it has"),
        (
            {"metadata": {"name": "tune", "namespace": "default"}},
            "tune is no sweep, and only trials of a sweep can be retried",
        ),
    ],
)
def test_what_cannot_run_again(change, complaint):
    with pytest.raises(UserError, match=complaint):
        retried(sweep(failedIndexes="3") | change)


def test_a_name_that_is_taken():
    with pytest.raises(UserError, match="there is a job tune already: choose another name"):
        retried(sweep(failedIndexes="3"), "tune")


def test_names_of_retries_are_no_longer_than_names_may_be():
    assert name_for_retry("tune", "abcde") == "tune-abcde"
    assert len(name_for_retry("x" * 45, "abcde")) == 45
    assert msgspec.json.encode(name_for_retry("x" * 38 + "-", "abcde")) == b'"' + b"x" * 38 + b'-abcde"'
