"""Make the spec of a shim, the process that starts and supervises a container, from the container's spec.

This module reads the ConfigMaps, Secrets and volumes to which the container refers. `shims` starts the shim.
"""

import hashlib
import os
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from msgspec import Struct, field

from muster.api.core import (
    CONFIG_MAP,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    SECRET,
    ConfigMap,
    Container,
    PersistentVolume,
    Pod,
    Secret,
    SecurityContext,
)
from muster.api.ours.umask import DEFAULT_UMASK, UMASK_ANNOTATION, parse_umask
from muster.api.pods import container_requests, job_uid
from muster.api.values.quantity import Quantity
from muster.api.values.shells import HANGS_UP
from muster.cluster.nodes.container import environment, rights
from muster.cluster.nodes.container.downward import NodeFacts
from muster.cluster.nodes.container.environment import ConfigError, Environment, Names, Objects
from muster.cluster.nodes.disk.remover import Remover
from muster.cluster.nodes.disk.states import VARIABLE as STATE
from muster.cluster.nodes.disk.states import States
from muster.cluster.nodes.disk.storage import PodStorage, Storage
from muster.cluster.nodes.fence import Fence, seconds_until_replaced
from muster.cluster.nodes.gpus.device import FAMILIES
from muster.cluster.nodes.gpus.holding import Gpus, Wanted
from muster.cluster.nodes.machine.cgroups import Cgroups
from muster.cluster.nodes.machine.cpus import Cpus
from muster.cluster.nodes.machine.isolation import Isolation, make_command
from muster.cluster.nodes.network.hosts import make_hostname
from muster.cluster.nodes.network.network import Network
from muster.cluster.nodes.podslots import PodSlots
from muster.cluster.nodes.shim.spec import ProgramSpec, ShimAccount, Spec
from muster.cluster.nodes.shims import MARK
from muster.cluster.nodes.volumes.contents import MOST_BYTES
from muster.cluster.nodes.volumes.mounts import Mount, MountError, place, plan
from muster.cluster.nodes.volumes.pod_volumes import PodVolumes
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.events.recorder import Recorder
from muster.runtime.process.accounts import Account, acting_as, find_home, name_groups
from muster.runtime.process.loginlimits import Login, read_limits
from muster.runtime.refusals import ignoring

LOG_BYTES, LOG_FILES = 10 << 20, 5
# How long a reader of a log may delay the container, for each log file, if the container may outlive the server. If it
# ends with the server, the delay is unlimited, as with a pipe.
LOG_PATIENCE_SECONDS, FOR_EVER = 5.0, -1.0
# The mounts, or characters in their paths, that the event loop plans itself; a thread plans more.
_MOUNTS_AT_ONCE, _PATHS_AT_ONCE = 50, 5_000
# The maximum number of concurrent starts of containers: more would only share the processors.
STARTS_AT_ONCE = 2 * len(os.sched_getaffinity(0))
# The PATH that container runtimes give a process by default.
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
DEFAULT_MESSAGE_PATH = "/dev/termination-log"
MESSAGE_FILE = "termination-message"


class Kit(Struct, frozen=True):
    """The tools and limits that all pods of a node share for the start of their containers.

    lifeline: a descriptor whose closing kills all containers; -1 if containers outlive the server.
    cpus: the CPUs of the node, if no cgroup limits the containers' use of CPUs.
    states: the state directories of jobs, which outlive the jobs' pods; None if there are none.
    fence: kills pods after the node's Lease has expired, because they may run elsewhere by then; None for no fence.
    object_slots: limits how many pods load their objects concurrently, because objects may be much larger than the pod.
    accounts: the Unix accounts that run the pods of a system server, by pod UID; None if the node's own user runs all
    pods.
    start_slots: limits how many containers start concurrently. Creating a process blocks the event loop, and its shim
    keeps a CPU busy.
    """

    node_name: str
    client: Client
    clock: Clock
    recorder: Recorder
    storage: Storage
    remover: Remover
    network: Network
    gpus: Gpus
    isolation: Isolation
    allocatable: Mapping[str, Quantity]
    host_address: str
    cpus: Cpus | None = None
    cgroups: Cgroups | None = None
    no_cgroups_because: str = ""
    lifeline: int = -1
    defaults: Mapping[str, str] = field(default_factory=dict)
    states: States | None = None
    guest: bool = False
    fence: Fence | None = None
    accounts: dict[str, Account] | None = None
    object_slots: PodSlots = field(default_factory=lambda: PodSlots(1))
    start_slots: PodSlots = field(default_factory=lambda: PodSlots(STARTS_AT_ONCE))

    def find_reported_address(self, pod: Pod) -> str:
        """Return the address that the pod's status reports.

        A guest (a node in another cluster) reports the machine's address, because other machines cannot reach its pods'
        addresses.
        """
        return self.host_address if self.guest else self.network.address(pod)

    def fence_of(self, pod: Pod) -> tuple[int, float]:
        """Return the descriptor of the fence's file, and how many seconds after the Lease expires the pod may run.

        The descriptor is -1 if no fence applies to the pod.
        """
        seconds = seconds_until_replaced(pod)
        return (self.fence.descriptor, seconds) if self.fence is not None and seconds is not None else (-1, 0.0)

    def account_of(self, pod: Pod) -> Account | None:
        """Return the account that runs the pod; None for the node's own user.

        Raises `ConfigError` if no account is recorded.
        """
        if self.accounts is None:
            return None
        account = self.accounts.get(pod.metadata.uid)
        if account is None:  # the node has not admitted the pod
            raise ConfigError("the pod has no Unix user to run as")
        return account

    def surroundings(self, pod: Pod) -> NodeFacts:
        """Return the facts about the pod that only its node knows."""
        return NodeFacts(self.find_reported_address(pod), self.host_address, self.node_name, self.allocatable)


async def fetch(client: Client, namespace: str, names: Names) -> Objects:
    """Read the objects with these names; omit missing ones. Raises `ConfigError` if their total size is too large.

    Raises `ApiError` and `TransportError` for any failure except a missing object.
    """
    config_maps: dict[str, ConfigMap] = {}
    secrets: dict[str, Secret] = {}
    total = 0
    for name in sorted(names.config_maps):
        config_map = await client.find(CONFIG_MAP, name, namespace)
        if config_map is not None:
            config_maps[name] = config_map
            total = _add_bytes(total, (*config_map.data.values(), *config_map.binary_data.values()))
    for name in sorted(names.secrets):
        secret = await client.find(SECRET, name, namespace)
        if secret is not None:
            secrets[name] = secret
            total = _add_bytes(total, secret.data.values())
    bound = {name: await _find_bound_volume(client, name, namespace) for name in sorted(names.claims)}
    return Objects(config_maps, secrets, volumes={name: volume for name, volume in bound.items() if volume is not None})


async def _find_bound_volume(client: Client, name: str, namespace: str) -> PersistentVolume | None:
    """Return the volume that is bound to a claim; None if there is none, or if the node may not read it.

    Also return None if the volume does not refer back to the claim, because any user could name any volume in a claim.
    """
    with ignoring("Forbidden"):  # a guest may see only what its host allows
        claim = await client.find(PERSISTENT_VOLUME_CLAIM, name, namespace)
        if claim is None or not claim.spec.volume_name:
            return None
        volume = await client.find(PERSISTENT_VOLUME, claim.spec.volume_name)
        reference = volume.spec.claim_ref if volume is not None else None
        if reference is not None and reference.uid == claim.metadata.uid:
            return volume
    return None


def _add_bytes(before: int, values: Iterable[str | bytes]) -> int:
    """Return `before` plus the sizes of these values, in bytes. Raises `ConfigError` if the sum is too large."""
    total = before + sum(map(len, values))
    if total > MOST_BYTES:
        raise ConfigError(f"the ConfigMaps and Secrets that the container refers to have more than {MOST_BYTES} bytes")
    return total


def container_id(pod: Pod, container: str, number: int) -> str:
    """Return the container ID of one attempt of a container. number: the attempt's number.

    The ID is a hash of the arguments, so a restarted server computes the same ID.
    """
    text = f"{pod.metadata.uid}/{container}/{number}"
    return f"process://{hashlib.sha256(text.encode()).hexdigest()}"


def build_environment(kit: Kit, pod: Pod, container: Container, objects: Objects) -> Environment:
    """Return the container's environment. Raises `ConfigError`."""
    account = kit.account_of(pod)
    login = account.variables if account is not None else {"HOME": _find_home(pod, container)}
    defaults = {"PATH": DEFAULT_PATH, "HOSTNAME": make_hostname(pod), **login, **kit.defaults}
    if kit.states is not None and (job := job_uid(pod)):
        defaults[STATE] = str(kit.states.of(job, account))
    resolved = environment.build_environment(pod, container, objects, kit.surroundings(pod), defaults)
    gpus = kit.gpus.variables(pod.metadata.uid, container.name)
    # A container without a GPU may set these variables itself; a container with GPUs always gets these values.
    resolved.variables.update({name: text for name, text in gpus.items() if text or name not in resolved.variables})
    return resolved


def _find_home(pod: Pod, container: Container) -> str:
    """Return the home of the user as whom the node, which has no accounts, runs a container. Raises `ConfigError`."""
    ids = rights.find_ids(pod, container.security_context or SecurityContext())
    return find_home(os.geteuid() if ids is None else ids[0])


def command_of(
    kit: Kit,
    pod: Pod,
    container: Container,
    argv: list[str],
    variables: Mapping[str, str],
    groups: Iterable[Path],
    volumes: PodVolumes,
) -> ProgramSpec:
    """Return the specification of the container's program, with its user, limits and working directory.

    Raises `ConfigError`.
    """
    context = container.security_context or SecurityContext()
    account = kit.account_of(pod)
    with _act_for(account):
        writable = _list_writable_paths(kit, container, volumes, variables)
    env = environment.encode(variables)
    if not kit.isolation.own_pids:
        env.append((MARK, make_mark(pod.metadata.uid, container.name).encode()))
    return {
        "identity": _make_shim_account(account) if account is not None else None,
        "argv": environment.encode_words(argv),
        "env": env,
        "working_directory": os.fsencode(container.working_dir or "/"),
        "umask": _find_umask(pod),
        "ids": rights.find_ids(pod, context) if account is None else None,
        "no_new_privileges": context.allow_privilege_escalation is False or account is not None,
        "dropped": rights.list_dropped_capabilities(context),
        "writable": writable,
        "cgroups": [str(group) for group in groups],
        "cpus": kit.cpus.of(pod.metadata.uid, container.name) if kit.cpus is not None else [],
    }


def _find_umask(pod: Pod) -> int:
    """Return the umask of the pod's processes. Raises `ConfigError`."""
    text = pod.metadata.annotations.get(UMASK_ANNOTATION)
    if text is None:
        return DEFAULT_UMASK
    try:
        return parse_umask(text)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _act_for(account: Account | None) -> AbstractContextManager[None]:
    """Return a context in which file access has the rights of an account; None means the node's own user."""
    return acting_as(account) if account is not None else nullcontext()


def _make_shim_account(account: Account) -> ShimAccount:
    groups = [*account.groups, account.private_group]
    limits = read_limits(Login(account.name, name_groups(account)))
    return {"uid": account.uid, "gid": account.gid, "groups": groups, "limits": limits}


def make_mark(uid: str, container: str) -> str:
    """Return the value of the environment variable that marks a container's processes.

    The node finds the processes by this variable if containers have no PID namespace.
    """
    return f"{uid}/{container}"


def make_spec(
    kit: Kit, pod: Pod, container: Container, volumes: PodVolumes, container_environment: Environment, directory: Path
) -> Spec:
    """Make the container's cgroups and message file, and return the spec of the shim for one attempt.

    directory: the attempt's directory, for its log and its record.

    Raises `ConfigError`, OSError.
    """
    argv = environment.command_line(container, container_environment.variables)
    storage = kit.storage.of(pod.metadata.uid)
    account = kit.account_of(pod)
    with _act_for(account):
        mounts = [
            *_list_own_mounts(container, storage, directory),
            *_hide_gpus(kit, pod, container),
            *volumes.mounts(container, container_environment.variables),
        ]
        try:
            operations = plan(mounts, str(directory)) if kit.isolation.kind != "none" else []
        except MountError as error:
            raise ConfigError(str(error)) from None
    groups = kit.cgroups.make(pod, container) if kit.cgroups is not None else ()
    name = make_hostname(pod)
    fence, patience = kit.fence_of(pod)
    return {
        **command_of(kit, pod, container, argv, container_environment.variables, groups, volumes),
        "directory": str(directory),
        "isolation": kit.isolation.kind,
        "own_pids": kit.isolation.own_pids,
        "bubblewrap": make_command(kit.isolation, operations, name),
        "mounts": operations,
        "hostname": name,
        "stdin": container.stdin,
        "stdin_once": container.stdin_once and (not container.tty or HANGS_UP in pod.metadata.annotations),
        "tty": container.tty,
        "log_bytes": LOG_BYTES,
        "log_files": LOG_FILES,
        "log_patience": LOG_PATIENCE_SECONDS if kit.lifeline < 0 else FOR_EVER,
        "report": -1,
        "lifeline": kit.lifeline,
        "fence": fence,
        "patience": patience,
    }


def _hide_gpus(kit: Kit, pod: Pod, container: Container) -> list[Mount]:
    """Return mounts that hide the GPUs of other pods from a container, if the node runs pods of several users.

    Environment variables alone do not hide a GPU, because a program may set them itself.
    """
    if kit.accounts is None:
        return []
    files = kit.gpus.hidden_files(pod.metadata.uid, container.name, Path("/"))
    return [Mount(file, os.devnull, is_directory=False) for file in files]


def takes_long(container: Container) -> bool:
    """Return whether a thread should plan the container's mounts, because they would block the event loop too long."""
    mounts = container.volume_mounts
    return len(mounts) > _MOUNTS_AT_ONCE or sum(len(m.mount_path) + len(m.sub_path) for m in mounts) > _PATHS_AT_ONCE


def gpus_wanted(container: Container) -> Wanted:
    """Return how many GPUs of each resource the container requests; omit zeros. Raises `QuantityError`."""
    requests = container_requests(container.resources)
    return {family.resource: count for family in FAMILIES if (count := requests.get(family.resource, 0))}


def message_path(container: Container) -> str:
    """Return the path of the container's termination message; "" if the node cannot provide that file.

    The default path is in /dev. To provide it, each container would need its own copy of /dev, which would lack devices
    that are added later. Programs that write a termination message name another path.
    """
    path = container.termination_message_path
    return "" if path in ("", DEFAULT_MESSAGE_PATH) else path


def _list_own_mounts(container: Container, storage: PodStorage, directory: Path) -> list[Mount]:
    closed = container.security_context is not None and container.security_context.read_only_root_filesystem
    mounts = [Mount("/etc/hosts", str(storage.hosts), is_directory=False, read_only=bool(closed))]
    if path := message_path(container):
        file = directory / MESSAGE_FILE
        file.touch(0o666)
        file.chmod(0o666)
        mounts.append(Mount(path, str(file), is_directory=False))
    return mounts


def _list_writable_paths(
    kit: Kit, container: Container, volumes: PodVolumes, variables: Mapping[str, str]
) -> list[str] | None:
    """Return the paths that the container may write if its root is read-only; None if its root is writable."""
    if not rights.closes_root(container.security_context, kit.isolation):
        return None
    paths = [mount.path for mount in volumes.mounts(container, variables) if not mount.read_only]
    return [place(path) for path in (*paths, message_path(container)) if path]


def volume_group(kit: Kit, pod: Pod) -> int | None:
    """Return the ID of the group that owns the pod's volumes; None if the node cannot set it or the pod names none."""
    if kit.accounts is not None:
        account = kit.accounts.get(pod.metadata.uid)  # a pod that the node has refused gets no volumes
        return account.private_group if account is not None else None
    context = pod.spec.security_context
    return context.fs_group if context is not None and os.geteuid() == 0 else None
