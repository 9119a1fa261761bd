"""How an installation is removed: a script that people read and `sh` runs. Pure.

Each step may be taken once nothing needs any more what it removes. The engine goes after the objects that wait for it
to let them go, and the webhooks before it: a server that asks none refuses nothing. What was installed goes by its
name, and nothing else: others may use the labels.
"""

from collections.abc import Callable, Iterable
from itertools import groupby
from math import ceil
from typing import Any, Final

from msgspec.structs import replace

from muster.api.config.types import LeaderElection
from muster.api.groups.coordination import LEASE
from muster.api.jobset import JOB_SET
from muster.api.jobset.names import CONTROLLER_NAME
from muster.api.kinds import Kind
from muster.api.kueue import CLUSTER_QUEUE, KUEUE_KINDS, LOCAL_QUEUE, WORKLOAD
from muster.api.podgroups import POD_GROUP_KINDS
from muster.api.values.durations import SECOND
from muster.controllers.jobset.upstream import LEASE_NAME
from muster.install.documents import documents
from muster.install.options import NAME, Json, Options
from muster.operator.precedence import beside_others

# What uses others goes before them; each of the rest by itself.
_FIRST: Final = (LOCAL_QUEUE, CLUSTER_QUEUE)
# By these the API server asks the engine.
_ASKING: Final = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "APIService")
# These have steps of their own.
_APART: Final = (*_ASKING, "Deployment", "CustomResourceDefinition", "Namespace")

_UNFINISHED: Final = (
    "{{range .items}}{{$ended := false}}{{with .status}}{{range .conditions}}"
    '{{if and (eq .type "Finished") (eq .status "True")}}{{$ended = true}}{{end}}{{end}}{{end}}'
    "{{if not $ended}}  workload {{.metadata.namespace}}/{{.metadata.name}}"
    '{{range .metadata.ownerReferences}} of {{.kind}} {{.name}}{{end}}{{"\\n"}}{{end}}{{end}}'
)
_JOBSETS: Final = (
    "{{range .items}}{{$left := false}}{{with .status}}{{if .terminalState}}{{$left = true}}{{end}}{{end}}%s"
    '{{if not $left}}  jobset {{.metadata.namespace}}/{{.metadata.name}}{{"\\n"}}{{end}}{{end}}'
)
_OTHERS_JOBSETS: Final = (
    f'{{{{with .spec.managedBy}}}}{{{{if ne . "{CONTROLLER_NAME}"}}}}{{{{$left = true}}}}{{{{end}}}}{{{{end}}}}'
)
_PODS: Final = '{{range .items}}  pod {{.metadata.namespace}}/{{.metadata.name}} waits for a node{{"\\n"}}{{end}}'

_POD_GROUPS: Final = (
    '{{range .items}}  podgroup {{.metadata.namespace}}/{{.metadata.name}} would go with its kind{{"\\n"}}{{end}}'
)
# A Lease is looked at so often.
_LOOK_SECONDS: Final = 2
# However long a Lease says that it lasts: who works renews it sooner.
_MOST_SECONDS: Final = 120
# A standby asks for a free Lease after one to so many retry periods more (client-go's JitterFactor, and ours).
_JITTER: Final = 1.2
_ELSEWHERE: Final = '{{range .items}}{{if ne .metadata.namespace "%s"}}{{.metadata.namespace}} {{end}}{{end}}'


def removal(options: Options) -> str:
    """The script. options.kinds: whose definitions go, with all objects of them.

    Raises `BadAddressError`.
    """
    schedulers = " ".join(beside_others(options.settings).muster.scheduling.scheduler_names)
    takes_jobsets = "jobset" in options.kinds  # whichever controller runs them
    rest = [kind for kind in KUEUE_KINDS if kind not in (*_FIRST, WORKLOAD)]
    # With webhooks: they may have been installed before, and what is not there is no harm.
    installed = documents(replace(options, webhooks=True))
    return f"""\
#!/bin/sh
# Removes Muster from the cluster that kubectl speaks to, and leaves no job that nothing would start or finish:
#
#     muster manifests --uninstall | sh
#
# with the --namespace and --config of the installation. It stops where something still needs the engine, says what, and
# may be run again. What was installed goes by its name, and nothing else. To go on with Kueue do not run it: steps 4
# and 5 are all that is to be done, and Kueue takes over queues, quota and jobs as they are.
set -eu

# What a cluster has no kind of is not asked for.
kinds="$(kubectl get customresourcedefinitions -o name)"
installed() {{
  printf '%s\\n' "$kinds" | grep -qx "customresourcedefinition.apiextensions.k8s.io/$1"
}}

delete_all() {{
  if installed "$1"; then kubectl delete "$@" --all --timeout=120s; fi
}}

remove() {{
  kubectl delete "$@" --ignore-not-found --timeout=120s
}}

# Who renews the Lease $1/$2 while this looks at it: times in it are of another clock. For one that is free, or has run
# out, a standby asks within $3 s.
lease() {{
  kubectl get {LEASE.resource} -n "$1" "$2" --ignore-not-found \\
    -o jsonpath='{{.spec.holderIdentity}} {{.spec.renewTime}} {{.spec.leaseDurationSeconds}}'
}}
renewer() {{
  before="$(lease "$@")"
  case "$before" in
    "") seconds=0 ;;
    " "*) seconds="$3" ;;
    *) seconds=$((${{before##* }} + $3)) ;;
  esac
  if [ "$seconds" -gt {_MOST_SECONDS} ]; then seconds={_MOST_SECONDS}; fi
  if [ "$seconds" -gt 0 ]; then printf 'is the lease %s/%s in use? up to %s s\\n' "$1" "$2" "$seconds" >&2; fi
  while [ "$seconds" -gt 0 ]; do
    sleep {_LOOK_SECONDS}
    seconds=$((seconds - {_LOOK_SECONDS}))
    now="$(lease "$@")"
    if [ "$now" != "$before" ] && [ -n "${{now%% *}}" ]; then
      printf '%s' "${{now%% *}}" | tr -d '[:cntrl:]'
      return
    fi
  done
}}

needs_the_engine() {{
  if installed {WORKLOAD.resource}; then
    kubectl get {WORKLOAD.resource} -A -o go-template='{_UNFINISHED}'
  fi
  if installed {JOB_SET.resource} && [ -z "$others_run_jobsets" ]; then
    kubectl get {JOB_SET.resource} -A -o go-template='{_JOBSETS % ("" if takes_jobsets else _OTHERS_JOBSETS)}'
  fi
  for scheduler in {schedulers}; do
    kubectl get pods -A --field-selector "spec.schedulerName=$scheduler,spec.nodeName=,status.phase=Pending" \\
      -o go-template='{_PODS}'
  done
{_remaining(POD_GROUP_KINDS) if "podgroups" in options.kinds else ""}}}

stop_if_needed() {{
  left="$(needs_the_engine)"
  if [ -z "$left" ]; then return; fi
  printf 'the engine is still needed:\\n%s\\n%s\\n' "$left" "$1" >&2
  exit 1
}}

# 0. The engine is where this script looks for it.
elsewhere="$(kubectl get deployments -A --field-selector metadata.name={NAME} \\
  -o go-template='{_ELSEWHERE % options.namespace}')"
if [ -n "$elsewhere" ]; then
  printf 'the engine is in another namespace: %s\\n' "$elsewhere" >&2
  printf 'say it by --namespace, or by the --config of the installation; nothing has been removed\\n' >&2
  exit 1
fi

others_run_jobsets=
{"" if takes_jobsets else _left_jobsets(options.settings.muster.job_set_namespace)}
# 1. A job that waits would wait for ever, a JobSet would stop half way. Wait for them to end, delete them, or take a
#    waiting Job out of its queue (kubectl label job NAME kueue.x-k8s.io/queue-name-) and start it without quota
#    (kubectl patch job NAME -p '{{"spec":{{"suspend":false}}}}').
stop_if_needed "wait for them to end, or delete them; nothing has been removed"

# 2. The queues, while the engine runs: it lets none go whose quota is in use. Then what came in the meantime.
{_deletions(_FIRST)}
stop_if_needed "they came while the queues were removed: delete them, or apply the queues again and wait"

# 3. What the engine keeps of jobs that have ended, and all else that it has to let go.
{_deletions([WORKLOAD, *rest])}

# 4. The API server asks no webhook any more.
{_removals(installed, lambda kind: kind in _ASKING)}

# 5. The engine.
{_removals(installed, lambda kind: kind == "Deployment", " --cascade=foreground")}
{_engine_outside(options)}
# 6. The kinds, with all objects of them: these have ended. JobSet and PodGroups may be other programs' too: their
#    definitions go only if they are named (--kinds jobset, --kinds podgroups).
{_removals(installed, lambda kind: kind == "CustomResourceDefinition")}

# 7. The rights, the settings and all else that was installed.
{_removals(installed, lambda kind: kind not in _APART)}

# 8. The namespace with all that is in it, the Secrets of worker clusters too, unless others work there.
others="$(kubectl get deployments,statefulsets,daemonsets,cronjobs,jobs,persistentvolumeclaims \\
  -n {options.namespace} -o name)"
if [ -z "$others" ]; then
  remove namespace {options.namespace}
else
  printf 'namespace {options.namespace} stays with its Secrets, as others are there:\\n%s\\n' "$others" >&2
fi
"""


def _left_jobsets(namespace: str) -> str:
    """What finds out whether JobSet's own controller runs the JobSets."""
    return f"""\
# JobSets need the engine no more than Jobs do while JobSet's own controller works: it holds its Lease, and renews it.
others_run_jobsets="$(renewer {namespace} {LEASE_NAME} {_asks_within(LeaderElection())})"
if [ -n "$others_run_jobsets" ]; then
  printf "JobSets are left: JobSet's own controller runs them, as %s\\n" "$others_run_jobsets" >&2
fi
"""


def _engine_outside(options: Options) -> str:
    """What finds out whether an engine works that is no pod of the cluster."""
    election = options.settings.leader_election
    if not election.leader_elect:
        return ""
    return f"""\
# One that runs outside of the cluster, too: the kinds would go under its hands.
outside="$(renewer {options.lease_namespace} {election.resource_name} {_asks_within(election)})"
if [ -n "$outside" ]; then
  printf 'an engine that is no pod of this cluster goes on, as %s: stop it, and run this again\\n' "$outside" >&2
  exit 1
fi
"""


def _asks_within(election: LeaderElection) -> int:
    """In so many seconds a free Lease has been taken, if a standby is there."""
    return ceil((1 + _JITTER) * election.retry_period / SECOND) + _LOOK_SECONDS


def _deletions(kinds: Iterable[Kind[Any]]) -> str:
    return "\n".join(f"delete_all {kind.resource}{' -A' if kind.namespaced else ''}" for kind in kinds)


def _remaining(kinds: Iterable[Kind[Any]]) -> str:
    """What says which PodGroups would go with their kinds."""
    return f"""\
  for kind in {" ".join(kind.resource for kind in kinds)}; do
    if installed "$kind"; then kubectl get "$kind" -A -o go-template='{_POD_GROUPS}'; fi
  done
"""


def _removals(installed: Iterable[Json], wanted: Callable[[str], bool], how: str = "") -> str:
    """What deletes the objects of those kinds: those that need others before these.

    Of one kind they go in the order in which they came. A ClusterRole that collects others is the first: the cluster
    writes it as often as one of these changes, and would make it anew.
    """
    found = groupby((each for each in installed if wanted(each["kind"])), key=_kind_and_place)
    lines = [
        f"remove {kind}{place}{how}" + "".join(f" \\\n  {each['metadata']['name']}" for each in several)
        for (kind, place), several in found
    ]
    return "\n".join(reversed(lines))


def _kind_and_place(document: Json) -> tuple[str, str]:
    """As kubectl takes them; the group with the kind, for others may have a kind of the same name."""
    group = document["apiVersion"].rpartition("/")[0]
    namespace = document["metadata"].get("namespace")
    kind = f"{document['kind'].lower()}.{group}".removesuffix(".")
    return kind, f" -n {namespace}" if namespace else ""
