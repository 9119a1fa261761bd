"""What a process node refuses."""

from typing import Any

import msgspec

from muster.api.core import Pod
from muster.cluster.nodes.pod.admission import Rejection, check


def pod(name: str = "p", cpu: str = "1", **spec: Any) -> Pod:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return msgspec.convert({"metadata": {"name": name}, "spec": {"containers": [container], **spec}}, Pod)


HAS = {"cpu": "2", "pods": "10"}


def test_what_fits_beside_the_others_is_taken():
    assert check(pod(), [pod("other")], HAS) is None
    rejection = check(pod(cpu="2"), [pod("other")], HAS)
    assert rejection is not None
    assert rejection.reason == "OutOfcpu"


def test_pods_that_claim_devices_are_refused():
    claiming = pod(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}])
    message = "Pod was rejected: the node has no driver for resource claims"
    assert check(claiming, [], HAS) == Rejection("UnexpectedAdmissionError", message)
