"""What a status says: cases of each kind, and statuses that say nothing."""

import pytest

from muster.controllers.integrations.external import statusreaders
from muster.controllers.integrations.external.appwrapper import APP_WRAPPER
from muster.controllers.integrations.external.documents import ExternalJob
from muster.controllers.integrations.external.kinds import SHAPES
from muster.controllers.integrations.external.trainjob import TRAIN_JOB
from muster.queueing.jobframework.observedjob import End

ALL = (*SHAPES, APP_WRAPPER, TRAIN_JOB)


def job(**status):
    return ExternalJob(status=status)


def conditions(**statuses):
    return {"conditions": [{"type": type, "status": status, "message": "m"} for type, status in statuses.items()]}


@pytest.mark.parametrize("shape", ALL, ids=lambda one: one.kind.kind)
@pytest.mark.parametrize("status", [{}, {"conditions": 3, "replicaStatuses": [], "state": 1, "jobsStatus": {"a": 1}}])
def test_a_job_of_which_nothing_is_said_has_not_begun(shape, status):
    found = job(**status)
    assert (shape.end(found), shape.is_active(found), shape.is_ready(found)) == (None, False, False)


@pytest.mark.parametrize(
    ("status", "active"),
    [
        ({"replicaStatuses": {"Worker": {"active": 1}}}, True),
        ({"replicaStatuses": {"Worker": {"active": 0, "succeeded": 2}}}, False),
        ({"replicaStatuses": {"Worker": {}}, **conditions(Running="True")}, True),  # its operator has yet to see it
        (conditions(Running="True", Suspended="True"), False),
        (conditions(Running="False"), False),
    ],
)
def test_a_kubeflow_job_has_pods_until_its_operator_has_suspended_it(status, active):
    assert statusreaders.has_active_replicas(job(**status)) == active


@pytest.mark.parametrize(
    ("status", "active"),
    [
        ({"state": "ready"}, True),
        ({"state": "", "availableWorkerReplicas": 1}, True),
        ({"state": "suspended", "availableWorkerReplicas": 1}, False),
        ({"state": "failed"}, False),
    ],
)
def test_a_ray_cluster_has_pods_while_it_counts_workers(status, active):
    assert statusreaders.ray_cluster_is_active(job(**status)) == active


@pytest.mark.parametrize(
    ("status", "end"),
    [
        ({"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED", "message": "ok"}, End(True, "ok")),
        ({"jobDeploymentStatus": "Failed", "jobStatus": "RUNNING", "message": "late"}, End(False, "late")),
        ({"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"}, End(False, "")),
        ({"jobDeploymentStatus": "Running", "jobStatus": "SUCCEEDED"}, None),
    ],
)
def test_a_ray_job_is_over_once_its_deployment_is(status, end):
    assert statusreaders.ray_job_end(job(**status)) == end


@pytest.mark.parametrize("type", ["Succeeded", "Failed"])
def test_a_condition_ends_a_job(type):
    end = statusreaders.end_by_condition("Succeeded")
    assert end(job(**conditions(Running="True", **{type: "True"}))) == End(type == "Succeeded", "m")
    assert end(job(**conditions(**{type: "False"}))) is None
