import pytest

from muster.controllers.integrations.external.documents import ExternalJob
from muster.controllers.integrations.external.podsets import replica_specs
from muster.controllers.integrations.framework import UnreadableJobError

ROLE = {"replicas": 2, "template": {"spec": {"containers": [{"name": "c"}]}}}


@pytest.mark.parametrize("specs", [{}, {"Other": ROLE}, {"Worker": ROLE}, {"Worker": ROLE, "Master": ROLE}])
def test_the_first_roles_come_first_and_others_are_no_podsets(specs):
    places = replica_specs("replicaSpecs", "Master", "Worker")(ExternalJob(spec={"replicaSpecs": specs}))
    assert [(place.name, place.count) for place in places] == [
        (role.lower(), 2) for role in ("Master", "Worker") if role in specs
    ]


@pytest.mark.parametrize("specs", ["oops", [ROLE], 3])
def test_roles_that_are_no_map_are_refused_by_their_field(specs):
    with pytest.raises(UnreadableJobError, match=r"^spec\.replicaSpecs: must be a map of roles"):
        list(replica_specs("replicaSpecs", "Worker")(ExternalJob(spec={"replicaSpecs": specs})))
