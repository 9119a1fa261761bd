"""What a Volcano Job has beside its pods."""

from typing import Any

import pytest
from tests.unit.jobs.volcano.test_decide import job, task

from muster.jobs.volcano.children import make_children

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def test_its_group_starts_with_the_minimum_of_the_job_and_of_each_task() -> None:
    it = job(task("ps", 1), task("w", 3, minAvailable=2), minAvailable=3, queue="q", priorityClassName="high")
    spec = make_children(it).pod_group.spec
    assert (spec.min_member, spec.min_task_member) == (3, {"ps": 1, "w": 2})
    assert (spec.queue, spec.priority_class_name) == ("q", "high")


@pytest.mark.parametrize(
    ("arguments", "early"),
    [
        pytest.param(None, None, id="no plugin"),
        pytest.param([], False, id="its pods have names once they are ready"),
        pytest.param(["--publish-not-ready-addresses=true"], True, id="its pods have names at once"),
    ],
)
def test_the_svc_plugin_gives_its_pods_names_and_a_list_of_them(
    arguments: list[str] | None, early: bool | None
) -> None:
    it = job(task("w", 2), plugins={} if arguments is None else {"svc": arguments})
    beside = make_children(it)
    if early is None:
        assert (beside.service, beside.hosts) == (None, None)
        return
    assert beside.service is not None
    assert beside.hosts is not None
    assert beside.service.spec.cluster_ip == "None"
    assert beside.service.spec.publish_not_ready_addresses is early
    selector = {"volcano.sh/job-name": "j", "volcano.sh/job-namespace": "n"}
    assert beside.service.spec.selector == selector
    assert beside.hosts.data["w.host"] == "j-w-0.j\nj-w-1.j"


@pytest.mark.parametrize("plugins", [{}, {"svc": []}])
def test_it_has_a_claim_for_each_volume_that_asks_for_one(plugins: dict[str, Any]) -> None:
    volumes = [
        {"mountPath": "/mine", "volumeClaimName": "mine"},
        {"mountPath": "/new", "volumeClaim": CLAIM},
        {"mountPath": "/named", "volumeClaimName": "named", "volumeClaim": CLAIM},
    ]
    it = job(task(), volumes=volumes, plugins=plugins)
    claims = make_children(it).claims
    assert len(claims) == 2
    assert claims[1].metadata.name == "named"
    assert all(claim.spec.access_modes == ("ReadWriteOnce",) for claim in claims)
    assert {claim.metadata.owner_references[0].uid for claim in claims} == {"u"}
