"""What `muster queue create` makes of its options."""

import json

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from muster.api.kueue import ClusterQueue, LocalQueue
from muster.cli.commands.sharing.queue import command


def dry_run(*options, output="json"):
    return CliRunner().invoke(command, ["create", "team", "--dry-run", "-o", output, *options])


def made(*options):
    done = dry_run(*options)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["items"]


def test_a_flavor_a_quota_and_a_way_to_it():
    flavor, queue, local = made("--cpu", "8", "--memory", "32Gi", "--gpus", "4", "-n", "research")
    assert (flavor["kind"], flavor["metadata"]["name"]) == ("ResourceFlavor", "default-flavor")
    (group,) = msgspec.convert(queue, ClusterQueue).spec.resource_groups
    assert group.covered_resources == ("cpu", "memory", "nvidia.com/gpu")
    assert [quota.nominal_quota for quota in group.flavors[0].resources] == ["8", "32Gi", "4"]
    assert queue["spec"]["preemption"] == {"withinClusterQueue": "LowerPriority"}
    assert queue["spec"]["namespaceSelector"] == {}
    assert queue["spec"]["queueingStrategy"] == "BestEffortFIFO"
    assert (local["metadata"]["namespace"], msgspec.convert(local, LocalQueue).spec.cluster_queue) == (
        "research",
        "team",
    )


def test_a_queue_of_a_cohort():
    options = ("--cohort", "all", "--borrow", "cpu=2", "--lend", "cpu=1", "--strict", "--weight", "2", "--no-local")
    _, queue = made("--cpu", "8", "--quota", "example.com/x=3", "--reclaim", "LowerPriority", *options)
    spec = queue["spec"]
    assert (spec["cohortName"], spec["queueingStrategy"], spec["fairSharing"]) == ("all", "StrictFIFO", {"weight": "2"})
    assert spec["preemption"] == {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "LowerPriority"}
    assert spec["resourceGroups"][0]["flavors"][0]["resources"] == [
        {"name": "cpu", "nominalQuota": "8", "borrowingLimit": "2", "lendingLimit": "1"},
        {"name": "example.com/x", "nominalQuota": "3"},
    ]


def test_yaml_is_a_stream_of_documents():
    documents = list(yaml.safe_load_all(dry_run("--cpu", "8", output="yaml").stdout))
    assert [document["kind"] for document in documents] == ["ResourceFlavor", "ClusterQueue", "LocalQueue"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "a queue needs a quota: --cpus, --memory, --gpus or --quota RESOURCE=QUANTITY"),
        (["--cpu", "lots"], "'--cpu': 'lots' is no quantity"),
        (["--quota", "cpu"], "--quota: 'cpu': expected RESOURCE=QUANTITY"),
        (["--quota", "cpu=x"], "--quota: 'x' is no quantity"),
        (["--gpus", "two"], "'two' is no quantity; write it as a whole number, as 8"),
        (["--quota", "ephemeral-storage=5Q"], "'5Q' is no quantity; write it as 512Mi or 32Gi"),
        (["--memory", "-1Gi"], "'--memory': -1Gi is below 0"),
        (["--cpu", "8", "--borrow", "cpu=2"], "--borrow and --lend mean nothing without --cohort"),
        (["--cpu", "8", "--cohort", "c", "--lend", "memory=2Gi"], "a limit of memory needs a quota of that resource"),
    ],
)
def test_what_cannot_be(options, message):
    done = dry_run(*options)
    assert done.exit_code == 2
    assert message in done.stderr
