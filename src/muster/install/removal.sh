#!/bin/sh
# Removes Muster from the cluster that kubectl speaks to, and leaves no job that nothing would start or finish:
#
#     muster manifests --uninstall | sh
#
# with the --namespace and --config of the installation. It stops where something still needs the engine, says what, and
# may be run again. What was installed goes by its name, and nothing else. To go on with Kueue do not run it, but
# `muster handback`: Kueue takes over queues, quota and jobs as they are.
set -eu

# Ask for no objects of a kind that the cluster does not have.
kinds="$(kubectl get customresourcedefinitions -o name)"
installed() {
  printf '%s\n' "$kinds" | grep -qx "customresourcedefinition.apiextensions.k8s.io/$1"
}

delete_all() {
  if installed "$1"; then kubectl delete "$@" --all --timeout=120s; fi
}

remove() {
  kubectl delete "$@" --ignore-not-found --timeout=120s
}

# Who renews the Lease $1/$2 while this looks at it: times in it are of another clock. For one that is free, or has run
# out, a standby asks within $3 s.
lease() {
  kubectl get leases.coordination.k8s.io -n "$1" "$2" --ignore-not-found \
    -o jsonpath='{.spec.holderIdentity} {.spec.renewTime} {.spec.leaseDurationSeconds}'
}
renewer() {
  before="$(lease "$@")"
  case "$before" in
    "") seconds=0 ;;
    " "*) seconds="$3" ;;
    *) seconds=$((${before##* } + $3)) ;;
  esac
  # However long a Lease says that it lasts: who works renews it sooner.
  if [ "$seconds" -gt 120 ]; then seconds=120; fi
  if [ "$seconds" -gt 0 ]; then printf 'is the lease %s/%s in use? up to %s s\n' "$1" "$2" "$seconds" >&2; fi
  while [ "$seconds" -gt 0 ]; do
    sleep @LOOK_SECONDS@
    seconds=$((seconds - @LOOK_SECONDS@))
    now="$(lease "$@")"
    if [ "$now" != "$before" ] && [ -n "${now%% *}" ]; then
      printf '%s' "${now%% *}" | tr -d '[:cntrl:]'
      return
    fi
  done
}

needs_the_engine() {
  if installed workloads.kueue.x-k8s.io; then
    kubectl get workloads.kueue.x-k8s.io -A -o go-template='{{range .items}}{{$ended := false}}{{with .status}}{{range .conditions}}{{if and (eq .type "Finished") (eq .status "True")}}{{$ended = true}}{{end}}{{end}}{{end}}{{if not $ended}}  workload {{.metadata.namespace}}/{{.metadata.name}}{{range .metadata.ownerReferences}} of {{.kind}} {{.name}}{{end}}{{"\n"}}{{end}}{{end}}'
  fi
  if installed jobsets.jobset.x-k8s.io && [ -z "$others_run_jobsets" ]; then
    kubectl get jobsets.jobset.x-k8s.io -A -o go-template='{{range .items}}{{$left := false}}{{with .status}}{{if .terminalState}}{{$left = true}}{{end}}{{end}}@JOBSETS_OF_OTHERS@{{if not $left}}  jobset {{.metadata.namespace}}/{{.metadata.name}}{{"\n"}}{{end}}{{end}}'
  fi
  for scheduler in @SCHEDULERS@; do
    kubectl get pods -A --field-selector "spec.schedulerName=$scheduler,spec.nodeName=,status.phase=Pending" \
      -o go-template='{{range .items}}  pod {{.metadata.namespace}}/{{.metadata.name}} waits for a node{{"\n"}}{{end}}'
  done
# @if podgroups
  for kind in @POD_GROUPS@; do
    if installed "$kind"; then kubectl get "$kind" -A -o go-template='{{range .items}}  podgroup {{.metadata.namespace}}/{{.metadata.name}} would go with its kind{{"\n"}}{{end}}'; fi
  done
# @end
}

# @if elected
# Whether the holder $1 of the Lease is a pod of the engine that this script removes.
is_installed() {
  pod="${1#@OURS@}"
  kubectl get pods -n @NAMESPACE@ -l @ENGINE_PODS@ -o name | grep -qxF "pod/${pod%_*}"
}
stop_for_engine_outside() {
  printf 'an engine that this script does not remove goes on, as %s: stop it, and run this again%s\n' "$1" "$2" >&2
  exit 1
}
# @end

stop_if_needed() {
  left="$(needs_the_engine)"
  if [ -z "$left" ]; then return; fi
  printf 'the engine is still needed:\n%s\n%s\n' "$left" "$1" >&2
  exit 1
}

# 0. The cluster has no engine of its own, and Muster's is where this script looks for it.
if kubectl get --raw /version | grep -q '@SERVER_MARK@'; then
  printf 'this is a cluster of muster up, which has an engine of its own; nothing has been removed\n' >&2
  exit 1
fi
elsewhere="$(kubectl get deployments -A --field-selector metadata.name=@ENGINE@ \
  -o go-template='{{range .items}}{{if ne .metadata.namespace "@NAMESPACE@"}}{{.metadata.namespace}} {{end}}{{end}}')"
if [ -n "$elsewhere" ]; then
  printf 'the engine is in another namespace: %s\n' "$elsewhere" >&2
  printf 'say it by --namespace, or by the --config of the installation; nothing has been removed\n' >&2
  exit 1
fi

# @if elected
# An engine outside of the cluster may lead while the installed replicas stand by.
holder="$(lease @LEASE_NAMESPACE@ @LEASE@)"
holder="${holder%% *}"
if [ -n "$holder" ] && ! is_installed "$holder"; then
  outside="$(renewer @LEASE_NAMESPACE@ @LEASE@ @LEASE_SECONDS@)"
  if [ -n "$outside" ] && ! is_installed "$outside"; then
    stop_for_engine_outside "$outside" "; nothing has been removed"
  fi
fi
# @end

others_run_jobsets=
# @if left jobsets
# JobSets need the engine no more than Jobs do while JobSet's own controller works: it holds its Lease, and renews it.
others_run_jobsets="$(renewer @JOBSET_NAMESPACE@ @JOBSET_LEASE@ @JOBSET_SECONDS@)"
if [ -n "$others_run_jobsets" ]; then
  printf "JobSets are left: JobSet's own controller runs them, as %s\n" "$others_run_jobsets" >&2
fi
# @end

# 1. A job that waits would wait for ever, a JobSet would stop half way. Wait for them to end, delete them, or take a
#    waiting Job out of its queue (kubectl label job NAME kueue.x-k8s.io/queue-name-) and start it without quota
#    (kubectl patch job NAME -p '{"spec":{"suspend":false}}').
stop_if_needed "wait for them to end, or delete them; nothing has been removed"

# 2. The queues, while the engine runs: it lets none go whose quota is in use. Then what came in the meantime.
@DELETE_QUEUES@
stop_if_needed "they came while the queues were removed: delete them, or apply the queues again and wait"

# 3. What the engine keeps of jobs that have ended, and all else that it has to let go.
@DELETE_THE_REST@

# 4. The API server asks no webhook any more.
@REMOVE_WEBHOOKS@

# 5. The engine.
@REMOVE_THE_ENGINE@
# @if elected
# One outside of the cluster may have stood by, and lead now: the kinds would go under its hands.
outside="$(renewer @LEASE_NAMESPACE@ @LEASE@ @LEASE_SECONDS@)"
if [ -n "$outside" ]; then stop_for_engine_outside "$outside" ""; fi
# @end

# 6. The kinds, with all objects of them: these have ended. JobSet and PodGroups may be other programs' too: their
#    definitions go only if they are named (--kinds jobset, --kinds podgroups).
@REMOVE_KINDS@

# 7. The rights, the settings and all else that was installed.
@REMOVE_INSTALLED@
# Accounts of managers in other clusters, and what they may do here (muster cluster invite): no engine serves them.
kubectl delete rolebindings,clusterrolebindings,clusterroles,serviceaccounts -A -l @INVITATION_LABEL@ \
  --ignore-not-found --timeout=120s

# 8. The namespace with all that is in it, the Secrets of worker clusters too, unless others work there.
others="$(kubectl get deployments,statefulsets,daemonsets,cronjobs,jobs,persistentvolumeclaims \
  -n @NAMESPACE@ -o name)"
if [ -z "$others" ]; then
  remove namespace @NAMESPACE@
else
  printf 'namespace @NAMESPACE@ stays with its Secrets, as others are there:\n%s\n' "$others" >&2
fi
