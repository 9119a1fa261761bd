"""Write `removal.sh`, a script that administrators read and `sh` runs, which removes an installation.

Each step removes objects that no remaining object needs. The engine is removed after the objects whose finalizers it
must remove. The webhook configurations are removed before the engine, because the API server refuses writes while it
cannot reach a webhook. Installed objects are removed by name only, because other programs may use the labels. Objects
made by `muster cluster invite` are removed by a label that only Muster uses.
"""

import re
from collections.abc import Callable, Iterable
from importlib import resources
from itertools import groupby
from math import ceil
from typing import Any, Final

from msgspec.structs import replace

from muster.api.config.types import IdentityHeaders, LeaderElection
from muster.api.jobset.names import CONTROLLER_NAME
from muster.api.kinds import Kind
from muster.api.kueue import CLUSTER_QUEUE, KUEUE_KINDS, LOCAL_QUEUE, WORKLOAD
from muster.api.ours.embedded import SERVER_MARK
from muster.api.ours.invitations import INVITATION_LABEL
from muster.api.podgroups import POD_GROUP_KINDS
from muster.api.values.durations import SECOND
from muster.controllers.jobset.upstream import LEASE_NAME
from muster.install.dashboard import impersonation_documents
from muster.install.documents import make_documents
from muster.install.options import NAME, SELECTED, Json, Options
from muster.operator.precedence import OURS, beside_others

# These are deleted first and in this order, because they use others; the other kinds one by one.
_FIRST: Final = (LOCAL_QUEUE, CLUSTER_QUEUE)
# The API server calls the engine because of these kinds.
_ASKING: Final = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "APIService")
# These kinds are removed in steps of their own.
_APART: Final = (*_ASKING, "Deployment", "CustomResourceDefinition", "Namespace")

_OTHERS_JOBSETS: Final = (
    f'{{{{with .spec.managedBy}}}}{{{{if ne . "{CONTROLLER_NAME}"}}}}{{{{$left = true}}}}{{{{end}}}}{{{{end}}}}'
)
# The interval at which the Lease is read.
_LOOK_SECONDS: Final = 2
# A standby tries to take a free Lease after one to this many further retry periods (client-go's JitterFactor).
_JITTER: Final = 1.2
_TEMPLATE: Final = resources.files("muster.install") / "removal.sh"
# `# @if WORD` to `# @end`: lines for some installations only.
_OPTIONAL: Final = re.compile(r"^# @if (.+)\n((?:.*\n)*?)# @end\n", re.MULTILINE)
_PLACE: Final = re.compile(r"@([A-Z_]+)@")


def make_removal_script(options: Options) -> str:
    """Return the shell script that removes an installation with these options.

    `options.kinds` are the kinds whose definitions are removed, with all their objects. Raises `BadAddressError`.
    """
    takes_jobsets = "jobset" in options.kinds  # also if another controller manages JobSets
    rest = [kind for kind in KUEUE_KINDS if kind not in (*_FIRST, WORKLOAD)]
    election = options.settings.leader_election
    # Include objects that may have been installed earlier, because deleting absent objects does no harm: webhooks, and
    # the dashboard's right to act as other users.
    installed = make_documents(replace(options, webhooks=True))
    if options.settings.muster.dashboard.identity_headers is None or not options.dashboard:
        installed += impersonation_documents(options.namespace, IdentityHeaders())
    wanted = {
        "podgroups": "podgroups" in options.kinds,
        "left jobsets": not takes_jobsets,
        "elected": election.leader_elect,
    }
    values = {
        "DELETE_QUEUES": _make_deletions(_FIRST),
        "DELETE_THE_REST": _make_deletions([WORKLOAD, *rest]),
        "ENGINE": NAME,
        "ENGINE_PODS": ",".join(f"{key}={value}" for key, value in SELECTED.items()),
        "INVITATION_LABEL": INVITATION_LABEL,
        "JOBSETS_OF_OTHERS": "" if takes_jobsets else _OTHERS_JOBSETS,
        "JOBSET_LEASE": LEASE_NAME,
        "JOBSET_NAMESPACE": options.settings.muster.job_set_namespace,
        "JOBSET_SECONDS": str(_compute_takeover_seconds(LeaderElection())),
        "LEASE": election.resource_name,
        "LEASE_NAMESPACE": options.lease_namespace,
        "LEASE_SECONDS": str(_compute_takeover_seconds(election)),
        "LOOK_SECONDS": str(_LOOK_SECONDS),
        "NAMESPACE": options.namespace,
        "OURS": OURS,
        "POD_GROUPS": " ".join(kind.resource for kind in POD_GROUP_KINDS),
        "REMOVE_INSTALLED": _make_removals(installed, lambda kind: kind not in _APART),
        "REMOVE_KINDS": _make_removals(installed, lambda kind: kind == "CustomResourceDefinition"),
        "REMOVE_THE_ENGINE": _make_removals(installed, lambda kind: kind == "Deployment", " --cascade=foreground"),
        "REMOVE_WEBHOOKS": _make_removals(installed, lambda kind: kind in _ASKING),
        "SCHEDULERS": " ".join(beside_others(options.settings).muster.scheduling.scheduler_names),
        "SERVER_MARK": SERVER_MARK,
    }
    text = _OPTIONAL.sub(lambda match: match[2] if wanted[match[1]] else "", _TEMPLATE.read_text())
    return _PLACE.sub(lambda match: values[match[1]], text)


def _compute_takeover_seconds(election: LeaderElection) -> int:
    """Return the seconds within which a standby replica takes a free Lease, rounded up."""
    return ceil((1 + _JITTER) * election.retry_period / SECOND) + _LOOK_SECONDS


def _make_deletions(kinds: Iterable[Kind[Any]]) -> str:
    return "\n".join(f"delete_all {kind.resource}{' -A' if kind.namespaced else ''}" for kind in kinds)


def _make_removals(installed: Iterable[Json], wanted: Callable[[str], bool], how: str = "") -> str:
    """Return the commands that delete the installed objects of the wanted kinds, dependents first.

    Objects of one kind are deleted in the order of the documents. An aggregating ClusterRole comes first, because the
    cluster writes it whenever one of its parts changes, and would create it again.

    how: further arguments of the commands.
    """
    groups = groupby((each for each in installed if wanted(each["kind"])), key=_make_kubectl_arguments)
    lines = [
        f"remove {kind}{place}{how}" + "".join(f" \\\n  {each['metadata']['name']}" for each in several)
        for (kind, place), several in groups
    ]
    return "\n".join(reversed(lines))


def _make_kubectl_arguments(document: Json) -> tuple[str, str]:
    """Return an object's kind, with its group, and its namespace, as arguments for kubectl.

    The group is needed because other groups may have a kind of that name.
    """
    group = document["apiVersion"].rpartition("/")[0]
    namespace = document["metadata"].get("namespace")
    kind = f"{document['kind'].lower()}.{group}".removesuffix(".")
    return kind, f" -n {namespace}" if namespace else ""
