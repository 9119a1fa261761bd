"""Rules of pods: a table of edits to a good pod, and every sentence that they give."""

from typing import Any

import pytest

from muster.api.core import POD, Binding, ObjectReference
from muster.api.validation.pods.pod import (
    validate_binding,
    validate_create,
    validate_status_update,
    validate_update,
)

C = "spec.containers.0"
PROBE = {"exec": {"command": ["true"]}}
LIMIT = {"containerName": "main", "resource": "limits.cpu"}
NO_DOTS = "must not contain dots"
UNPRIVILEGED = "Bidirectional mount propagation is available only to privileged containers"


@pytest.fixture
def create(pod: Any, edit: Any, defaulted: Any, sentences: Any) -> Any:
    return lambda edits: sentences(validate_create(defaulted(POD, edit(pod, edits))))


def volume(**source: Any) -> Any:
    return {"spec.volumes": [{"name": "v", **source}]}


GOOD = [
    {},
    {f"{C}.command": None},  # an image has its own; a process node says so in an event
    {f"{C}.ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 53, "protocol": "UDP"}]},
    {f"{C}.env": [{"name": "A", "value": "$(B)"}, {"name": "b.c-d e", "value": ""}]},
    {f"{C}.env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}}]},
    {f"{C}.env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]},
    {f"{C}.env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}}]},
    {f"{C}.envFrom": [{"prefix": "P_", "configMapRef": {"name": "a"}}, {"secretRef": {"name": "b"}}]},
    {f"{C}.resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "nvidia.com/gpu": "1"}}},
    {f"{C}.livenessProbe": {"httpGet": {"port": "http"}}, f"{C}.readinessProbe": {"tcpSocket": {"port": 80}}},
    {f"{C}.startupProbe": {"grpc": {"port": 80}}},
    {f"{C}.lifecycle": {"preStop": {"sleep": {"seconds": 5}}}},
    {"spec.initContainers": [{"name": "i", "image": "a", "restartPolicy": "Always", "livenessProbe": PROBE}]},
    volume(emptyDir={"medium": "Memory", "sizeLimit": "1Gi"}),
    volume(configMap={"name": "a", "items": [{"key": "k", "path": "a/b", "mode": 0o400}]}),
    volume(downwardAPI={"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}),
    volume(downwardAPI={"items": [{"path": "l", "resourceFieldRef": LIMIT}]}),
    volume(csi={"driver": "x"}),
    {"spec.tolerations": [{"operator": "Exists"}, {"key": "a", "value": "b", "effect": "NoExecute",
                                                   "tolerationSeconds": 5}]},
    {"spec.hostNetwork": True, f"{C}.ports": [{"containerPort": 80}]},
    {"spec.schedulingGates": [{"name": "a.b/c"}]},
    {"spec.os": {"name": "linux"}, f"{C}.lifecycle": {"stopSignal": "SIGUSR1"}},
    {"spec.schedulingGroup": {"podGroupName": "g"}},
    {"spec.resources": {"limits": {"cpu": "2"}}, f"{C}.resources": {"limits": {"cpu": "1"}}},
    {"spec.dnsPolicy": "None", "spec.dnsConfig": {"nameservers": ["10.0.0.1"], "searches": ["a_b.c", "."]}},
]  # fmt: skip


@pytest.mark.parametrize("edits", GOOD)
def test_good_pods(create: Any, edits: Any) -> None:
    assert create(edits) == []


BAD = [
    ({"metadata.name": "A"}, ['metadata.name: Invalid value: "A": *']),
    ({"spec.containers": []}, ["spec.containers: Required value"]),
    ({f"{C}.name": None}, [f"{C[:-2]}[0].name: Required value"]),
    ({f"{C}.name": "a.b"}, [f'spec.containers[0].name: Invalid value: "a.b": {NO_DOTS}']),
    ({f"{C}.image": None}, ["spec.containers[0].image: Required value"]),
    ({f"{C}.image": " a"},
     ['spec.containers[0].image: Invalid value: " a": must not have leading or trailing whitespace']),
    ({"spec.containers.1": {"name": "main", "image": "a"}},
     ['spec.containers[1].name: Duplicate value: "main"']),
    ({f"{C}.imagePullPolicy": "Sometimes"},
     [('spec.containers[0].imagePullPolicy: Unsupported value: "Sometimes": '
      'supported values: "Always", "IfNotPresent", "Never"')]),
    ({f"{C}.terminationMessagePolicy": "x"},
     [('spec.containers[0].terminationMessagePolicy: Unsupported value: "x": '
      'supported values: "File", "FallbackToLogsOnError"')]),
    # ports
    ({f"{C}.ports": [{}, {"containerPort": 70000, "hostPort": -1, "protocol": "ICMP", "name": "80"}]},
     ["spec.containers[0].ports[0].containerPort: Required value",
      'spec.containers[0].ports[1].name: Invalid value: "80": must contain at least one letter (a-z)',
      "spec.containers[0].ports[1].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
      "spec.containers[0].ports[1].hostPort: Invalid value: -1: must be between 1 and 65535, inclusive",
      'spec.containers[0].ports[1].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"']),
    ({f"{C}.ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]},
     ['spec.containers[0].ports[1].name: Duplicate value: "a"']),
    ({f"{C}.ports": [{"containerPort": 1, "hostPort": 9}, {"containerPort": 2, "hostPort": 9}]},
     ['spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//9"']),
    ({f"{C}.ports": [{"containerPort": 1, "protocol": ""}], f"{C}.imagePullPolicy": ""}, []),
    # environment
    ({f"{C}.env": [
        {"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v2", "fieldPath": "metadata.name"}}},
        {"name": "A", "valueFrom": {"fieldRef": {}}},
        {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['-']"}}},
        {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.host"}}},
        {"name": "A", "valueFrom": {"resourceFieldRef": {}}},
        {"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "x"}}},
        {"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "3"}}},
        {"name": "A", "valueFrom": {"secretKeyRef": {"name": "a"}}},
        {"name": "A", "valueFrom": {"fileKeyRef": {}}}]},
     [('spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: "metadata.name": '
      "error converting fieldPath: unsupported pod version: v2"),
      "spec.containers[0].env[1].valueFrom.fieldRef.fieldPath: Required value",
      'spec.containers[0].env[2].valueFrom.fieldRef: Invalid value: "-": *',
      "spec.containers[0].env[4].valueFrom.resourceFieldRef.resource: Required value",
      'spec.containers[0].env[5].valueFrom.resourceFieldRef.divisor: Invalid value: "x": *',
      ("spec.containers[0].env[6].valueFrom.resourceFieldRef.divisor: Invalid value: \"limits.memory\": only divisor's "
      "values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the memory resource"),
      "spec.containers[0].env[7].valueFrom.secretKeyRef.key: Required value",
      "spec.containers[0].env[8].valueFrom.fileKeyRef.key: Required value",
      "spec.containers[0].env[8].valueFrom.fileKeyRef.volumeName: Required value",
      "spec.containers[0].env[8].valueFrom.fileKeyRef.path: Required value",
      'spec.containers[0].env[8].valueFrom.fileKeyRef.volumeName: Not found: ""']),
    ({f"{C}.env": [{"value": "a"}, {"name": "a=b"}]},
     ["spec.containers[0].env[0].name: Required value",
      ('spec.containers[0].env[1].name: Invalid value: "a=b": a valid environment variable name must consist only of '
      "printable ASCII characters other than '='")]),
    ({f"{C}.env": [{"name": "A", "valueFrom": {}}]},
     [('spec.containers[0].env[0].valueFrom: Invalid value: "": must specify one of: `fieldRef`, `resourceFieldRef`, '
      "`configMapKeyRef`, `secretKeyRef` or `fileKeyRef`")]),
    ({f"{C}.env": [{"name": "A", "value": "b", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
     ['spec.containers[0].env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty']),
    ({f"{C}.env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"},
                                               "secretKeyRef": {"name": "s", "key": "k"}}}]},
     ['spec.containers[0].env[0].valueFrom: Invalid value: "": may not have more than one field specified at a time']),
    ({f"{C}.env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}}]},
     [('spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value: "metadata.labels": supported '
      'values: "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", '
      '"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"')]),
    ({f"{C}.env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}]},
     [('spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: "spec.x": '
      "error converting fieldPath: field label not supported: spec.x")]),
    ({f"{C}.env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec['x']"}}}]},
     [("spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: \"spec['x']\": "
      "error converting fieldPath: field label does not support subscript: spec['x']")]),
    ({f"{C}.env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "cpu"}}}]},
     [('spec.containers[0].env[0].valueFrom.resourceFieldRef.resource: Unsupported value: "cpu": supported values: '
      '"limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", '
      '"requests.memory"')]),
    ({f"{C}.env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}}}]},
     [('spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor: Invalid value: "limits.cpu": '
      "only divisor's values 1m and 1 are supported with the cpu resource")]),
    ({f"{C}.env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "", "key": "a/b"}}}]},
     ['spec.containers[0].env[0].valueFrom.configMapKeyRef.name: Invalid value: "": *',
      'spec.containers[0].env[0].valueFrom.configMapKeyRef.key: Invalid value: "a/b": *']),
    ({f"{C}.env": [{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "../a", "key": "K"}}}]},
     ['spec.containers[0].env[0].valueFrom.fileKeyRef.path: Invalid value: "../a": must not contain \'..\'',
      'spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName: Not found: "v"']),
    (volume(configMap={"name": "a"}) |
     {f"{C}.env": [{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "a", "key": "K"}}}]},
     [('spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName: Invalid value: "v": '
      "referenced volume must be of type emptyDir")]),
    ({f"{C}.envFrom": [{}]},
     ['spec.containers[0].envFrom: Invalid value: "": must specify one of: `configMapRef` or `secretRef`']),
    ({f"{C}.envFrom": [{"configMapRef": {"name": ""}, "secretRef": {"name": "a"}}]},
     ["spec.containers[0].envFrom[0].configMapRef.name: Required value",
      'spec.containers[0].envFrom: Invalid value: "": may not have more than one field specified at a time']),
    # resources
    ({f"{C}.resources": {"requests": {"cpu": "3"}, "limits": {"cpu": "2"}}},
     ['spec.containers[0].resources.requests: Invalid value: "3": must be less than or equal to cpu limit of 2']),
    ({f"{C}.resources": {"requests": {"cpu": "x"}}},
     [('spec.containers[0].resources.requests[cpu]: Invalid value: "x": quantities must match the regular expression '
      "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]),
    ({f"{C}.resources": {"requests": {"memory": "-1Gi"}}},
     ['spec.containers[0].resources.requests[memory]: Invalid value: "-1Gi": must be greater than or equal to 0']),
    ({f"{C}.resources": {"requests": {"gpu": "1"}}},
     [('spec.containers[0].resources.requests[gpu]: Invalid value: "gpu": '
      "must be a standard resource type or fully qualified"),
      'spec.containers[0].resources.requests[gpu]: Invalid value: "gpu": must be a standard resource for containers']),
    ({f"{C}.resources": {"requests": {"nvidia.com/gpu": "1"}}},
     ["spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources"]),
    ({f"{C}.resources": {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}}},
     ['spec.containers[0].resources.requests: Invalid value: "1": must be equal to nvidia.com/gpu limit of 2']),
    ({f"{C}.resources": {"limits": {"nvidia.com/gpu": "500m"}}},
     ['spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "500m": must be an integer',
      'spec.containers[0].resources.requests[nvidia.com/gpu]: Invalid value: "500m": must be an integer']),
    ({f"{C}.resources": {"limits": {"hugepages-2Mi": "3Mi"}}},
     [('spec.containers[0].resources.limits[hugepages-2Mi]: Invalid value: "3Mi": '
      "3Mi is not positive integer multiple of hugepages-2Mi"),
      ('spec.containers[0].resources.requests[hugepages-2Mi]: Invalid value: "3Mi": '
      "3Mi is not positive integer multiple of hugepages-2Mi"),
      "spec.containers[0].resources: Forbidden: HugePages require cpu or memory"]),
    ({f"{C}.resources": {"claims": [{"name": "c"}]}},
     [('spec.containers[0].resources.claims[0]: Not found: "c": '
      "must be one of the names in pod.spec.resourceClaims which is empty")]),
    ({"spec.overhead": {"cpu": "-1"}},
     ['spec.overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0']),
    ({"spec.resources": {"requests": {"cpu": "1", "example.com/a": "1"}}},
     [('spec.resources.requests[example.com/a]: Unsupported value: "example.com/a": '
      'supported values: "cpu", "hugepages-", "memory"'),
      "spec.resources.limits: Required value: Limit must be set for non overcommitable resources"]),
    ({"spec.resources": {"requests": {"cpu": "1"}}, f"{C}.resources": {"requests": {"cpu": "2"}}},
     [('spec.resources.requests[cpu]: Invalid value: "1": '
      "must be greater than or equal to aggregate container requests of 2")]),
    # probes and hooks
    ({f"{C}.livenessProbe": {"successThreshold": 2, "periodSeconds": -1}},
     ["spec.containers[0].livenessProbe: Required value: must specify a handler type",
      "spec.containers[0].livenessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
      "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1"]),
    ({f"{C}.readinessProbe": {"exec": {}, "tcpSocket": {"port": 1}, "terminationGracePeriodSeconds": 5}},
     ["spec.containers[0].readinessProbe.exec.command: Required value",
      "spec.containers[0].readinessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type",
      ("spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: 5: "
      "must not be set for readinessProbes")]),
    ({f"{C}.startupProbe": {"httpGet": {"port": 0, "scheme": "FTP", "httpHeaders": [{"name": "a b"}]},
                            "terminationGracePeriodSeconds": 0}},
     ["spec.containers[0].startupProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive",
      'spec.containers[0].startupProbe.httpGet.scheme: Unsupported value: "FTP": supported values: "HTTP", "HTTPS"',
      ('spec.containers[0].startupProbe.httpGet.httpHeaders: Invalid value: "a b": a valid HTTP header must consist of '
      "alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"),
      "spec.containers[0].startupProbe.terminationGracePeriodSeconds: Invalid value: 0: must be greater than 0"]),
    ({f"{C}.lifecycle": {"preStop": {"sleep": {"seconds": 31}}, "stopSignal": "SIGTERM"}},
     [("spec.containers[0].lifecycle.preStop.sleep: Invalid value: 31: "
      "must be non-negative and less than terminationGracePeriodSeconds (30)"),
      ("spec.containers[0].lifecycle.stopSignal: Forbidden: "
      "may not be set for containers with empty `spec.os.name`")]),
    # mounts and volumes
    ({f"{C}.volumeMounts": [{"mountPath": "/a"}, {"name": "v", "mountPath": "/a", "subPath": "../b"}]},
     ["spec.containers[0].volumeMounts[0].name: Required value",
      'spec.containers[0].volumeMounts[0].name: Not found: ""',
      'spec.containers[0].volumeMounts[1].name: Not found: "v"',
      'spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/a": must be unique',
      "spec.containers[0].volumeMounts.subPath: Invalid value: \"../b\": must not contain '..'"]),
    (volume(emptyDir={}) | {f"{C}.volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "a", "subPathExpr": "/b",
                                                   "mountPropagation": "Bidirectional"}]},
     [('spec.containers[0].volumeMounts[0].subPathExpr: Invalid value: "/b": '
      "subPathExpr and subPath are mutually exclusive"),
      'spec.containers[0].volumeMounts.subPathExpr: Invalid value: "/b": must be a relative path',
      f"spec.containers[0].volumeMounts.mountPropagation: Forbidden: {UNPRIVILEGED}"]),
    (volume(emptyDir={}) | {f"{C}.volumeMounts": [{"name": "v", "mountPath": "/a", "recursiveReadOnly": "Enabled"}]},
     ["spec.containers[0].volumeMounts.recursiveReadOnly: Forbidden: may only be specified when readOnly is true"]),
    (volume(emptyDir={}) | {f"{C}.volumeDevices": [{"name": "v", "devicePath": "/dev/../x"}]},
     [('spec.containers[0].volumeDevices[0].name: Invalid value: "v": '
      "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"),
      'spec.containers[0].volumeDevices[0].devicePath: Invalid value: "/dev/../x": can not contain *']),
    (volume(emptyDir={"sizeLimit": "-1"}),
     ["spec.volumes[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity"]),
    (volume(emptyDir={}, hostPath={"path": "/a"}),
     ["spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"]),
    (volume(hostPath={"path": "/a/../b", "type": "Pipe"}),
     ["spec.volumes[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
      ('spec.volumes[0].hostPath.type: Unsupported value: "Pipe": supported values: "", "BlockDevice", "CharDevice", '
      '"Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"')]),
    (volume(secret={"defaultMode": 0o1000, "items": [{"key": "a", "path": "/b", "mode": -1}, {}]}),
     ["spec.volumes[0].secret.secretName: Required value",
      ("spec.volumes[0].secret.defaultMode: Invalid value: 512: "
      "must be a number between 0 and 0777 (octal), both inclusive"),
      'spec.volumes[0].secret.items[0].path: Invalid value: "/b": must be a relative path',
      ("spec.volumes[0].secret.items[0].mode: Invalid value: -1: "
      "must be a number between 0 and 0777 (octal), both inclusive"),
      "spec.volumes[0].secret.items[1].key: Required value",
      "spec.volumes[0].secret.items[1].path: Required value"]),
    (volume(configMap={"items": [{"key": "a", "path": "..b"}]}),
     ["spec.volumes[0].configMap.name: Required value",
      "spec.volumes[0].configMap.items[0].path: Invalid value: \"..b\": must not start with '..'"]),
    (volume(downwardAPI={"items": [{"path": "a"}, {"path": "b", "resourceFieldRef": {"resource": "limits.cpu"}}]}),
     ["spec.volumes[0].downwardAPI: Required value: one of fieldRef and resourceFieldRef is required",
      "spec.volumes[0].downwardAPI.resourceFieldRef.containerName: Required value"]),
    (volume(downwardAPI={"items": [{"path": "a", "fieldRef": {"fieldPath": "status.podIP"}}]}),
     [('spec.volumes[0].downwardAPI.fieldRef.fieldPath: Unsupported value: "status.podIP": supported values: '
      '"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"')]),
    (volume(projected={"sources": [{"secret": {"name": "a", "items": [{"key": "k", "path": "p"}]}},
                                   {"configMap": {"name": "b", "items": [{"key": "k", "path": "p"}]},
                                    "secret": {"name": "c"}}]}),
     ['spec.volumes[0].projected: Invalid value: "b": conflicting duplicate paths',
      "spec.volumes[0].projected.sources[1]: Forbidden: may not specify more than 1 volume type per source"]),
    (volume(projected={"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 5}}]}),
     ["spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 5: *",
      ("spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: "
      "must not be specified when serviceAccountName is not set")]),
    (volume(persistentVolumeClaim={}), ["spec.volumes[0].persistentVolumeClaim.claimName: Required value"]),
    (volume(nfs={"path": "a"}),
     ["spec.volumes[0].nfs.server: Required value",
      'spec.volumes[0].nfs.path: Invalid value: "a": must be an absolute path']),
    (volume(ephemeral={"volumeClaimTemplate": {"spec": {}}}),
     [("spec.volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes: Required value: "
      "at least 1 access mode is required"),
      "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources[storage]: Required value"]),
    ({"spec.volumes": [{"name": "A", "emptyDir": {}}, {"name": "b", "emptyDir": {}}, {"name": "b", "emptyDir": {}}]},
     ['spec.volumes[0].name: Invalid value: "A": *', 'spec.volumes[2].name: Duplicate value: "b"']),
    (volume(emptyDir={}) | {f"{C}.volumeMounts": [{"name": "v", "mountPath": "", "mountPropagation": "x"},
                                                  {"name": "v", "mountPath": "/b", "readOnly": True,
                                                   "recursiveReadOnly": "Enabled", "mountPropagation": "None"},
                                                  {"name": "v", "mountPath": "/c", "recursiveReadOnly": "x"},
                                                  {"name": "v", "mountPath": "/d", "readOnly": True,
                                                   "recursiveReadOnly": "IfPossible",
                                                   "mountPropagation": "HostToContainer"}]},
     ["spec.containers[0].volumeMounts[0].mountPath: Required value",
      'spec.containers[0].volumeMounts.mountPropagation: Unsupported value: "x": *',
      'spec.containers[0].volumeMounts.recursiveReadOnly: Unsupported value: "x": *',
      ("spec.containers[0].volumeMounts.recursiveReadOnly: Forbidden: "
      "may only be specified when mountPropagation is None or not specified")]),
    (volume(persistentVolumeClaim={"claimName": "c"}) |
     {f"{C}.volumeMounts": [{"name": "v", "mountPath": "/dev/a"}],
      f"{C}.volumeDevices": [{"name": "v", "devicePath": "/dev/a"}, {"name": "v", "devicePath": "/dev/a"}, {}]},
     ['spec.containers[0].volumeMounts[0].name: Invalid value: "v": must not already exist in volumeDevices',
      ('spec.containers[0].volumeMounts[0].mountPath: Invalid value: "/dev/a": '
      "must not already exist as a path in volumeDevices"),
      'spec.containers[0].volumeDevices[0].name: Invalid value: "v": must not already exist in volumeMounts',
      ('spec.containers[0].volumeDevices[0].devicePath: Invalid value: "/dev/a": '
      "must not already exist as a path in volumeMounts"),
      'spec.containers[0].volumeDevices[1].name: Invalid value: "v": must be unique',
      'spec.containers[0].volumeDevices[1].devicePath: Invalid value: "/dev/a": must be unique',
      'spec.containers[0].volumeDevices[1].name: Invalid value: "v": must not already exist in volumeMounts',
      ('spec.containers[0].volumeDevices[1].devicePath: Invalid value: "/dev/a": '
      "must not already exist as a path in volumeMounts"),
      "spec.containers[0].volumeDevices[2].name: Required value",
      'spec.containers[0].volumeDevices[2].name: Not found: ""',
      "spec.containers[0].volumeDevices[2].devicePath: Required value"]),
    ({"spec.volumes": [{"name": "b", "ephemeral": {}}, {"name": "v", "persistentVolumeClaim": {"claimName": "web-b"}},
                       {}, {"name": "h", "hostPath": {}}, {"name": "q", "emptyDir": {"sizeLimit": "x"}},
                       {"name": "p", "image": {"pullPolicy": "Sometimes"}}]},
     ["spec.volumes[0].ephemeral.volumeClaimTemplate: Required value",
      ('spec.volumes[1].persistentVolumeClaim.claimName: Invalid value: "web-b": '
      "must not reference a PVC that gets created for an ephemeral volume"),
      "spec.volumes[2].name: Required value",
      "spec.volumes[3].hostPath.path: Required value",
      'spec.volumes[4].emptyDir.sizeLimit: Invalid value: "x": *',
      'spec.volumes[5].image.pullPolicy: Unsupported value: "Sometimes": *']),
    (volume(ephemeral={"volumeClaimTemplate": {
        "metadata": {"name": "n"},
        "spec": {"accessModes": ["ReadWriteOncePod", "Sometimes"], "volumeMode": "x",
                 "resources": {"requests": {"storage": "x"}}}}}),
     ["spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.name: Forbidden: cannot be set",
      'spec.volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes: Unsupported value: "Sometimes": *',
      ("spec.volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes: Forbidden: "
      "may not use ReadWriteOncePod with other access modes"),
      'spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources[storage]: Invalid value: "x": *',
      'spec.volumes[0].ephemeral.volumeClaimTemplate.spec.volumeMode: Unsupported value: "x": *']),
    (volume(projected={"sources": [
        {"secret": {}}, {"serviceAccountToken": {"expirationSeconds": 2**33}},
        {"downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.name"}},
                                   {"path": "a", "fieldRef": {"fieldPath": "metadata.name"},
                                    "resourceFieldRef": {"resource": "limits.cpu", "containerName": "c"}}]}}]})
     | {"spec.serviceAccountName": "a"},
     ["spec.volumes[0].projected.sources[0].secret.name: Required value",
      ("spec.volumes[0].projected.sources[1].serviceAccountToken.expirationSeconds: Invalid value: 8589934592: "
      "may not specify a duration larger than 2^32 seconds"),
      "spec.volumes[0].projected.path: Required value",
      ('spec.volumes[0].projected.sources[2].downwardAPI: Invalid value: "resource": '
      "fieldRef and resourceFieldRef can not be specified simultaneously"),
      'spec.volumes[0].projected: Invalid value: "a": conflicting duplicate paths']),
    # init and ephemeral containers
    ({"spec.initContainers": [{"name": "i", "image": "a",
                               "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}]},
     [('spec.initContainers[0].resizePolicy[0].restartPolicy: Invalid value: "RestartContainer": '
      "must not be set to 'RestartContainer' for non-sidecar initContainers")]),
    ({f"{C}.resizePolicy": [{"resourceName": "cpu"}, {"resourceName": "cpu", "restartPolicy": "x"},
                            {"restartPolicy": "NotRequired"}]},
     ["spec.containers[0].resizePolicy: Required value",
      'spec.containers[0].resizePolicy[1]: Duplicate value: "cpu"',
      'spec.containers[0].resizePolicy: Unsupported value: "x": *',
      "spec.containers[0].resizePolicy: Required value"]),
    ({f"{C}.restartPolicy": "Never",
      f"{C}.restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "x",
                                                                      "values": list(range(256))}}] * 21},
     ["spec.containers[0].restartPolicyRules: Too many: 21: must have at most 20 items",
      *[sentence for i in range(21) for sentence in (
          f'spec.containers[0].restartPolicyRules[{i}].exitCodes.operator: Unsupported value: "x": *',
          f"spec.containers[0].restartPolicyRules[{i}].exitCodes.values: Too many: 256: must have at most 255 items")
        ]]),
    ({"spec.initContainers": [{"name": "main", "image": "a", "livenessProbe": PROBE, "lifecycle": {}}]},
     ['spec.initContainers[0].name: Duplicate value: "main"',
      "spec.initContainers[0].lifecycle: Forbidden: may not be set for init containers without restartPolicy=Always",
      ("spec.initContainers[0].livenessProbe: Forbidden: "
      "may not be set for init containers without restartPolicy=Always")]),
    ({"spec.initContainers": [{"name": "i", "image": "a", "restartPolicy": "Often"}]},
     [('spec.initContainers[0].restartPolicy: Unsupported value: "Often": '
      'supported values: "Always", "Never", "OnFailure"')]),
    ({f"{C}.restartPolicyRules": [{"action": "Wait"}]},
     ["spec.containers[0].restartPolicy: Required value: must specify restartPolicy when restart rules are used",
      ('spec.containers[0].restartPolicyRules[0].action: Unsupported value: "Wait": '
      'supported values: "Restart", "RestartAllContainers"'),
      "spec.containers[0].restartPolicyRules[0].exitCodes: Required value: must be specified"]),
    ({"spec.restartPolicy": "Never", f"{C}.resizePolicy": [{"resourceName": "cpu",
                                                            "restartPolicy": "RestartContainer"}]},
     [('spec.containers[0].resizePolicy: Invalid value: "RestartContainer": '
      "must be 'NotRequired' when pod `restartPolicy` is 'Never'")]),
    ({"spec.ephemeralContainers": [{"name": "e", "image": "a"}]},
     ["spec.ephemeralContainers: Forbidden: cannot be set on create"]),
    # the spec itself
    ({"spec.restartPolicy": "x"},
     ['spec.restartPolicy: Unsupported value: "x": supported values: "Always", "OnFailure", "Never"']),
    ({"spec.dnsPolicy": "x"},
     [('spec.dnsPolicy: Unsupported value: "x": supported values: "ClusterFirstWithHostNet", "ClusterFirst", '
      '"Default", "None"')]),
    ({"spec.dnsPolicy": "None"},
     ["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"]),
    ({"spec.dnsConfig": {"nameservers": ["a", "10.0.0.01", "1.1.1.1", "2.2.2.2"], "options": [{}]}},
     [('spec.dnsConfig.nameservers: Invalid value: ["a","10.0.0.01","1.1.1.1","2.2.2.2"]: '
      "must not have more than 3 nameservers"),
      ('spec.dnsConfig.nameservers[0]: Invalid value: "a": '
      "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
      'spec.dnsConfig.nameservers[1]: Invalid value: "10.0.0.01": must not have leading 0s',
      "spec.dnsConfig.options[0]: Required value: must not be empty"]),
    ({"spec.nodeSelector": {"a": "b c"}}, ['spec.nodeSelector: Invalid value: "b c": *']),
    ({"spec.activeDeadlineSeconds": 0},
     ["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"]),
    ({"spec.hostname": "a.b", "spec.subdomain": "A"},
     [f'spec.hostname: Invalid value: "a.b": {NO_DOTS}', 'spec.subdomain: Invalid value: "A": *']),
    ({"spec.hostnameOverride": "a" * 65, "spec.setHostnameAsFQDN": True},
     ["spec.hostnameOverride: Forbidden: may not be specified when setHostnameAsFQDN is true",
      "spec.hostnameOverride: Too long: may not be more than 64 bytes"]),
    ({"spec.hostAliases": [{"ip": "x", "hostnames": ["A"]}]},
     ['spec.hostAliases[0].ip: Invalid value: "x": *', 'spec.hostAliases[0].hostnames[0]: Invalid value: "A": *']),
    ({"spec.priorityClassName": "A", "spec.preemptionPolicy": "Maybe", "spec.runtimeClassName": "B"},
     ['spec.priorityClassName: Invalid value: "A": *', 'spec.runtimeClassName: Invalid value: "B": *',
      'spec.preemptionPolicy: Unsupported value: "Maybe": supported values: "PreemptLowerPriority", "Never"']),
    ({"spec.os": {"name": "plan9"}},
     ['spec.os: Unsupported value: "plan9": supported values: "linux", "windows"']),
    ({"spec.os": {"name": "windows"}, f"{C}.securityContext": {"privileged": True, "runAsUser": 0}},
     ["spec.containers[0].securityContext.privileged: Forbidden: cannot be set for a windows pod",
      "spec.containers[0].securityContext.runAsUser: Forbidden: cannot be set for a windows pod"]),
    ({"spec.nodeName": "n", "spec.schedulingGates": [{"name": "a"}, {"name": "a"}]},
     ['spec.schedulingGates[1]: Duplicate value: "a"',
      "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"]),
    ({"spec.schedulingGroup": {}},
     ["spec.schedulingGroup.podGroupName: Invalid value: null: must specify one of: `podGroupName`"]),
    ({"spec.hostUsers": False, "spec.hostPID": True},
     ["spec.HostPID: Forbidden: when `hostUsers` is false"]),
    ({"spec.resourceClaims": [{"name": "c"}, {"name": "c", "resourceClaimName": "x"}]},
     [('spec.resourceClaims[0]: Invalid value: {"name":"c"}: '
      "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
      'spec.resourceClaims[1].name: Duplicate value: "c"']),
    ({"metadata.annotations": {"controller.kubernetes.io/pod-deletion-cost": "+5"}},
     [('metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "+5": '
      "must be a 32bit integer")]),
    ({"spec.resources": {"limits": {"cpu": "1"}, "claims": [{"name": "c"}]}},
     ["spec.resources.claims: Forbidden: claims may not be set for Resources at pod-level",
      'spec.resources.claims[0]: Not found: "c": must be one of the names in pod.spec.resourceClaims which is empty']),
    ({"spec.resources": {"limits": {"cpu": "1"}}, f"{C}.resources": {"limits": {"cpu": "2"}}},
     ['spec.resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
      'spec.resources.containers[0][cpu].limits: Invalid value: "2": must be less than or equal to pod limits of 1']),
    ({"spec.resources": {"limits": {"cpu": "x"}}},
     ['spec.resources.limits[cpu]: Invalid value: "x": *', 'spec.resources.requests[cpu]: Invalid value: "x": *']),
    ({"spec.resources": {"limits": {"cpu": "1"}}, "spec.os": {"name": "windows"}},
     ["spec.resources: Forbidden: may not be set for a windows pod"]),
    ({"spec.resourceClaims": [{"name": "a", "resourceClaimName": "A"},
                              {"name": "b", "resourceClaimName": "b", "resourceClaimTemplateName": "c"},
                              {"resourceClaimName": "d"}],
      f"{C}.resources": {"claims": [{"name": "a", "request": "A"}, {"name": "a"}, {"name": "a"}, {},
                                    {"name": "b", "request": "r"}, {"name": "b", "request": "r"}, {"name": "x"}]}},
     ['spec.resourceClaims[0].resourceClaimName: Invalid value: "A": *',
      ('spec.resourceClaims[1]: Invalid value: {"name":"b","resourceClaimName":"b","resourceClaimTemplateName":"c"}: '
      "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"),
      "spec.resourceClaims[2].name: Required value",
      'spec.containers[0].resources.claims[0].request: Invalid value: "A": *',
      'spec.containers[0].resources.claims[1]: Duplicate value: "a"',
      'spec.containers[0].resources.claims[2]: Duplicate value: "a"',
      "spec.containers[0].resources.claims[3]: Required value",
      'spec.containers[0].resources.claims[5]: Duplicate value: "b/r"',
      ('spec.containers[0].resources.claims[6]: Not found: "x": must be one of the names in pod.spec.resourceClaims: '
      "a, b")]),
    ({"spec.hostNetwork": True, f"{C}.ports": [{"containerPort": 80, "hostPort": 81}]},
     [("spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is "
      "true")]),
    ({"spec.dnsPolicy": "None", "spec.dnsConfig": {}},
     ["spec.dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is None"]),
    ({"spec.dnsConfig": {"searches": ["a" * 70] * 33}},
     ["spec.dnsConfig.searches: Invalid value: *", "spec.dnsConfig.searches: Invalid value: *"]),
    ({"spec.os": {}}, ["spec.os.name: Required value"]),
    ({"spec.os": {"name": "linux"}, "spec.securityContext": {"windowsOptions": {"hostProcess": True}}},
     ["spec.securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod"]),
    ({"spec.os": {"name": "linux"}, f"{C}.lifecycle": {"postStart": PROBE, "stopSignal": "SIGNOT"}},
     ['spec.containers[0].lifecycle.stopSignal: Unsupported value: "SIGNOT": *']),
    ({"spec.hostUsers": False, f"{C}.volumeDevices": [{"name": "v", "devicePath": "/a"}],
      "spec.volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
     ["spec.containers[0].volumeDevices: Forbidden: when `hostUsers` is false"]),
    # rights
    ({"spec.hostPID": True, "spec.shareProcessNamespace": True, "spec.hostIPC": True,
      "spec.securityContext": {"sysctls": [{}, {"name": "kernel.sem"}],
                               "seccompProfile": {"type": "Mine", "localhostProfile": "a"},
                               "appArmorProfile": {"type": "Unconfined", "localhostProfile": "a"}}},
     [("spec.securityContext.shareProcessNamespace: Invalid value: true: "
      "ShareProcessNamespace and HostPID cannot both be enabled"),
      "spec.securityContext.sysctls[0].name: Required value",
      ('spec.securityContext.sysctls[1].name: Invalid value: "kernel.sem": '
      "may not be specified when 'hostIPC' is true"),
      'spec.securityContext.seccompProfile.type: Unsupported value: "Mine": *',
      ('spec.securityContext.seccompProfile.localhostProfile: Invalid value: '
      '{"type":"Mine","localhostProfile":"a"}: can only be set when seccomp type is Localhost'),
      ('spec.securityContext.appArmorProfile.localhostProfile: Invalid value: "a": '
      "can only be set when AppArmor type is Localhost")]),
    ({f"{C}.securityContext": {"procMount": "x", "allowPrivilegeEscalation": False,
                               "capabilities": {"add": ["CAP_SYS_ADMIN"]}, "seccompProfile": {},
                               "appArmorProfile": {"type": "Mine"}}},
     ['spec.containers[0].securityContext.procMount: Unsupported value: "x": *',
      "spec.containers[0].securityContext.seccompProfile.type: Required value: *",
      "spec.containers[0].securityContext: Invalid value: *",
      'spec.containers[0].securityContext.appArmorProfile.type: Unsupported value: "Mine": *']),
    ({"spec.securityContext": {"appArmorProfile": {"type": "Localhost"},
                               "seccompProfile": {"type": "Localhost", "localhostProfile": "/a"}}},
     ['spec.securityContext.seccompProfile.localhostProfile: Invalid value: "/a": must be a relative path',
      ("spec.securityContext.appArmorProfile.localhostProfile: Required value: "
      "must be set when AppArmor type is Localhost")]),
    ({"spec.securityContext": {"appArmorProfile": {"type": "Localhost", "localhostProfile": " " + "a" * 4096}}},
     ["spec.securityContext.appArmorProfile.localhostProfile: Invalid value: *",
      "spec.securityContext.appArmorProfile.localhostProfile: Too long: may not be more than 4095 bytes"]),
    ({"spec.securityContext": {"runAsUser": -1, "fsGroup": 2**31, "supplementalGroups": [-1],
                               "fsGroupChangePolicy": "x"}},
     ["spec.securityContext.fsGroup: Invalid value: 2147483648: must be between 0 and 2147483647, inclusive",
      "spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
      "spec.securityContext.supplementalGroups[0]: Invalid value: -1: must be between 0 and 2147483647, inclusive",
      ('spec.securityContext.fsGroupChangePolicy: Unsupported value: "x": supported values: "Always", '
      '"OnRootMismatch"')]),
    ({"spec.securityContext": {"sysctls": [{"name": "net.a"}, {"name": "net.a"}, {"name": "A B"}]},
      "spec.hostNetwork": True},
     [('spec.securityContext.sysctls[0].name: Invalid value: "net.a": '
      "may not be specified when 'hostNetwork' is true"),
      'spec.securityContext.sysctls[1].name: Duplicate value: "net.a"',
      ('spec.securityContext.sysctls[1].name: Invalid value: "net.a": '
      "may not be specified when 'hostNetwork' is true"),
      'spec.securityContext.sysctls[2].name: Invalid value: "A B": *']),
    ({"spec.securityContext": {"seccompProfile": {"type": "Localhost"}, "appArmorProfile": {}}},
     [("spec.securityContext.seccompProfile.localhostProfile: Required value: "
      "must be set when seccomp type is Localhost"),
      "spec.securityContext.appArmorProfile.type: Required value: type is required when appArmorProfile is set"]),
    ({f"{C}.securityContext": {"privileged": True, "allowPrivilegeEscalation": False, "procMount": "Unmasked"}},
     [('spec.containers[0].securityContext.procMount: Invalid value: "Unmasked": '
      "`hostUsers` must be false to use `Unmasked`"),
      ('spec.containers[0].securityContext: Invalid value: {"privileged":true,"allowPrivilegeEscalation":false,'
      '"procMount":"Unmasked"}: cannot set `allowPrivilegeEscalation` to false and `privileged` to true')]),
    # placement
    ({"spec.tolerations": [{}, {"key": "a", "operator": "Exists", "value": "b"},
                           {"key": "a", "operator": "Like"}, {"key": "a", "effect": "No"},
                           {"key": "a", "tolerationSeconds": 5}]},
     [('spec.tolerations[0].operator: Invalid value: "": operator must be Exists when `key` is empty, '
      'which means "match all values and all keys"'),
      "spec.tolerations[1].operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'",
      'spec.tolerations[2].operator: Unsupported value: "Like": supported values: "Equal", "Exists"',
      ('spec.tolerations[3].effect: Unsupported value: "No": supported values: "NoSchedule", "PreferNoSchedule", '
      '"NoExecute"'),
      "spec.tolerations[4].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set"]),
    ({"spec.topologySpreadConstraints": [
        {"maxSkew": 0, "whenUnsatisfiable": "x", "minDomains": 1, "nodeTaintsPolicy": "y",
         "matchLabelKeys": ["a"]}]},
     ["spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
      "spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty",
      ('spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "x": '
      'supported values: "DoNotSchedule", "ScheduleAnyway"'),
      ("spec.topologySpreadConstraints[0].minDomains: Invalid value: 1: "
      "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not x"),
      ('spec.topologySpreadConstraints[0].nodeTaintsPolicy: Unsupported value: "y": supported values: "Honor", '
      '"Ignore"'),
      ("spec.topologySpreadConstraints[0].matchLabelKeys: Forbidden: "
      "must not be specified when labelSelector is not set")]),
    ({"spec.topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"} for _ in "ab"]},
     ['spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{z, DoNotSchedule}"']),
    ({"spec.affinity.nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 101, "preference": {}}]}},
     [("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: "
      "must have at least one node selector term"),
      ("spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 101: "
      "must be in the range 1-100")]),
    ({"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms": [
        {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1", "2"]}, {"key": "a", "operator": "In"},
                              {"key": "a", "operator": "Exists", "values": ["1"]}, {"key": "a", "operator": "is"}],
         "matchFields": [{"key": "metadata.name", "operator": "In"}, {"key": "spec.x", "operator": "Gt"}]}]},
     [f"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].{rest}"
      for rest in (
          "matchExpressions[0].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'",
          "matchExpressions[1].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
          ("matchExpressions[2].values: Forbidden: "
          "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"),
          'matchExpressions[3].operator: Invalid value: "is": not a valid selector operator',
          ("matchFields[0].values: Required value: "
          "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"),
          'matchFields[1].operator: Invalid value: "Gt": not a valid selector operator',
          'matchFields[1].key: Invalid value: "spec.x": not a valid field selector key',
      )]),
    ({"spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution": [{"namespaces": ["A"]}]},
     ['spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespace: Invalid value: "A": *',
      ("spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required value: "
      "can not be empty"),
      ("spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: "
      'Invalid value: "": name part must be non-empty'),
      ("spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: "
      'Invalid value: "": *')]),
    ({"spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "z", "matchLabelKeys": ["a"],
         "labelSelector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]}}]},
     [('spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0][0]: Invalid value: "a": '
      "exists in both matchLabelKeys and labelSelector")]),
    ({"spec.tolerations": [{"key": "a", "value": "-"}]},
     ['spec.tolerations[0].operator: Invalid value: "-": *']),
    ({"spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 0, "podAffinityTerm": {"topologyKey": "z", "matchLabelKeys": ["a"], "mismatchLabelKeys": ["a"],
                                          "labelSelector": {}}}]},
     [("spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: "
      "must be in the range 1-100"),
      ("spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm."
      'matchLabelKeys[0]: Invalid value: "a": exists in both matchLabelKeys and mismatchLabelKeys')]),
]  # fmt: skip


@pytest.mark.parametrize(("edits", "expected"), BAD)
def test_bad_pods(create: Any, edits: Any, expected: Any) -> None:
    got = create(edits)
    shortened = [
        sentence[: len(pattern) - 1] + "*" if pattern.endswith("*") else sentence
        for sentence, pattern in zip(got, expected, strict=False)
    ]
    assert shortened + got[len(expected) :] == expected


ONLY = (
    "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
    "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"
)
TOLERATION = {"key": "a", "operator": "Exists", "effect": "NoExecute"}
GATED = {"spec.schedulingGates": [{"name": "g"}]}
TERMS = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
TERM = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
WIDER = {"matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]}

UPDATES = [
    ({}, {"metadata.labels": {"a": "b"}}, []),
    ({}, {f"{C}.image": "other:1", f"{C}.imagePullPolicy": "Always"}, []),
    ({}, {f"{C}.image": None},
     ["spec.containers[0].image: Required value", f"{ONLY}changed: spec.containers"]),
    ({}, {f"{C}.args": ["x"]}, [f"{ONLY}changed: spec.containers"]),
    ({}, {"spec.nodeName": "n", "spec.priority": 5}, [f"{ONLY}changed: spec.nodeName, spec.priority"]),
    ({}, {"spec.containers.1": {"name": "b", "image": "a"}},
     ["spec.containers: Forbidden: pod updates may not add or remove containers"]),
    ({}, {"spec.activeDeadlineSeconds": 5}, []),
    ({"spec.activeDeadlineSeconds": 5}, {"spec.activeDeadlineSeconds": 4}, []),
    ({"spec.activeDeadlineSeconds": 5}, {"spec.activeDeadlineSeconds": 6},
     ["spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value"]),
    ({"spec.activeDeadlineSeconds": 5}, {"spec.activeDeadlineSeconds": None},
     ["spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value"]),
    ({}, {"spec.tolerations": [TOLERATION]}, []),
    ({"spec.tolerations": [TOLERATION]}, {"spec.tolerations": [TOLERATION | {"tolerationSeconds": 5}]}, []),
    ({"spec.tolerations": [TOLERATION]}, {"spec.tolerations": []},
     ["spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"]),
    (GATED, {"spec.schedulingGates": []}, []),
    ({}, GATED, [("spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate "
                 "'g'")]),
    ({"spec.terminationGracePeriodSeconds": -1}, {"spec.terminationGracePeriodSeconds": 1}, []),
    ({}, {"spec.terminationGracePeriodSeconds": 1}, [f"{ONLY}changed: spec.terminationGracePeriodSeconds"]),
    # a gated pod may still be told where to run
    (GATED, {"spec.nodeSelector": {"a": "b"}}, []),
    ({}, {"spec.nodeSelector": {"a": "b"}}, [f"{ONLY}changed: spec.nodeSelector"]),
    (GATED | {"spec.nodeSelector": {"a": "b"}}, {"spec.nodeSelector": {"c": "d"}},
     [('spec.nodeSelector: Invalid value: {"c":"d"}: '
      "only additions to spec.nodeSelector are allowed (no mutations or deletions)")]),
    (GATED, {TERMS: [TERM]}, []),
    (GATED | {TERMS: [TERM]}, {TERMS: [WIDER]}, []),
    (GATED | {TERMS: [WIDER]}, {TERMS: [TERM]},
     [(f'{TERMS}[0]: Invalid value: {{"matchExpressions":[{{"key":"a","operator":"Exists"}}]}}: '
      "only additions are allowed (no mutations or deletions)")]),
    (GATED | {TERMS: [TERM]}, {TERMS: [TERM, TERM]},
     [f"{TERMS}: Invalid value: *"]),
    (GATED, {"spec.affinity": {"podAffinity": {}}}, [f"{ONLY}changed: spec.affinity"]),
]  # fmt: skip


@pytest.mark.parametrize(("before", "change", "expected"), UPDATES)
def test_updates(pod: Any, edit: Any, defaulted: Any, sentences: Any, before: Any, change: Any, expected: Any) -> None:
    old = edit(pod, before)
    new = edit(old, change)
    got = sentences(validate_update(defaulted(POD, new), defaulted(POD, old)))
    assert [g[: len(e) - 1] + "*" if e.endswith("*") else g for g, e in zip(got, expected, strict=True)] == expected


def state(name: Any, **state: Any) -> Any:
    return {"name": name, "state": state}


DONE = {"terminated": {"exitCode": 0}}
FAILED = {"terminated": {"exitCode": 1}}
RUNS: dict[str, Any] = {"running": {}}
AGAIN = "Forbidden: may not be transitioned to non-terminated state"

STATUSES = [
    ({}, {}, {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}, []),
    ({}, {}, {"podIPs": [{"ip": "x"}, {"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]},
     ['status.podIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
      ('status.podIPs: Invalid value: ["x","10.0.0.1","10.0.0.2"]: '
      "may specify no more than one IP for each IP family")]),
    ({}, {}, {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}, []),
    ({}, {}, {"hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.2"}]},
     ['status.hostIPs[0].ip: Invalid value: "10.0.0.2": must be equal to `hostIP`']),
    ({}, {"qosClass": "BestEffort"}, {"qosClass": "Burstable"},
     ['status.qosClass: Invalid value: "Burstable": field is immutable']),
    ({}, {}, {"conditions": [{"type": "Ready", "status": "True"}, {"type": "-a", "observedGeneration": -1}]},
     ["status.conditions[1].observedGeneration: Invalid value: -1: must be a non-negative integer",
      'status.conditions[1].Type: Invalid value: "-a": *']),
    ({}, {}, {"nominatedNodeName": "A"}, ['status.nominatedNodeName: Invalid value: "A": *']),
    ({"spec.restartPolicy": "Never"}, {"containerStatuses": [state("main", **DONE)]},
     {"containerStatuses": [state("main", **RUNS)]}, [f"status.containerStatuses[0].state: {AGAIN}"]),
    ({"spec.restartPolicy": "OnFailure"}, {"containerStatuses": [state("main", **DONE)]},
     {"containerStatuses": [state("main", **RUNS)]}, [f"status.containerStatuses[0].state: {AGAIN}"]),
    ({"spec.restartPolicy": "OnFailure"}, {"containerStatuses": [state("main", **FAILED)]},
     {"containerStatuses": [state("main", **RUNS)]}, []),
    ({"spec.restartPolicy": "Always"}, {"containerStatuses": [state("main", **DONE)]},
     {"containerStatuses": [state("main", **RUNS)]}, []),
    ({"spec.restartPolicy": "Never", f"{C}.restartPolicy": "Never",
      f"{C}.restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}]},
     {"containerStatuses": [state("main", **FAILED)]}, {"containerStatuses": [state("main", **RUNS)]}, []),
    ({"spec.restartPolicy": "Never",
      "spec.initContainers": [{"name": "s", "image": "a", "restartPolicy": "Always"}]},
     {"initContainerStatuses": [state("s", **DONE)]}, {"initContainerStatuses": [state("s", **RUNS)]}, []),
    ({}, {"ephemeralContainerStatuses": [state("e", **DONE)]}, {"ephemeralContainerStatuses": [state("e", **RUNS)]},
     [f"status.ephemeralContainerStatuses[0].state: {AGAIN}"]),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "before", "after", "expected"), STATUSES)
def test_status_updates(
    pod: Any, edit: Any, defaulted: Any, sentences: Any, spec: Any, before: Any, after: Any, expected: Any
) -> None:
    old = edit(pod, spec | {"status": before})
    new = edit(pod, spec | {"status": after})
    got = sentences(validate_status_update(defaulted(POD, new), defaulted(POD, old)))
    assert [g[: len(e) - 1] + "*" if e.endswith("*") else g for g, e in zip(got, expected, strict=True)] == expected


def test_status_says_nothing_about_the_node(pod: Any, edit: Any, defaulted: Any, sentences: Any) -> None:
    new = edit(pod, {"spec.nodeName": "n"})
    errors = validate_status_update(defaulted(POD, new), defaulted(POD, pod))
    assert sentences(errors) == ["status.nodeName: Forbidden: may not be changed directly"]


def test_ephemeral_containers(create: Any) -> None:
    container = {"name": "main", "image": "a", "targetContainerName": "x", "ports": [{"containerPort": 1}]}
    assert create({"spec.ephemeralContainers": [container]}) == [
        'spec.ephemeralContainers[0].name: Duplicate value: "main"',
        'spec.ephemeralContainers[0].targetContainerName: Not found: "x"',
        "spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container",
        "spec.ephemeralContainers: Forbidden: cannot be set on create",
    ]


def test_binding(sentences: Any) -> None:
    assert sentences(validate_binding(Binding(target=ObjectReference(kind="Node", name="n")))) == []
    assert sentences(validate_binding(Binding(target=ObjectReference(kind="Pod")))) == [
        'target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"',
        "target.name: Required value",
    ]
