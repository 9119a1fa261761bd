"""From a container's spec to what its shim is told."""

import asyncio
import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from muster.api.core import (
    CONFIG_MAP,
    SECRET,
    ConfigMap,
    Container,
    Pod,
    Secret,
    SecurityContext,
)
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
from muster.cluster.nodes.gpus.device import FAMILIES
from muster.cluster.nodes.gpus.holding import Gpus, Wanted
from muster.cluster.nodes.machine import cgroups
from muster.cluster.nodes.machine.cgroups import Cgroups
from muster.cluster.nodes.machine.isolation import Isolation, command
from muster.cluster.nodes.network.hosts import hostname
from muster.cluster.nodes.network.network import Network
from muster.cluster.nodes.shim.spec import Command, Spec
from muster.cluster.nodes.shims import MARK
from muster.cluster.nodes.volumes.contents import MOST_BYTES
from muster.cluster.nodes.volumes.mounts import Mount, MountError, place, plan
from muster.cluster.nodes.volumes.pod_volumes import PodVolumes
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.events.recorder import Recorder

T = TypeVar("T")

LOG_BYTES, LOG_FILES = 10 << 20, 5
# Who follows a log may hold up its container for no longer than this for each file, if others use the cluster too. In a
# cluster of the command's own it may for ever, as a pipe does.
LOG_PATIENCE_SECONDS, FOR_EVER = 5.0, -1.0
# So many mounts, or characters in their paths, are looked up without giving others a turn.
_MOUNTS_AT_ONCE, _PATHS_AT_ONCE = 50, 5_000
# What container runtimes give a process that asks for nothing.
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
DEFAULT_MESSAGE_PATH = "/dev/termination-log"
MESSAGE_FILE = "termination-message"


@dataclass(frozen=True, slots=True)
class Kit:
    """What the pods of a node have in common. `lifeline` is -1 for containers that outlive the server.

    states: where jobs keep what outlives their pods; None for nowhere.
    showing: whose turn it is to hold the objects that its pod refers to. They may be much more than the pod itself.
    starting: whose turn it is to start a process, which takes the whole loop's time.
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
    cgroups: Cgroups | None = None
    no_cgroups_because: str = ""
    lifeline: int = -1
    defaults: Mapping[str, str] = field(default_factory=dict)
    states: States | None = None
    guest: bool = False
    showing: asyncio.Lock = field(default_factory=asyncio.Lock)
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)

    def told_address(self, pod: Pod) -> str:
        """Where the pod is said to be. A guest names the machine: no other machine reaches its pods' own addresses."""
        return self.host_address if self.guest else self.network.address(pod)

    def surroundings(self, pod: Pod) -> NodeFacts:
        """What the node knows of the pod."""
        return NodeFacts(self.told_address(pod), self.host_address, self.node_name, self.allocatable)


async def fetch(client: Client, namespace: str, names: Names) -> Objects:
    """The objects that are there now. Raises `ConfigError` if they are too much to hold at once.

    Raises `ApiError` and `TransportError` for anything but their absence.
    """
    config_maps: dict[str, ConfigMap] = {}
    secrets: dict[str, Secret] = {}
    held = 0
    for name in sorted(names.config_maps):
        found = await client.find(CONFIG_MAP, name, namespace)
        if found is not None:
            config_maps[name] = found
            held = _held(held, (*found.data.values(), *found.binary_data.values()))
    for name in sorted(names.secrets):
        sealed = await client.find(SECRET, name, namespace)
        if sealed is not None:
            secrets[name] = sealed
            held = _held(held, sealed.data.values())
    return Objects(config_maps, secrets)


def _held(before: int, values: Iterable[str | bytes]) -> int:
    """How much is held with these. Raises `ConfigError`."""
    held = before + sum(map(len, values))
    if held > MOST_BYTES:
        raise ConfigError(f"the ConfigMaps and Secrets that it refers to have more than {MOST_BYTES} bytes")
    return held


def container_id(pod: Pod, container: str, number: int) -> str:
    """The identity of one attempt, the same wherever it is computed."""
    text = f"{pod.metadata.uid}/{container}/{number}"
    return f"process://{hashlib.sha256(text.encode()).hexdigest()}"


def variables(kit: Kit, pod: Pod, container: Container, objects: Objects) -> Environment:
    """The container's environment. Raises `ConfigError`."""
    defaults = {"PATH": DEFAULT_PATH, "HOSTNAME": hostname(pod), "HOME": "/", **kit.defaults}
    if kit.states is not None and (job := job_uid(pod)):
        defaults[STATE] = str(kit.states.of(job))
    found = environment.environment(pod, container, objects, kit.surroundings(pod), defaults)
    gpus = kit.gpus.variables(pod.metadata.uid, container.name)
    # A container without a GPU may say so in its own way; one that has some gets these and no others.
    found.variables.update({name: text for name, text in gpus.items() if text or name not in found.variables})
    return found


def command_of(
    kit: Kit,
    pod: Pod,
    container: Container,
    argv: list[str],
    found: Mapping[str, str],
    cgroup: str,
    volumes: PodVolumes,
) -> Command:
    """A program to run in the container. Raises `ConfigError`."""
    context = container.security_context or SecurityContext()
    env = environment.encode(found)
    if not kit.isolation.own_pids:
        env.append((MARK, mark(pod.metadata.uid, container.name).encode()))
    return {
        "argv": environment.encode_words(argv),
        "env": env,
        "working_directory": os.fsencode(container.working_dir or "/"),
        "ids": rights.ids(pod, context),
        "no_new_privileges": context.allow_privilege_escalation is False,
        "dropped": rights.dropped(context),
        "writable": _writable(kit, container, volumes, found),
        "cgroup": cgroup,
    }


def mark(uid: str, container: str) -> str:
    """What the environment of a container's processes says where no pid namespace holds them together."""
    return f"{uid}/{container}"


def spec(kit: Kit, pod: Pod, container: Container, volumes: PodVolumes, found: Environment, directory: Path) -> Spec:
    """All that the shim must know. Raises `ConfigError`, OSError."""
    argv = environment.command_line(container, found.variables)
    storage = kit.storage.of(pod.metadata.uid)
    mounts = [*_own_mounts(container, storage, directory), *volumes.mounts(container, found.variables)]
    try:
        operations = plan(mounts, str(directory)) if kit.isolation.kind != "none" else []
    except MountError as error:
        raise ConfigError(str(error)) from None
    cgroup = ""
    if kit.cgroups is not None:
        cgroup = str(kit.cgroups.make(pod.metadata.uid, container.name, cgroups.limits(container)))
    name = hostname(pod)
    return {
        **command_of(kit, pod, container, argv, found.variables, cgroup, volumes),
        "directory": str(directory),
        "isolation": kit.isolation.kind,
        "own_pids": kit.isolation.own_pids,
        "bubblewrap": command(kit.isolation, operations, name),
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
    }


def takes_long(container: Container) -> bool:
    """Whether working out where its mounts go would keep others waiting."""
    mounts = container.volume_mounts
    return len(mounts) > _MOUNTS_AT_ONCE or sum(len(m.mount_path) + len(m.sub_path) for m in mounts) > _PATHS_AT_ONCE


def gpus_wanted(container: Container) -> Wanted:
    """How many GPUs of each resource the container asks for. Raises `QuantityError`."""
    asked = container_requests(container.resources)
    return {family.resource: count for family in FAMILIES if (count := asked.get(family.resource, 0))}


def message_path(container: Container) -> str:
    """Where the container leaves its last words, if we can give it that file.

    The default path is in /dev, of which we would have to make a copy that misses devices made later: not for a file
    that hardly any program writes. Who means to, names another path.
    """
    path = container.termination_message_path
    return "" if path in ("", DEFAULT_MESSAGE_PATH) else path


def _own_mounts(container: Container, storage: PodStorage, directory: Path) -> list[Mount]:
    closed = container.security_context is not None and container.security_context.read_only_root_filesystem
    mounts = [Mount("/etc/hosts", str(storage.hosts), is_directory=False, read_only=bool(closed))]
    if path := message_path(container):
        file = directory / MESSAGE_FILE
        file.touch(0o666)
        file.chmod(0o666)
        mounts.append(Mount(path, str(file), is_directory=False))
    return mounts


def _writable(kit: Kit, container: Container, volumes: PodVolumes, found: Mapping[str, str]) -> list[str] | None:
    """Where the container may write if its root is read-only; None if that is not asked, or cannot be."""
    if not rights.closes_root(container.security_context, kit.isolation):
        return None
    paths = [mount.path for mount in volumes.mounts(container, found) if not mount.read_only]
    return [place(path) for path in (*paths, message_path(container)) if path]


def volume_group(pod: Pod) -> int | None:
    """The group that owns the pod's volumes."""
    context = pod.spec.security_context
    return context.fs_group if context is not None and os.geteuid() == 0 else None
