"""Write the text of a pod's hosts file, with all names that the pod may use, as there is no DNS server. Pure.

The names are the same as in a Kubernetes cluster's DNS:

- the pod's own host name, and with a subdomain its full name;
- `<hostname>.<subdomain>`, also followed by `.<namespace>`, `.svc` and `.svc.cluster.local`, for every pod that has
  both. The headless Service with the subdomain's name need not exist yet, and pods need not be ready. Peers of a gang
  must find each other before they are ready, whatever the order of creation;
- within a Job, the bare host name (`<job>-<index>`) of every pod of the Job;
- the names of Services, with the addresses of the pods that they select, as there are no virtual addresses.

The machine's own names come last, except names that equal a pod's name.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from muster.api.core import Pod, Service
from muster.api.meta import controller_of
from muster.api.pods import is_finished

CLUSTER_DOMAIN = "cluster.local"
_HEADER = "# Kept by muster: the names of the pods that this pod can reach.\n"


class Peer(Struct, frozen=True):
    """A pod with an address."""

    pod: Pod
    address: str


def make_hostname(pod: Pod) -> str:
    """Return the host name of a pod: at most 63 characters, or the full domain name if the spec requests it."""
    short = (pod.spec.hostname_override or pod.spec.hostname or pod.metadata.name)[:63].rstrip("-.")
    if pod.spec.set_hostname_as_fqdn and pod.spec.subdomain and not pod.spec.hostname_override:
        full = f"{short}.{pod.spec.subdomain}.{pod.metadata.namespace}.svc.{CLUSTER_DOMAIN}"
        return full if len(full) <= 63 else short
    return short


class Circle(Struct, frozen=True):
    """The pods of one namespace with the same controller, which can use the same short host names.

    owner: the UID of the controller; "" for pods without one.
    """

    namespace: str
    owner: str

    @classmethod
    def of(cls, pod: Pod) -> "Circle":
        """Return the circle that a pod belongs to."""
        owner = controller_of(pod.metadata)
        return cls(pod.metadata.namespace, owner.uid if owner else "")


def render(pod: Pod, address: str, shared: str) -> str:
    """Return the text of a pod's hosts file. Each address has one line.

    shared: the lines that the hosts files of the pod's circle have in common; see `shared_part`.
    """
    start = f"{address}\t"
    others = shared.splitlines(keepends=True)
    existing_names = [name for line in others if line.startswith(start) for name in line.split()[1:]]
    lines = [("127.0.0.1", "localhost"), ("::1", "localhost ip6-localhost ip6-loopback")]
    lines.append((address, " ".join(dict.fromkeys([*_list_own_names(pod), *existing_names]))))
    lines += [(alias.ip, " ".join(alias.hostnames)) for alias in pod.spec.host_aliases if alias.hostnames]
    own = "".join(f"{ip}\t{names}\n" for ip, names in lines)
    return _HEADER + own + "".join(line for line in others if not line.startswith(start))


def shared_part(circle: Circle, peers: Iterable[Peer], services: Iterable[Service], machine: str) -> str:
    """Return the lines that the hosts files of all pods in a circle have in common.

    These are the names of unfinished pods and of Services, then the machine's own names. A pod of another circle has no
    short name.

    circle: the pods of one controller in one namespace.
    peers: all pods with addresses, also those of other circles.
    machine: the text of the machine's own hosts file.
    """
    alive = sorted((peer for peer in peers if not is_finished(peer.pod)), key=_make_sort_key)
    names: dict[str, list[str]] = {peer.address: _list_names(peer.pod, circle) for peer in alive}
    for service in services:
        for peer in alive:
            if _selects(service, peer.pod):
                names[peer.address] += _list_qualified_names(service.metadata.name, service.metadata.namespace, circle)
    lines = [f"{address}\t{' '.join(dict.fromkeys(own_names))}" for address, own_names in names.items() if own_names]
    hidden = {"localhost", *(name for own_names in names.values() for name in own_names)}
    return "".join(f"{line}\n" for line in (*lines, *_filter_machine_lines(machine, hidden)))


def _list_own_names(pod: Pod) -> list[str]:
    short = make_hostname(pod).partition(".")[0]
    if not pod.spec.subdomain or pod.spec.hostname_override:
        return [short]
    full = f"{short}.{pod.spec.subdomain}.{pod.metadata.namespace}.svc.{CLUSTER_DOMAIN}"
    return [full, short]


def _list_names(pod: Pod, circle: Circle) -> list[str]:
    """Return the names by which the pods of a circle can address a pod."""
    if not pod.spec.hostname:
        return []
    names: list[str] = []
    if pod.spec.subdomain:
        names += _list_qualified_names(f"{pod.spec.hostname}.{pod.spec.subdomain}", pod.metadata.namespace, circle)
        names += _list_qualified_names(pod.spec.subdomain, pod.metadata.namespace, circle)
    if circle.owner and circle == Circle.of(pod):
        names.append(pod.spec.hostname)
    return names


def _list_qualified_names(name: str, namespace: str, circle: Circle) -> list[str]:
    """Return all forms of a name that the circle's pods may use; the short form only in the circle's own namespace."""
    full = [f"{name}.{namespace}.svc.{CLUSTER_DOMAIN}", f"{name}.{namespace}.svc", f"{name}.{namespace}"]
    return [*full, name] if circle.namespace == namespace else full


def _selects(service: Service, pod: Pod) -> bool:
    selector: Mapping[str, str] = service.spec.selector
    return (
        bool(selector)
        and service.metadata.namespace == pod.metadata.namespace
        and selector.items() <= pod.metadata.labels.items()
    )


def _make_sort_key(peer: Peer) -> tuple[str, int, str]:
    """Return the key that sorts pods by namespace and name, with `job-2` before `job-10`."""
    name = peer.pod.metadata.name
    return peer.pod.metadata.namespace, len(name), name


def _filter_machine_lines(machine: str, hidden: set[str]) -> list[str]:
    """Return the lines of the machine's hosts file, without comments and hidden names.

    Lines without other names are left out.

    machine: the text of the file.
    """
    lines = []
    for line in machine.splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        visible = [name for name in names if name not in hidden]
        if visible:
            lines.append(f"{address}\t{' '.join(visible)}")
    return lines
