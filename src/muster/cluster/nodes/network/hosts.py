"""A pod's hosts file: there is no DNS server, so all the names that a pod may use are in it. Pure.

Names are those that a cluster's DNS has:

- the pod's own host name, and with a subdomain its full name;
- `<hostname>.<subdomain>`, also with `.<namespace>`, `.svc` and `.svc.cluster.local` behind, for every pod that has
  both; the headless Service of that name need not be there (yet), and pods need not be ready: peers of a gang must find
  each other before they are ready, whatever order things are made in;
- within a Job, the bare host name (`<job>-<index>`) of every pod of the Job;
- the names of Services, which stand for the pods that they select; there are no virtual addresses.

The machine's own names come last, without those that the pods' names hide.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from muster.api.core import Pod, Service
from muster.api.meta import controller_of
from muster.api.pods import is_finished

CLUSTER_DOMAIN = "cluster.local"
_HEADER = "# Kept by muster: the names of the pods that this pod can reach.\n"


@dataclass(frozen=True, slots=True)
class Peer:
    """A pod with an address."""

    pod: Pod
    address: str


def hostname(pod: Pod) -> str:
    """What `hostname` prints in the pod: at most 63 characters, the full name where the spec asks for it."""
    short = (pod.spec.hostname_override or pod.spec.hostname or pod.metadata.name)[:63].rstrip("-.")
    if pod.spec.set_hostname_as_fqdn and pod.spec.subdomain and not pod.spec.hostname_override:
        full = f"{short}.{pod.spec.subdomain}.{pod.metadata.namespace}.svc.{CLUSTER_DOMAIN}"
        return full if len(full) <= 63 else short
    return short


@dataclass(frozen=True, slots=True)
class Circle:
    """Pods that know the same names: those of one namespace and one controller. `owner` is its uid, maybe empty."""

    namespace: str
    owner: str

    @classmethod
    def of(cls, pod: Pod) -> "Circle":
        """The circle that the pod belongs to."""
        owner = controller_of(pod.metadata)
        return cls(pod.metadata.namespace, owner.uid if owner else "")


def render(pod: Pod, address: str, shared: str) -> str:
    """A pod's file: its own names, its aliases, and what all of its circle know. No address has two lines of ours."""
    start = f"{address}\t"
    others = shared.splitlines(keepends=True)
    known = [name for line in others if line.startswith(start) for name in line.split()[1:]]
    lines = [("127.0.0.1", "localhost"), ("::1", "localhost ip6-localhost ip6-loopback")]
    lines.append((address, " ".join(dict.fromkeys([*_own_names(pod), *known]))))
    lines += [(alias.ip, " ".join(alias.hostnames)) for alias in pod.spec.host_aliases if alias.hostnames]
    own = "".join(f"{ip}\t{names}\n" for ip, names in lines)
    return _HEADER + own + "".join(line for line in others if not line.startswith(start))


def shared_part(circle: Circle, peers: Iterable[Peer], services: Iterable[Service], machine: str) -> str:
    """The lines for all other pods. `peers` are all that have addresses; `machine` is the machine's own file."""
    alive = sorted((peer for peer in peers if not is_finished(peer.pod)), key=_order)
    names: dict[str, list[str]] = {peer.address: _names_of(peer.pod, circle) for peer in alive}
    for service in services:
        for peer in alive:
            if _selects(service, peer.pod):
                names[peer.address] += _qualified(service.metadata.name, service.metadata.namespace, circle)
    lines = [f"{address}\t{' '.join(dict.fromkeys(found))}" for address, found in names.items() if found]
    hidden = {"localhost", *(name for found in names.values() for name in found)}
    return "".join(f"{line}\n" for line in (*lines, *_rest_of(machine, hidden)))


def _own_names(pod: Pod) -> list[str]:
    short = hostname(pod).partition(".")[0]
    if not pod.spec.subdomain or pod.spec.hostname_override:
        return [short]
    full = f"{short}.{pod.spec.subdomain}.{pod.metadata.namespace}.svc.{CLUSTER_DOMAIN}"
    return [full, short]


def _names_of(pod: Pod, circle: Circle) -> list[str]:
    """The names under which a circle knows a pod."""
    if not pod.spec.hostname:
        return []
    found: list[str] = []
    if pod.spec.subdomain:
        found += _qualified(f"{pod.spec.hostname}.{pod.spec.subdomain}", pod.metadata.namespace, circle)
        found += _qualified(pod.spec.subdomain, pod.metadata.namespace, circle)
    if circle.owner and circle == Circle.of(pod):
        found.append(pod.spec.hostname)
    return found


def _qualified(name: str, namespace: str, circle: Circle) -> list[str]:
    """A name of the namespace with all endings that the circle may leave out."""
    full = [f"{name}.{namespace}.svc.{CLUSTER_DOMAIN}", f"{name}.{namespace}.svc", f"{name}.{namespace}"]
    return [*full, name] if circle.namespace == namespace else full


def _selects(service: Service, pod: Pod) -> bool:
    selector: Mapping[str, str] = service.spec.selector
    return (
        bool(selector)
        and service.metadata.namespace == pod.metadata.namespace
        and selector.items() <= pod.metadata.labels.items()
    )


def _order(peer: Peer) -> tuple[str, int, str]:
    """By namespace and name, with `job-2` before `job-10`."""
    name = peer.pod.metadata.name
    return peer.pod.metadata.namespace, len(name), name


def _rest_of(machine: str, hidden: set[str]) -> list[str]:
    """The lines of the machine's file, without comments and hidden names."""
    lines = []
    for line in machine.splitlines():
        address, *found = line.partition("#")[0].split() or [""]
        kept = [name for name in found if name not in hidden]
        if kept:
            lines.append(f"{address}\t{' '.join(kept)}")
    return lines
