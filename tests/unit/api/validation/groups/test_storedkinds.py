"""Rules of the kinds that are only stored: good ones pass, and each rule names what breaks it."""

import copy
from typing import Any

import msgspec
import pytest

from muster.api import (
    core,
)
from muster.api.batch import CRON_JOB
from muster.api.defaults import DEFAULTS
from muster.api.groups import (
    apps,
    autoscaling_v2,
    discovery,
    networking,
    policy,
    runtimeclass,
    storage,
)
from muster.api.kinds import Kind
from muster.api.server import (
    apiregistration,
)
from muster.api.validation.groups import apps as app_rules
from muster.api.validation.groups import networking as network_rules
from muster.api.validation.groups import nodes as node_rules
from muster.api.validation.groups import scaling
from muster.api.validation.groups import storage as storage_rules
from muster.api.validation.server import apiservice as api_service_rules
from muster.api.validation.standard import Standard

META = {"name": "x", "namespace": "default"}
POD = {"containers": [{"name": "c", "image": "i"}]}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": POD}
RUNNING = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
PATH = {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"number": 80}}}}
SERVED = {"group": "a.b", "version": "v1", "groupPriorityMinimum": 20000, "versionPriority": 1000}

GOOD: dict[str, tuple[Kind[Any], Standard, dict[str, Any]]] = {
    "deployment": (apps.DEPLOYMENT, app_rules.DEPLOYMENT, {"spec": RUNNING}),
    "replicaset": (apps.REPLICA_SET, app_rules.REPLICA_SET, {"spec": RUNNING}),
    "statefulset": (
        apps.STATEFUL_SET,
        app_rules.STATEFUL_SET,
        {"spec": RUNNING | {"serviceName": "s", "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": CLAIM}],
         "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i",
         "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]}}}},
    ),
    "daemonset": (apps.DAEMON_SET, app_rules.DAEMON_SET, {"spec": RUNNING}),
    "rc": (core.REPLICATION_CONTROLLER, app_rules.REPLICATION_CONTROLLER, {"spec": {"template": TEMPLATE}}),
    "cronjob": (
        CRON_JOB,
        app_rules.CRON_JOB,
        {
            "spec": {
                "schedule": "*/5 1-3 * JAN MON",
                "timeZone": "Etc/UTC",
                "jobTemplate": {"spec": {"template": {"spec": POD | {"restartPolicy": "Never"}}}},
            }
        },
    ),
    "claim": (core.PERSISTENT_VOLUME_CLAIM, storage_rules.PERSISTENT_VOLUME_CLAIM, {"spec": CLAIM}),
    "volume": (
        core.PERSISTENT_VOLUME,
        storage_rules.PERSISTENT_VOLUME,
        {"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "nfs": {"server": "s",
         "path": "/"}}},
    ),
    "class": (storage.STORAGE_CLASS, storage_rules.STORAGE_CLASS, {"provisioner": "p"}),
    "policy": (
        networking.NETWORK_POLICY,
        network_rules.NETWORK_POLICY,
        {"spec": {"ingress": [{"from": [{"podSelector": {}}], "ports": [{"port": 80, "endPort": 90}]}]}},
    ),
    "ingress": (networking.INGRESS, network_rules.INGRESS, {"spec": {"rules": [{"host": "*.a.b",
     "http": {"paths": [PATH]}}]}}),
    "ingressclass": (networking.INGRESS_CLASS, network_rules.INGRESS_CLASS, {"spec": {"controller": "a/b"}}),
    "endpoints": (
        core.ENDPOINTS,
        network_rules.ENDPOINTS,
        {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]},
    ),
    "slice": (
        discovery.ENDPOINT_SLICE,
        network_rules.ENDPOINT_SLICE,
        {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]},
    ),
    "autoscaler": (
        autoscaling_v2.HORIZONTAL_POD_AUTOSCALER,
        scaling.AUTOSCALER,
        {"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "maxReplicas": 3}},
    ),
    "budget": (policy.POD_DISRUPTION_BUDGET, scaling.DISRUPTION_BUDGET, {"spec": {"minAvailable": "50%"}}),
    "runtimeclass": (runtimeclass.RUNTIME_CLASS, node_rules.RUNTIME_CLASS, {"handler": "h"}),
    "apiservice": (
        apiregistration.API_SERVICE,
        api_service_rules.API_SERVICE,
        {"metadata": {"name": "v1.a.b"}, "spec": SERVED | {"service": {"namespace": "n", "name": "s"}}},
    ),
    "core": (
        apiregistration.API_SERVICE,
        api_service_rules.API_SERVICE,
        {"metadata": {"name": "v1."}, "spec": SERVED | {"group": ""}},
    ),
}  # fmt: skip


def made(name: str, path: str = "", value: Any = None) -> Any:
    """The good object of that name, with its defaults; at the path there is the value, or nothing."""
    kind, rules, document = GOOD[name]
    document = copy.deepcopy(document)
    document.setdefault("metadata", META if rules.namespaced else {"name": "x"})
    if path:
        *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        place: Any = document
        for part in parents:
            place = place[part] if isinstance(part, int) else place.setdefault(part, {})
        if value is None:
            del place[last]
        else:
            place[last] = value
    DEFAULTS.get(kind.resource, lambda _: None)(document)
    return msgspec.convert(document, kind.type)


@pytest.mark.parametrize("name", GOOD)
def test_good(name: str) -> None:
    rules = GOOD[name][1]
    assert rules.create(made(name)) == []
    assert rules.update(made(name), made(name)) == []
    assert rules.update_status(made(name), made(name)) == []


BAD: list[tuple[str, str, Any, str, str]] = [
    ("deployment", "spec.selector", None, "spec.selector", ""),
    ("deployment", "spec.selector", {}, "spec.selector", "empty selector is invalid for deployment"),
    ("deployment", "spec.selector.matchLabels.a", "c", "spec.template.metadata.labels",
     "`selector` does not match template `labels`"),
    ("deployment", "spec.replicas", -1, "spec.replicas", "must be greater than or equal to 0"),
    ("deployment", "spec.strategy", {"type": "Other"}, "spec.strategy.type",
     'supported values: "Recreate", "RollingUpdate"'),
    ("deployment", "spec.strategy", {"type": "Recreate", "rollingUpdate": {}}, "spec.strategy.rollingUpdate",
     "may not be specified when strategy `type` is 'Recreate'"),
    ("deployment", "spec.progressDeadlineSeconds", 0, "spec.progressDeadlineSeconds",
     "must be greater than minReadySeconds"),
    ("deployment", "spec.template.spec.restartPolicy", "Never", "spec.template.spec.restartPolicy",
     'supported values: "Always"'),
    ("deployment", "spec.template.spec.activeDeadlineSeconds", 5, "spec.template.spec.activeDeadlineSeconds",
     "activeDeadlineSeconds in ReplicaSet is not Supported"),
    ("statefulset", "spec.podManagementPolicy", "Other", "spec.podManagementPolicy",
     "must be 'OrderedReady' or 'Parallel'"),
    ("statefulset", "spec.volumeClaimTemplates", [], "spec.template.spec.containers[0].volumeMounts[0].name", ""),
    ("statefulset", "spec.ordinals", {"start": -1}, "spec.ordinals.start", "must be greater than or equal to 0"),
    ("daemonset", "spec.updateStrategy", {"type": "Other"}, "spec.updateStrategy.type",
     'supported values: "RollingUpdate", "OnDelete"'),
    ("rc", "spec.selector", {"a": "c"}, "spec.template.metadata.labels", "`selector` does not match template `labels`"),
    ("rc", "spec.template", None, "spec.selector", ""),
    ("cronjob", "spec.schedule", None, "spec.schedule", ""),
    ("cronjob", "spec.schedule", "* * *", "spec.schedule", "expected exactly 5 fields, found 3: [* * *]"),
    ("cronjob", "spec.schedule", "* * * * 7", "spec.schedule", "end of range (7) above maximum (6): 7"),
    ("cronjob", "spec.schedule", "@never", "spec.schedule", "unrecognized descriptor: @never"),
    ("cronjob", "spec.schedule", "TZ=UTC * * * * *", "spec.schedule",
     "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"),
    ("cronjob", "spec.timeZone", "", "spec.timeZone", "timeZone must be nil or non-empty string"),
    ("cronjob", "spec.timeZone", "Local", "spec.timeZone",
     "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"),
    ("cronjob", "spec.timeZone", "Mars/Base", "spec.timeZone", "unknown time zone Mars/Base"),
    ("cronjob", "spec.timeZone", "../x", "spec.timeZone", "unknown time zone ../x"),
    ("cronjob", "spec.concurrencyPolicy", "Other", "spec.concurrencyPolicy",
     'supported values: "Allow", "Forbid", "Replace"'),
    ("claim", "spec.accessModes", [], "spec.accessModes", "at least 1 access mode is required"),
    ("claim", "spec.resources", {}, "spec.resources[storage]", ""),
    ("volume", "spec.capacity", {}, "spec.capacity", ""),
    ("volume", "spec.capacity", {"cpu": 1}, "spec.capacity", 'supported values: "storage"'),
    ("volume", "spec.nfs", None, "spec", "must specify a volume type"),
    ("volume", "spec.hostPath", {"path": "/"}, "spec.nfs", "may not specify more than 1 volume type"),
    ("volume", "spec.persistentVolumeReclaimPolicy", "Keep", "spec.persistentVolumeReclaimPolicy",
     'supported values: "Delete", "Recycle", "Retain"'),
    ("class", "provisioner", None, "provisioner", ""),
    ("class", "reclaimPolicy", "Recycle", "reclaimPolicy", 'supported values: "Delete", "Retain"'),
    ("policy", "spec.policyTypes", ["Other"], "spec.policyTypes[0]", 'supported values: "Egress", "Ingress"'),
    ("policy", "spec.ingress.0.ports.0.endPort", 70, "spec.ingress[0].ports[0].endPort",
     "must be greater than or equal to `port`"),
    ("policy", "spec.ingress.0.ports.0.port", "web", "spec.ingress[0].ports[0].endPort",
     "may not be specified when `port` is non-numeric"),
    ("policy", "spec.ingress.0.from", [{}], "spec.ingress[0].from[0]", "must specify a peer"),
    ("policy", "spec.ingress.0.from", [{"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}}],
     "spec.ingress[0].from[0]",
     "may not specify both ipBlock and another peer"),
    ("policy", "spec.ingress.0.from", [{"ipBlock": {"cidr": "x"}}], "spec.ingress[0].from[0].ipBlock.cidr",
     "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
    ("ingress", "spec.rules", None, "spec", "either `defaultBackend` or `rules` must be specified"),
    ("ingress", "spec.rules.0.http.paths.0.pathType", None, "spec.rules[0].http.paths[0].pathType",
     "pathType must be specified"),
    ("ingress", "spec.rules.0.http.paths.0.path", "x", "spec.rules[0].http.paths[0].path", "must be an absolute path"),
    ("ingress", "spec.rules.0.http.paths.0.backend", {}, "spec.rules[0].http.paths[0].backend",
     "`service` or `resource` is required"),
    ("ingress", "spec.rules.0.http.paths.0.backend.service.port", {}, "spec.rules[0].http.paths[0].backend",
     "port name or number is required"),
    ("ingressclass", "spec.controller", None, "spec.controller", ""),
    ("endpoints", "subsets.0.addresses", [], "subsets[0]", "must specify `addresses` or `notReadyAddresses`"),
    ("slice", "addressType", None, "addressType", ""),
    ("slice", "endpoints", [{}], "endpoints[0].addresses", "must contain at least 1 address"),
    ("autoscaler", "spec.maxReplicas", 0, "spec.maxReplicas", "must be greater than 0"),
    ("autoscaler", "spec.minReplicas", 4, "spec.maxReplicas", "must be greater than or equal to `minReplicas`"),
    ("autoscaler", "spec.scaleTargetRef.name", None, "spec.scaleTargetRef.name", ""),
    ("autoscaler", "spec.metrics", [{"type": "ContainerResource"}], "spec.metrics[0].containerResource",
     "must populate information for the given metric source"),
    ("budget", "spec.maxUnavailable", 1, "spec", "minAvailable and maxUnavailable cannot be both set"),
    ("budget", "spec.minAvailable", "many", "spec.minAvailable",
     "a valid percent string must be a numeric string followed by an ending '%'"),
    ("budget", "spec.minAvailable", "101%", "spec.minAvailable", "must not be greater than 100%"),
    ("runtimeclass", "handler", "A_B", "handler", ""),
    ("apiservice", "metadata.name", "x", "metadata.name", 'must be `spec.version+"."+spec.group`: "v1.a.b"'),
    ("core", "metadata.name", "a/b", "metadata.name", "may not contain '/'"),
    ("core", "spec.version", "v2", "spec.group", "only v1 may have an empty group and it better be legacy kube"),
    ("apiservice", "spec.group", "A", "spec.group", ""),
    ("apiservice", "spec.version", "1", "spec.version", ""),
    ("apiservice", "spec.groupPriorityMinimum", 20001, "spec.groupPriorityMinimum",
     "must be positive and less than 20000"),
    ("apiservice", "spec.versionPriority", 0, "spec.versionPriority", "must be positive and less than 1000"),
    ("core", "spec.caBundle", "eA==", "spec.caBundle", "local APIServices may not have a caBundle"),
    ("core", "spec.insecureSkipTLSVerify", True, "spec.insecureSkipTLSVerify",
     "local APIServices may not have insecureSkipTLSVerify"),
    ("apiservice", "spec.service", {"name": "s"}, "spec.service.namespace", ""),
    ("apiservice", "spec.service", {"namespace": "n"}, "spec.service.name", ""),
    ("apiservice", "spec.service.port", 65536, "spec.service.port",
     "port is not valid: must be between 1 and 65535, inclusive"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "path", "value", "where", "detail"), BAD)
def test_bad(name: str, path: str, value: Any, where: str, detail: str) -> None:
    errors = GOOD[name][1].create(made(name, path, value))
    assert where in [error.path for error in errors]
    assert detail in [error.detail for error in errors if error.path == where] or not detail


CHANGES: list[tuple[str, str, Any, str]] = [
    ("deployment", "spec.replicas", 5, ""),
    ("deployment", "spec.selector.matchExpressions", [{"key": "a", "operator": "Exists"}], "spec.selector"),
    ("statefulset", "spec.replicas", 5, ""),
    ("statefulset", "spec.serviceName", "other", "spec"),
    ("class", "provisioner", "other", "provisioner"),
    ("class", "reclaimPolicy", "Retain", "reclaimPolicy"),
    ("class", "parameters", {"a": "b"}, "parameters"),
    ("claim", "spec.volumeName", "v", ""),
    ("claim", "spec.accessModes", ["ReadOnlyMany"], "spec"),
    ("volume", "spec.nfs.path", "/other", "spec.persistentvolumesource"),
    ("volume", "spec.claimRef", {"name": "c"}, ""),
    ("ingressclass", "spec.controller", "c/d", "spec.controller"),
    ("slice", "addressType", "IPv6", "addressType"),
    ("runtimeclass", "handler", "other", "handler"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "path", "value", "where"), CHANGES)
def test_changes(name: str, path: str, value: Any, where: str) -> None:
    errors = GOOD[name][1].update(made(name, path, value), made(name))
    assert [error.path for error in errors] == ([where] if where else [])


def test_a_bound_claim_may_grow() -> None:
    rules = storage_rules.PERSISTENT_VOLUME_CLAIM
    bound = msgspec.structs.replace(made("claim"), status=core.PersistentVolumeClaimStatus(phase="Bound"))
    grown = made("claim", "spec.resources.requests.storage", "2Gi")
    assert rules.update(grown, bound) == []
    [error] = rules.update(bound, msgspec.structs.replace(grown, status=bound.status))
    assert error.path == "spec.resources.requests.storage"


def test_a_volume_may_be_written_again_by_a_client_that_leaves_zeroes_out() -> None:
    def volume(**source: Any) -> Any:
        spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "csi": source}
        metadata = {"name": "v", "uid": "u", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
        document = {"metadata": metadata, "spec": spec}
        DEFAULTS[core.PERSISTENT_VOLUME.resource](document)
        return core.PERSISTENT_VOLUME.typed(document)

    rules = storage_rules.PERSISTENT_VOLUME
    old = volume(
        driver="d", volumeHandle="h", readOnly=False, controllerPublishSecretRef={"name": "s", "namespace": ""}
    )
    same = volume(driver="d", volumeHandle="h", controllerPublishSecretRef={"name": "s"})
    assert rules.update(same, old) == []
    [error] = rules.update(volume(driver="d", volumeHandle="h", readOnly=True), old)
    assert error.path == "spec.persistentvolumesource"
