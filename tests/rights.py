"""What users with few rights get from each command: one table, for the embedded server and for a real one.

Namespace `default` has a LocalQueue, and a Job `first` in it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from muster.api.batch import JOB
from muster.api.core import SERVICE_ACCOUNT
from muster.api.kinds import Kind
from muster.api.server.rbac import ROLE, ROLE_BINDING
from muster.cli.main import cli
from muster.runtime.client import Client
from muster.runtime.clock import RealClock
from muster.runtime.ids import Random
from muster.runtime.kube.https import HttpsTransport
from muster.runtime.kube.kubeconfig_files import load
from muster.runtime.transport import Request

# Built-in roles of Kubernetes, with what Kueue's guide has an administrator give to those who queue.
_QUEUES = {"apiGroups": ["kueue.x-k8s.io"], "resources": ["localqueues", "workloads"], "verbs": ["get", "list"]}
_ROLES = {"editor": "edit", "viewer": "view", "nobody": ""}

_NAMESPACE, _CLUSTER = ("; ask the administrator of the namespace", "; ask the administrator of the cluster")
_HERE, _EVERYWHERE = f" in namespace default{_NAMESPACE}", f" in the whole cluster{_CLUSTER}"


@dataclass(frozen=True)
class Case:
    """A command of a user; how it ends, what it shows, and the lines that say what is missing."""

    user: str
    command: str
    code: int
    shows: str
    missing: tuple[str, ...] = ()


def _refused(user: str, *commands: str, right: str) -> list[Case]:
    return [Case(user, command, 1, "", (right,)) for command in commands]


_NODES, _QUOTAS = f"list nodes{_EVERYWHERE}", f"list clusterqueues.kueue.x-k8s.io{_EVERYWHERE}"
_JOBS, _JOB = f"list jobs.batch{_HERE}", f'get jobs.batch "first"{_HERE}'
_BY_NAMESPACE = [
    case
    for user in ("editor", "viewer")
    for case in (
        Case(user, "ps", 0, "first"),
        Case(user, "why first", 0, "quota"),
        Case(user, "queue list", 0, "LOCALQUEUE", (_QUOTAS,)),
        Case(user, "top", 0, "", (_NODES, _QUOTAS)),
        Case(user, "status", 0, "server", (_NODES,)),
        Case(user, "podgroups list", 0, ""),
        Case(user, "logs first", 0, ""),
        *_refused(user, "ps -A", right=f"list jobs.batch{_EVERYWHERE}"),
        *_refused(user, "cluster list", right=f"list multikueueclusters.kueue.x-k8s.io{_EVERYWHERE}"),
        *_refused(user, "queue stop QUEUE --cluster", "queue resume QUEUE --cluster", right=_EVERYWHERE),
        *_refused(user, "queue create more --cpu 1", right=_EVERYWHERE),
        *_refused(user, "hold queue/QUEUE", right=f'localqueues.kueue.x-k8s.io "QUEUE"{_HERE}'),
        Case(user, "release queue/QUEUE", 0, "is not stopped"),
        *_refused(user, "hold first", right=_HERE),
    )
]
CASES = [
    *_BY_NAMESPACE,
    *_refused("editor", "plan -f MANIFEST", right="you may not list nodes, pods, clusterqueues.kueue.x-k8s.io"),
    *_refused("viewer", "apply -f MANIFEST", right=f"create jobs.batch{_HERE}"),
    *_refused("viewer", "scale first 2", right=f'patch jobs.batch "first"{_HERE}'),
    *_refused("viewer", "run --name r -q QUEUE --image none -- true", right=_HERE),
    *_refused("nobody", "ps", right=_JOBS),
    *_refused("nobody", "why first", "logs first", "exec first -- true", "wait first", right=_JOB),
    *_refused("nobody", "scale first 2", "cancel first", "hold first", "release first", right=_JOB),
    *_refused("nobody", "queue list", right=f"list localqueues.kueue.x-k8s.io{_HERE}"),
    *_refused("nobody", "podgroups list", right=f"list pods{_HERE}"),
    *_refused(
        "nobody", "run --name r -q QUEUE --image none -- true", right=f'get localqueues.kueue.x-k8s.io "QUEUE"{_HERE}'
    ),
    Case("editor", "scale first 1", 0, "scaled"),
    Case("editor", "apply -f MANIFEST", 0, "created"),
    Case("editor", "cancel --delete second", 0, "deleted"),
]
each_case = pytest.mark.parametrize("case", [pytest.param(one, id=f"{one.user}: {one.command}") for one in CASES])


def job(name: str, queue: str) -> dict[str, Any]:
    """A queued Job of two workers."""
    container = {"name": "c", "image": "none", "command": ["x"], "resources": {"requests": {"cpu": "1"}}}
    pods = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"suspend": True, "parallelism": 2, "completions": 2, "template": pods}
    meta = {"name": name, "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": queue}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


def documents(queue: str) -> Iterator[tuple[Kind[Any], dict[str, Any]]]:
    """The users, as ServiceAccounts of `default`, what they may do there, and the job."""
    meta = {"namespace": "default"}
    yield ROLE, {"metadata": meta | {"name": "queues"}, "rules": [_QUEUES]}
    for user, role in _ROLES.items():
        yield SERVICE_ACCOUNT, {"metadata": meta | {"name": user}}
        for kind, name in (("ClusterRole", role), ("Role", "queues")) if role else ():
            reference = {"apiGroup": ROLE.group, "kind": kind, "name": name}
            subjects = [{"kind": "ServiceAccount", "name": user, "namespace": "default"}]
            about = meta | {"name": f"{user}-{name}"}
            yield ROLE_BINDING, {"metadata": about, "roleRef": reference, "subjects": subjects}
    yield JOB, job("first", queue)


async def introduced(admin: Path, folder: Path, queue: str) -> "Users":
    """Make the users and the job in the cluster of an administrator's kubeconfig."""
    transport = HttpsTransport(load({}, path=admin), RealClock(), Random())
    try:
        client = Client(transport)
        for kind, document in documents(queue):
            await client.create(kind.seen_as(dict), document, document["metadata"]["namespace"])
        for user in _ROLES:
            path = SERVICE_ACCOUNT.path("default", user, "token")
            answer = await client.raw(Request("POST", path, body=b'{"spec": {}}'))
            _write_kubeconfig(folder / user, admin, json.loads(answer.body)["status"]["token"])
    finally:
        await transport.close()
    return Users(folder, queue)


def _write_kubeconfig(file: Path, of_admin: Path, token: str) -> None:
    document = yaml.safe_load(of_admin.read_text())
    document["users"] = [{"name": one["name"], "user": {"token": token}} for one in document["users"]]
    for one in document["clusters"]:
        if authority := one["cluster"].get("certificate-authority"):
            one["cluster"]["certificate-authority"] = str(of_admin.parent / authority)
    file.write_text(json.dumps(document))


@dataclass(frozen=True)
class Users:
    """Their kubeconfigs, in a folder, for a cluster with this queue."""

    folder: Path
    queue: str

    def check(self, case: Case) -> None:
        """That the command ends so, and says each thing that is missing in one line, with whom to ask."""
        manifest = self.folder / "second.json"
        manifest.write_text(json.dumps(job("second", self.queue)))
        words = case.command.replace("QUEUE", self.queue).replace("MANIFEST", str(manifest)).split()
        environment = {"MUSTER_HOME": str(self.folder), "KUBECONFIG": str(self.folder / case.user)}
        done = CliRunner(env=environment).invoke(cli, words)
        said = [line for line in done.output.splitlines() if "; ask the administrator of" in line]
        wanted = [text.replace("QUEUE", self.queue) for text in case.missing]
        assert [text for text in wanted if not any(text in line for line in said)] == [], done.output
        assert (len(said), done.exit_code) == (len(wanted), case.code), done.output
        assert case.shows in done.stdout, done.output
        assert "Traceback" not in done.output
