"""The engine beside kube-apiserver and kube-controller-manager, which know nothing of it."""

import signal
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable

import pytest
from tests.cluster.conftest import Cluster, Replica, renewed_lease, until
from tests.documents import needs_the_peers
from tests.kubeplane import needs_kubernetes

pytestmark = [needs_kubernetes, needs_the_peers, pytest.mark.kubectl, pytest.mark.timeout(600)]

Start = Callable[..., Replica]


def asked(url: str, token: str = "") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    context = ssl._create_unverified_context()  # it is of the process alone
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), context=context) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def test_it_waits_for_what_is_not_installed_and_says_so(bare: Cluster, start: Start) -> None:
    replica = start()
    lacks = "waiting for admissionchecks.kueue.x-k8s.io"
    until(lambda: asked(f"http://127.0.0.1:{replica.health}/readyz")[1].startswith(lacks))
    assert asked(f"http://127.0.0.1:{replica.health}/readyz")[0] == 200, "its webhooks are served"
    assert asked(f"http://127.0.0.1:{replica.health}/healthz") == (200, "ok")
    replica.process.send_signal(signal.SIGTERM)
    assert replica.process.wait(60) == 0
    assert bare.holder() == "", "the Lease is given back"


def test_jobs_wait_for_quota_and_their_pods_are_the_clusters_own(cluster: Cluster, start: Start) -> None:
    replica = start()
    until(lambda: asked(f"http://127.0.0.1:{replica.health}/readyz") == (200, "ok"))
    cluster.job("a")
    cluster.job("b")
    until(lambda: cluster.pods("a") == 2)
    assert cluster.is_suspended("b")
    cluster.kubectl("delete", "job", "a")
    until(lambda: cluster.pods("b") == 2)
    cluster.kubectl("delete", "job", "b")


def test_where_the_leader_is_killed_the_next_goes_on(cluster: Cluster, start: Start) -> None:
    leader = start()
    until(lambda: leader.said(" leads "))
    held = cluster.holder()
    other = start()
    until(lambda: asked(f"http://127.0.0.1:{other.health}/readyz") == (200, "ok"))
    assert cluster.holder() == held
    leader.process.kill()
    cluster.job("c")
    until(lambda: cluster.pods("c") == 2)
    assert cluster.holder() not in ("", held)
    cluster.kubectl("delete", "job", "c")


def test_metrics_are_for_those_who_may_get_them(cluster: Cluster, start: Start) -> None:
    replica = start()
    url = f"https://127.0.0.1:{replica.metrics}/metrics"
    until(lambda: asked(url)[0] == 401)
    status, text = asked(url, cluster.plane.token)
    assert status == 200
    assert "process_cpu_seconds_total" in text
    small = cluster.kubectl("create", "token", "default").strip()
    assert asked(url, small)[0] == 403
    assert asked(url, "made-up")[0] == 401


def test_it_does_not_work_beside_kueue(cluster: Cluster, start: Start) -> None:
    name = "c1f6bfd2.kueue.x-k8s.io"
    with renewed_lease(cluster, "kueue-system", name, "kueue-controller-manager-1_x"):
        replica = start()
        assert replica.process.wait(60) == 1
    assert replica.said(f"Error: kueue-controller-manager-1_x holds the Lease kueue-system/{name}")
