"""The schema made from the types against that of upstream's definition: nothing less, and what is more is named."""

from typing import Any

from tests.documents import documents, needs_the_peers
from tests.schemas import flat

from muster.api.jobset import JOB_SET
from muster.api.schema import make_structural_schema

pytestmark = needs_the_peers

CRDS = {crd["metadata"]["name"]: crd["spec"] for _, crd in documents("crds/jobset/*.yaml")}

# Left to others, with their own tests: the API server's own metadata, and the types of pods, Jobs and claims.
OTHERS = (".metadata", ".spec.replicatedJobs[].template", ".spec.volumeClaimPolicies[].templates[]")
# The start of a group, which upstream never had.
BEYOND = (".spec.groupSchedulingConfig", ".status.groupScheduling")
RULES = ".spec.failurePolicy.rules[]"


def test_the_schema_is_the_same() -> None:
    (version,) = CRDS[JOB_SET.resource]["versions"]
    assert version["name"] == JOB_SET.version
    theirs: dict[str, Any] = dict(flat(version["schema"]["openAPIV3Schema"], OTHERS))
    # There, a webhook names rules before that is looked at; here, the schema is looked at first.
    assert theirs[RULES]["required"] == ["action", "name"]
    theirs[RULES]["required"] = ["action"]
    ours = dict(flat(make_structural_schema(JOB_SET), OTHERS))
    assert {path: said for path, said in ours.items() if not path.startswith(BEYOND)} == theirs


def test_the_start_of_a_group_is_as_the_kep_has_it() -> None:
    ours = dict(flat(make_structural_schema(JOB_SET), OTHERS))
    assert ours[".spec.groupSchedulingConfig"] == {"type": "object"}
    timeout = {"type": "integer", "format": "int32", "minimum": 1}
    assert ours[".spec.groupSchedulingConfig.timeoutAfterSeconds"] == timeout
    targets = {"type": "array", "x-kubernetes-list-type": "atomic"}
    assert ours[".spec.groupSchedulingConfig.targetReplicatedJobs"] == targets
