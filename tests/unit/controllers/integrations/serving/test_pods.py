"""How a pod of a StatefulSet or a LeaderWorkerSet comes into its group."""

import msgspec

from muster.api.core import POD, Pod
from muster.api.kueue.names import POD_SUSPENDING_PARENT, QUEUE_NAME_LABEL
from muster.api.managed.surroundings import Settings
from muster.controllers.integrations.external.documents import ExternalJob
from muster.controllers.integrations.serving.kinds import STATEFUL_SET
from muster.controllers.integrations.serving.pods import join_and_read

SET = {"metadata": {"name": "web", "uid": "u", "labels": {QUEUE_NAME_LABEL: "team"}}, "spec": {"replicas": 2}}


def test_a_pod_is_read_as_go_clients_write_it_with_nulls() -> None:
    kind = STATEFUL_SET.kind
    owner = {"apiVersion": kind.api_version, "kind": kind.kind, "name": "web", "uid": "u", "controller": True}
    metadata = {"name": "web-0", "annotations": {POD_SUSPENDING_PARENT: "statefulset"}, "ownerReferences": [owner]}
    container = {"name": "c", "image": "i", "env": None, "resources": None}
    document = {"metadata": metadata | {"labels": None}, "spec": {"containers": [container], "tolerations": None}}

    def find(asked, namespace, name):
        return msgspec.convert(SET, ExternalJob) if asked == kind else None

    joined = join_and_read(document, POD.typed(document), "default", find, Settings())
    assert isinstance(joined, Pod)
    assert joined.metadata.labels[QUEUE_NAME_LABEL] == "team"
