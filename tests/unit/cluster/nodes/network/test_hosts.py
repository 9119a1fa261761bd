import pytest

from muster.api.core import SERVICE
from muster.cluster.nodes.network.addresses import Addresses
from muster.cluster.nodes.network.hosts import Circle, Peer, make_hostname, render, shared_part


def job_pod(make_pod, index, job="train", uid=None, namespace="ns", **spec):
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"uid-{job}", "controller": True}
    name = f"{job}-{index}"
    return make_pod(
        {"hostname": name, **spec},
        name=f"{name}-abcde",
        namespace=namespace,
        uid=uid or f"{namespace}-{name}",
        ownerReferences=[owner],
        labels={"job": job},
    )


def names(text):
    """By address, all names that a resolver would find."""
    found: dict[str, set[str]] = {}
    for line in text.splitlines():
        address, *more = line.partition("#")[0].split() or [""]
        if address:
            assert address == "127.0.0.1" or address not in found, "an address that is found twice is bound twice"
            found.setdefault(address, set()).update(more)
    return found


def file_of(reader, peers, services=(), machine=""):
    return names(render(reader, "127.1.0.1", shared_part(Circle.of(reader), peers, services, machine)))


def test_pods_of_a_job_know_each_other_by_their_host_names(make_pod):
    pods = [job_pod(make_pod, n) for n in range(3)]
    peers = [Peer(pod, f"127.1.0.{n + 1}") for n, pod in enumerate(pods)]
    found = file_of(pods[0], peers)
    assert found["127.0.0.1"] == {"localhost"}
    assert {address: found[address] for address in ("127.1.0.1", "127.1.0.2", "127.1.0.3")} == {
        "127.1.0.1": {"train-0"},
        "127.1.0.2": {"train-1"},
        "127.1.0.3": {"train-2"},
    }


def test_strangers_do_not(make_pod):
    reader = job_pod(make_pod, 0, job="other")
    found = file_of(reader, [Peer(job_pod(make_pod, 0), "127.1.0.2")])
    assert "127.1.0.2" not in found


def test_with_a_subdomain_names_are_known_in_the_whole_cluster(make_pod):
    peer = Peer(job_pod(make_pod, 1, subdomain="svc"), "127.1.0.2")
    own = job_pod(make_pod, 0, subdomain="svc")
    full = {f"{name}{end}" for name in ("train-1.svc", "svc") for end in (".ns", ".ns.svc", ".ns.svc.cluster.local")}
    assert file_of(own, [peer])["127.1.0.2"] == {*full, "train-1", "train-1.svc", "svc"}
    neighbour = make_pod(uid="n")
    assert file_of(neighbour, [peer])["127.1.0.2"] == {*full, "train-1.svc", "svc"}
    elsewhere = make_pod(uid="e", namespace="far")
    assert file_of(elsewhere, [peer])["127.1.0.2"] == full


def test_a_pod_knows_itself_by_its_full_name_first(make_pod):
    text = render(job_pod(make_pod, 0, subdomain="svc"), "127.1.0.1", "")
    assert "127.1.0.1\ttrain-0.svc.ns.svc.cluster.local train-0\n" in text


def test_services_stand_for_the_pods_that_they_select(make_pod):
    import msgspec

    body = {"metadata": {"name": "web", "namespace": "ns"}, "spec": {"selector": {"job": "train"}}}
    services = [
        SERVICE.decode(msgspec.json.encode(body)),
        SERVICE.decode(msgspec.json.encode(body | {"spec": {}})),
        SERVICE.decode(msgspec.json.encode(body | {"metadata": {"name": "web", "namespace": "far"}})),
    ]
    peers = [Peer(job_pod(make_pod, n), f"127.1.0.{n + 2}") for n in range(2)]
    found = file_of(make_pod(uid="reader"), peers, services)
    wanted = {"web", "web.ns", "web.ns.svc", "web.ns.svc.cluster.local"}
    assert found["127.1.0.2"] == wanted
    assert found["127.1.0.3"] == wanted


def test_finished_pods_are_not_there(make_pod):
    import msgspec

    from muster.api.core import PodStatus

    gone = msgspec.structs.replace(job_pod(make_pod, 1), status=PodStatus(phase="Succeeded"))
    assert "127.1.0.2" not in file_of(job_pod(make_pod, 0), [Peer(gone, "127.1.0.2")])


def test_aliases_and_the_machines_own_names(make_pod):
    pod = make_pod({"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["db", "db.local"]}, {"ip": "10.0.0.2"}]})
    machine = "127.0.0.1 localhost machine # comment\n# 1.2.3.4 no\n\n10.9.9.9 nas\n10.9.9.8 train-0\n"
    found = file_of(pod, [Peer(job_pod(make_pod, 0, subdomain="svc"), "127.1.0.2")], machine=machine)
    assert found["10.0.0.1"] == {"db", "db.local"}
    assert found["127.0.0.1"] == {"localhost", "machine"}
    assert found["10.9.9.9"] == {"nas"}
    assert "10.0.0.2" not in found


def test_the_machines_name_does_not_hide_a_pods(make_pod):
    machine = "10.9.9.8 train-1 other\n"
    found = file_of(job_pod(make_pod, 0), [Peer(job_pod(make_pod, 1), "127.1.0.2")], machine=machine)
    assert found["10.9.9.8"] == {"other"}


@pytest.mark.parametrize(
    ("spec", "name", "shown"),
    [
        ({}, "a-pod", "a-pod"),
        ({"hostname": "h"}, "a-pod", "h"),
        ({}, "x" * 62 + "-" + "y" * 10, "x" * 62),
        ({"hostname": "h", "subdomain": "s"}, "a-pod", "h"),
        ({"hostname": "h", "subdomain": "s", "setHostnameAsFQDN": True}, "a-pod", "h.s.ns.svc.cluster.local"),
        ({"hostname": "h" * 60, "subdomain": "s", "setHostnameAsFQDN": True}, "a-pod", "h" * 60),
        ({"hostname": "h", "hostnameOverride": "o"}, "a-pod", "o"),
    ],
)
def test_host_names(make_pod, spec, name, shown):
    assert make_hostname(make_pod(spec, name=name)) == shown


def test_addresses_are_handed_out_in_order_and_kept():
    addresses = Addresses()
    assert [addresses.get(uid) for uid in "abca"] == ["127.1.0.1", "127.1.0.2", "127.1.0.3", "127.1.0.1"]
    addresses.release("a")
    assert addresses.get("d") == "127.1.0.4", "one that was given back is not soon somebody else's"


def test_addresses_are_taken_back_after_a_restart():
    addresses = Addresses()
    assert addresses.restore("a", "127.1.0.9")
    assert addresses.restore("a", "127.1.0.9")
    assert not addresses.restore("b", "127.1.0.9"), "it is another's by now"
    assert not addresses.restore("a", "127.1.0.10"), "it has one already"
    assert not addresses.restore("c", "127.0.0.1")
    assert not addresses.restore("c", "10.0.0.1")
    assert not addresses.restore("c", "nonsense")
    assert not addresses.restore("c", "")
    assert addresses.get("a") == "127.1.0.9"
    assert addresses.get("b") == "127.1.0.10"


def test_no_address_is_one_that_systems_use_themselves():
    addresses = Addresses(seed=253)
    found = [addresses.get(str(number)) for number in range(140_000)]
    assert len(set(found)) == len(found)
    assert not any(address.startswith("127.0.") or address.split(".")[3] in ("0", "255") for address in found)
    assert {address.split(".")[1] for address in found} == {"254", "1", "2"}
