import msgspec
import pytest

from muster.api.kueue import Workload
from muster.controllers.integrations.notes import of_checks, of_update

GATES = "kueue.x-k8s.io/admission-gated-by"


def workload(*true, count=1, priority_class=None, gates="", checks=()):
    condition = {"status": "True", "reason": "r", "message": "m"}
    ref = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": priority_class}
    document = {
        "metadata": {"name": "w", "namespace": "ns", "annotations": {GATES: gates} if gates else {}},
        "spec": {"podSets": [{"count": count, "template": {}}]} | ({"priorityClassRef": ref} if priority_class else {}),
        "status": {
            "conditions": [condition | {"type": type_} for type_ in true],
            "admissionChecks": [
                {"name": name, "state": state, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"}
                for name, state, message in checks
            ],
        },
    }
    return msgspec.convert(document, Workload)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (workload(), workload(), ""),
        (workload(), workload(count=2), "Updated not matching Workload for suspended job: ns/w"),
        (workload("QuotaReserved"), workload(count=2), "Resized Workload: ns/w"),
        (workload(), workload(priority_class="high"), "Updated workload priority class: ns/w"),
        (workload(gates="a.io/a,b.io/b"), workload(gates="a.io/a"), 'Updated workload AdmissionGatedBy to "a.io/a"'),
        (workload(gates="a.io/a"), workload(), 'Updated workload AdmissionGatedBy to ""'),
    ],
)
def test_what_followed_the_job(old, new, said):
    assert of_update(old, new) == said


CHECKS = (("a", "Pending", "building"), ("b", "Ready", "done"), ("c", "Pending", ""), ("d", "Pending", "asking"))


@pytest.mark.parametrize(
    ("true", "said"),
    [(("QuotaReserved",), "a: building; d: asking"), ((), ""), (("QuotaReserved", "Admitted"), "")],
)
def test_what_checks_say_that_a_job_with_quota_waits_for(true, said):
    assert of_checks(workload(*true, checks=CHECKS)) == said
