"""kubectl, oldest and newest: every command that works on what is served, and what it prints."""

import json
import re
import signal
import subprocess
from typing import Any, TypeAlias

import pytest

pytestmark = [pytest.mark.kubectl, pytest.mark.timeout(120)]

Kubectl: TypeAlias = Any  # the fixture's class, in conftest

POD = """
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  labels: {{app: {app}}}
spec:
  terminationGracePeriodSeconds: 1
  restartPolicy: Never
  containers:
  - name: main
    image: none
    command: [sh, -c, '{script}']
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
spec:
  parallelism: 1
  completions: 1
  backoffLimit: 0
  suspend: {suspend}
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: none
        command: [sh, -c, '{script}']
        env: [{{name: A, value: "1"}}]
"""
CONFIG_MAP = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data:
  a: "1"
  b: "2"
"""


# "data:" is no key that ends in "a:" by itself.
RENAME = r"sed -i -e 's/\ba:/renamed:/'"


def pod(name: str = "p", app: str = "web", script: str = "sleep 1000") -> str:
    return POD.format(name=name, app=app, script=script)


def job(name: str = "j", suspend: str = "false", script: str = "true") -> str:
    return JOB.format(name=name, suspend=suspend, script=script)


def lines(text: str) -> list[list[str]]:
    """Words of each line, with words that belong together (two blanks between columns) kept together."""
    return [re.split(r" {2,}", line.strip()) for line in text.splitlines()]


def test_get(kubectl: Kubectl) -> None:
    assert "created" in kubectl("create", "-f", "-", input=pod("one", "web") + "---" + pod("two", "db"))
    kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=20s")
    header, *rows = lines(kubectl("get", "pods"))
    assert header == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [row[:4] for row in rows] == [["one", "1/1", "Running", "0"], ["two", "1/1", "Running", "0"]]
    header, row, _ = lines(kubectl("get", "pods", "-o", "wide"))
    assert header[5:] == ["IP", "NODE", "NOMINATED NODE", "READINESS GATES"]
    assert row[5].startswith("127.")
    assert row[7:] == ["<none>", "<none>"]
    assert kubectl("get", "pods", "-o", "name") == "pod/one\npod/two\n"
    assert kubectl("get", "pod", "one", "-o", "jsonpath={.spec.containers[0].name}") == "main"
    assert [item["metadata"]["name"] for item in kubectl.json("get", "pods")["items"]] == ["one", "two"]
    assert "\n  name: one\n" in kubectl("get", "pod", "one", "-o", "yaml")
    assert kubectl("get", "pods", "-l", "app=db", "-o", "name") == "pod/two\n"
    assert kubectl("get", "pods", "-l", "app in (web,none),!absent", "-o", "name") == "pod/one\n"
    assert kubectl("get", "pods", "--field-selector", "metadata.name!=one", "-o", "name") == "pod/two\n"
    assert kubectl("get", "pods", "--field-selector", "status.phase=Pending", "-o", "name") == ""
    assert "LABELS" in kubectl("get", "pods", "--show-labels")
    assert lines(kubectl("get", "pods", "-L", "app"))[1][-1] == "web"
    assert [kubectl.namespace in line for line in kubectl("get", "pods", "-A").splitlines()].count(True) == 2
    assert "pod/one" in kubectl("get", "all")
    assert kubectl("get", "pods", "--sort-by=.metadata.name", "--chunk-size=1", "-o", "name").count("pod/") == 2
    assert 'pods "none" not found' in kubectl.refused("get", "pod", "none")
    assert "doesn't have a resource type" in kubectl.refused("get", "nonsense")


def test_get_watch(kubectl: Kubectl) -> None:
    watch = subprocess.Popen(
        kubectl.command("get", "configmaps", "--watch", "--field-selector", "metadata.name=settings"),
        env=kubectl.env(),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert watch.stdout is not None
        kubectl("create", "-f", "-", input=CONFIG_MAP)
        assert lines(watch.stdout.readline()) == [["NAME", "DATA", "AGE"]]
        assert lines(watch.stdout.readline())[0][:2] == ["settings", "2"]
        kubectl("patch", "configmap", "settings", "--type=merge", "-p", '{"data":{"c":"3"}}')
        assert lines(watch.stdout.readline())[0][:2] == ["settings", "3"]
    finally:
        watch.send_signal(signal.SIGINT)
        watch.communicate(timeout=10)


def test_describe_and_events(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", input=job(script="echo hello"))
    kubectl("wait", "--for=condition=complete", "job/j", "--timeout=20s")
    text = kubectl("describe", "job", "j")
    assert re.search(r"Pods Statuses: +0 Active.* / 1 Succeeded / 0 Failed", text)
    assert "SuccessfulCreate" in text
    [name] = kubectl("get", "pods", "-l", "job-name=j", "-o", "name").split()
    text = kubectl("describe", name)
    assert re.search(r"Controlled By: +Job/j", text)
    assert "Exit Code:    0" in text
    assert "SuccessfulCreate" in kubectl("events", "--for", "job/j")
    header, row, *_ = lines(kubectl("get", "events", "--field-selector", "involvedObject.kind=Job"))
    assert header == ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert row[3] == "job/j"
    assert "Ready" in kubectl("describe", "nodes")
    assert "Active" in kubectl("describe", "namespace", kubectl.namespace)


def test_create_commands(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "c", "--from-literal=a=1")
    kubectl("create", "secret", "generic", "s", "--from-literal=password=hush")
    kubectl("create", "serviceaccount", "a")
    kubectl("create", "service", "clusterip", "headless", "--clusterip=None")
    kubectl("create", "job", "j", "--image=none", "--", "true")
    priority = f"p-{kubectl.namespace}"
    kubectl("create", "priorityclass", priority, "--value=7", "--description=x")
    assert lines(kubectl("get", "configmap", "c"))[1][:2] == ["c", "1"]
    assert lines(kubectl("get", "secret", "s"))[1][:3] == ["s", "Opaque", "1"]
    assert kubectl("get", "secret", "s", "-o", "jsonpath={.data.password}") == "aHVzaA=="
    assert lines(kubectl("get", "serviceaccount", "a"))[1][0] == "a"
    assert lines(kubectl("get", "service", "headless"))[1][:4] == ["headless", "ClusterIP", "None", "<none>"]
    assert lines(kubectl("get", "priorityclass", priority))[1][:3] == [priority, "7", "false"]
    kubectl("wait", "--for=condition=complete", "job/j", "--timeout=20s")
    header, row = lines(kubectl("get", "job", "j"))
    if "STATUS" in header:
        assert row[:3] == ["j", "Complete", "1/1"]
    assert "already exists" in kubectl.refused("create", "configmap", "c")
    kubectl("delete", "priorityclass", priority)
    assert "created (dry run)" in kubectl("create", "configmap", "d", "--dry-run=client")
    assert "created (server dry run)" in kubectl("create", "configmap", "d", "--dry-run=server")
    assert "not found" in kubectl.refused("get", "configmap", "d")


def test_run_and_logs(kubectl: Kubectl) -> None:
    kubectl("run", "p", "--image=none", "--restart=Never", "--command", "--", "sh", "-c", "echo one; echo two")
    kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/p", "--timeout=20s")
    assert kubectl("logs", "p") == "one\ntwo\n"
    assert kubectl("logs", "p", "--tail=1") == "two\n"
    assert kubectl("logs", "p", "-f") == "one\ntwo\n"
    assert re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z one\n", kubectl("logs", "p", "--timestamps"))
    assert lines(kubectl("get", "pod", "p"))[1][:3] == ["p", "0/1", "Completed"]
    assert "not found" in kubectl.refused("logs", "absent")
    kubectl("create", "-f", "-", input=job(script="echo from a job"))
    kubectl("wait", "--for=condition=complete", "job/j", "--timeout=20s")
    assert kubectl("logs", "job/j") == "from a job\n"
    assert kubectl("logs", "-l", "job-name=j", "--prefix").endswith("from a job\n")


def test_apply(kubectl: Kubectl) -> None:
    assert kubectl("apply", "-f", "-", input=CONFIG_MAP) == "configmap/settings created\n"
    assert kubectl("apply", "-f", "-", input=CONFIG_MAP) == "configmap/settings unchanged\n"
    assert kubectl("diff", "-f", "-", input=CONFIG_MAP) == ""
    changed = CONFIG_MAP.replace('a: "1"', 'a: "3"').replace('  b: "2"\n', "")
    done = kubectl.run("diff", "-f", "-", input=changed)
    assert done.returncode == 1
    assert '-  b: "2"' in done.stdout
    assert kubectl("apply", "-f", "-", input=changed) == "configmap/settings configured\n"
    assert kubectl.json("get", "configmap", "settings")["data"] == {"a": "3"}
    assert (
        kubectl("apply", "-f", "-", "--dry-run=server", input=CONFIG_MAP)
        == "configmap/settings configured (server dry run)\n"
    )
    manifest = job(suspend="true")
    assert kubectl("apply", "-f", "-", input=manifest) == "job.batch/j created\n"
    assert kubectl("apply", "-f", "-", input=manifest) == "job.batch/j unchanged\n"
    assert kubectl("diff", "-f", "-", input=manifest) == ""
    labelled = manifest.replace("  name: j\n", "  name: j\n  labels: {team: blue}\n")
    assert kubectl("apply", "-f", "-", input=labelled) == "job.batch/j configured\n"
    assert kubectl("get", "jobs", "-l", "team=blue", "-o", "name") == "job.batch/j\n"
    assert "last-applied" not in kubectl("apply", "view-last-applied", "job/j")
    assert "field is immutable" in kubectl.refused(
        "apply", "-f", "-", input=manifest.replace("image: none", "image: other")
    )
    kubectl("delete", "-f", "-", input=manifest)


def test_apply_merges_lists_by_their_keys(kubectl: Kubectl) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {
            "clusterIP": "None",
            "selector": {"app": "x"},
            "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}],
        },
    }
    spec: Any = service["spec"]
    kubectl("apply", "-f", "-", input=json.dumps(service))
    patch = {"spec": {"ports": [{"name": "theirs", "port": 3}]}}
    kubectl("patch", "service", "s", "-p", json.dumps(patch))
    spec["ports"] = [{"name": "b", "port": 2}, {"name": "c", "port": 4}]
    kubectl("apply", "-f", "-", input=json.dumps(service))
    ports = kubectl("get", "service", "s", "-o", "jsonpath={.spec.ports[*].name}").split()
    assert sorted(ports) == ["b", "c", "theirs"]
    kubectl("apply", "-f", "-", input=json.dumps(service))
    assert kubectl("get", "service", "s", "-o", "jsonpath={.spec.ports[*].name}").split() == ports


def test_replace_patch_and_edit(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", input=CONFIG_MAP)
    kubectl("replace", "-f", "-", input=CONFIG_MAP.replace('"1"', '"9"'))
    assert kubectl("get", "configmap", "settings", "-o", "jsonpath={.data.a}") == "9"
    kubectl("replace", "--force", "-f", "-", input=CONFIG_MAP)
    for type_, patch, data in (
        ("strategic", '{"data":{"c":"3"}}', {"a": "1", "b": "2", "c": "3"}),
        ("merge", '{"data":{"b":null}}', {"a": "1", "c": "3"}),
        ("json", '[{"op":"test","path":"/data/a","value":"1"},{"op":"remove","path":"/data/c"}]', {"a": "1"}),
    ):
        kubectl("patch", "configmap", "settings", f"--type={type_}", "-p", patch)
        assert kubectl.json("get", "configmap", "settings")["data"] == data
    assert "no change" in kubectl("patch", "configmap", "settings", "-p", "{}")
    failing = '[{"op":"test","path":"/data/a","value":"2"}]'
    assert "testing value /data/a failed" in kubectl.refused(
        "patch", "configmap", "settings", "--type=json", "-p", failing
    )
    kubectl("edit", "configmap", "settings", KUBE_EDITOR=RENAME)
    assert kubectl.json("get", "configmap", "settings")["data"] == {"renamed": "1"}
    assert "no changes made" in kubectl.run("edit", "configmap", "settings", KUBE_EDITOR="true").stderr
    stale = kubectl("get", "configmap", "settings", "-o", "yaml")
    kubectl("patch", "configmap", "settings", "-p", '{"data":{"z":"1"}}')
    assert "the object has been modified" in kubectl.refused("replace", "-f", "-", input=stale)
    kubectl("create", "-f", "-", input=job(suspend="true"))
    kubectl("patch", "job", "j", "--subresource=status", "--type=merge", "-p", '{"status":{"active":0}}')


def test_label_annotate_and_scale(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", input=job(suspend="true"))
    kubectl("label", "job", "j", "team=red")
    assert kubectl("get", "job", "j", "-o", "jsonpath={.metadata.labels.team}") == "red"
    assert "--overwrite is false" in kubectl.refused("label", "job", "j", "team=blue")
    kubectl("label", "job", "j", "team=blue", "--overwrite")
    kubectl("label", "job", "j", "team-")
    kubectl("annotate", "job", "j", "note=hello there")
    assert kubectl("get", "job", "j", "-o", "jsonpath={.metadata.annotations.note}") == "hello there"
    assert kubectl("scale", "--replicas=3", "job/j") == "job.batch/j scaled\n"
    assert kubectl("get", "job", "j", "-o", "jsonpath={.spec.parallelism}") == "3"


def elastic(size: int, completions: int | None = None) -> str:
    """An Indexed Job of so many workers, which run until they are told to end."""
    sizes = f"  parallelism: {size}\n  completions: {size if completions is None else completions}"
    fixed = "  parallelism: 1\n  completions: 1"
    return job(script="sleep 1000").replace(fixed, f"  completionMode: Indexed\n{sizes}")


def test_elastic_jobs(kubectl: Kubectl) -> None:
    """Every way to change the size of a running Job: the workers that stay are the same pods."""
    fields = ".metadata.labels.batch\\.kubernetes\\.io/job-completion-index} {.metadata.uid}"
    columns = f"jsonpath={{range .items[*]}}{{{fields}{{'\\n'}}{{end}}"

    def workers(size: int) -> dict[str, str]:
        kubectl("wait", "job/j", f"--for=jsonpath={{.status.active}}={size}", "--timeout=20s")
        kubectl("wait", "job/j", "--for=jsonpath={.status.terminating}=0", "--timeout=20s")
        found = kubectl("get", "pods", "-l", "job-name=j", "-o", columns)
        return dict(line.split() for line in found.splitlines())

    def sizes(size: int) -> str:
        return json.dumps({"spec": {"completions": size, "parallelism": size}})

    def operations(size: int) -> str:
        fields = ("completions", "parallelism")
        return json.dumps([{"op": "replace", "path": f"/spec/{field}", "value": size} for field in fields])

    kubectl("apply", "-f", "-", input=elastic(2))
    before = workers(2)
    for size, command, manifest in (
        (4, ("scale", "--replicas=4", "job/j"), ""),
        (3, ("scale", "--current-replicas=4", "--replicas=3", "job/j"), ""),
        (5, ("patch", "job", "j", "--type=merge", "-p", sizes(5)), ""),
        (2, ("patch", "job", "j", "--type=strategic", "-p", sizes(2)), ""),
        (4, ("patch", "job", "j", "--type=json", "-p", operations(4)), ""),
        (3, ("apply", "-f", "-"), elastic(3)),
        (4, ("apply", "-f", "-"), elastic(4)),
    ):
        kubectl(*command, input=manifest)
        after = workers(size)
        assert set(after) == {str(index) for index in range(size)}, command
        stay = before.keys() & after.keys()
        assert {index: after[index] for index in stay} == {index: before[index] for index in stay}, command
        before = after
    tandem = "can only be modified in tandem with spec.parallelism"
    only = '{"spec":{"completions":5}}'
    assert f"spec.completions: Invalid value: 5: {tandem}" in kubectl.refused("patch", "job", "j", "-p", only)
    assert tandem in kubectl.refused("apply", "-f", "-", input=elastic(4, completions=7))
    assert "replicas" in kubectl.refused("scale", "--current-replicas=9", "--replicas=1", "job/j")
    assert "greater than or equal to 0" in kubectl.refused("patch", "job", "j", "-p", sizes(-1))
    assert workers(4) == before
    kubectl("scale", "--replicas=0", "job/j")
    kubectl("wait", "--for=condition=complete", "job/j", "--timeout=20s")
    assert kubectl("get", "job", "j", "-o", "jsonpath={.status.failed}") in ("", "0")
    assert "immutable once the job is finished" in kubectl.refused("scale", "--replicas=3", "job/j")


def test_nodes(kubectl: Kubectl) -> None:
    header, row, *_ = lines(kubectl("get", "nodes", "-o", "wide"))
    assert header == [
        "NAME", "STATUS", "ROLES", "AGE", "VERSION", "INTERNAL-IP", "EXTERNAL-IP", "OS-IMAGE", "KERNEL-VERSION",
        "CONTAINER-RUNTIME",
    ]  # fmt: skip
    node = row[0]
    assert row[1] == "Ready"
    kubectl("cordon", node)
    assert lines(kubectl("get", "node", node))[1][1] == "Ready,SchedulingDisabled"
    kubectl("uncordon", node)
    kubectl("taint", "node", node, "example.com/peers=x:PreferNoSchedule")
    assert "example.com/peers" in kubectl("get", "node", node, "-o", "jsonpath={.spec.taints}")
    kubectl("taint", "node", node, "example.com/peers-")
    kubectl("label", "node", node, "example.com/peers=x")
    kubectl("label", "node", node, "example.com/peers-")
    kubectl("create", "-f", "-", input=pod("drained", app=kubectl.namespace))
    kubectl("wait", "--for=condition=Ready", "pod/drained", "--timeout=20s")
    drained = kubectl.run("drain", node, f"--pod-selector=app={kubectl.namespace}", "--force", "--timeout=20s")
    kubectl("uncordon", node)
    assert f"node/{node} drained" in drained.stdout, drained
    assert kubectl("get", "pods", "-o", "name") == ""


def test_wait_and_delete(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", input=pod("one") + "---" + pod("two") + "---" + pod("three", app="db"))
    kubectl("wait", "--for=condition=Ready", "pod/one", "--timeout=20s")
    assert "timed out" in kubectl.refused("wait", "--for=condition=Nonsense", "pod/one", "--timeout=1s")
    assert kubectl("delete", "pod", "one") in (
        'pod "one" deleted\n',
        f'pod "one" deleted from {kubectl.namespace} namespace\n',
    )
    assert "not found" in kubectl.refused("get", "pod", "one")
    kubectl("delete", "pod", "two", "--wait=false")
    kubectl("wait", "--for=delete", "pod/two", "--timeout=20s")
    kubectl("delete", "pod", "two", "--ignore-not-found")
    kubectl("delete", "pods", "-l", "app=db", "--now")
    assert kubectl("get", "pods", "-o", "name") == ""
    kubectl("create", "-f", "-", input=job(script="sleep 1000"))
    kubectl.eventually("get", "pods", "-l", "job-name=j", "-o", "name", shows="pod/j-")
    kubectl("delete", "job", "j", "--cascade=foreground", "--timeout=20s")
    assert kubectl("get", "pods", "-l", "job-name=j", "-o", "name") == ""


def test_namespaces(kubectl: Kubectl) -> None:
    name = f"{kubectl.namespace}-other"
    kubectl("create", "namespace", name)
    kubectl("create", "configmap", "c", "--namespace", name)
    assert lines(kubectl("get", "namespace", name))[1][:2] == [name, "Active"]
    kubectl("delete", "namespace", name, "--timeout=20s")
    assert "not found" in kubectl.refused("get", "namespace", name)
    assert "not found" in kubectl.refused("create", "configmap", "c", "--namespace", name)


def test_what_a_fresh_cluster_has(kubectl: Kubectl) -> None:
    assert "443/TCP" in kubectl("get", "service", "kubernetes", "-n", "default")


def test_top(kubectl: Kubectl) -> None:
    kubectl("run", "busy", "--image=none", "--restart=Never", "--command", "--", "sleep", "30")
    kubectl("wait", "--for=condition=Ready", "pod/busy", "--timeout=20s")
    assert lines(kubectl("top", "nodes"))[1][0] == "node-0"
    assert lines(kubectl("top", "pods"))[1][0] == "busy"
    assert lines(kubectl("top", "pod", "busy", "--containers"))[1][:2] == ["busy", "busy"]
    assert lines(kubectl("get", "podmetrics"))[1][0] == "busy"
    kubectl("delete", "pod", "busy", "--now")


def test_kinds_of_kueue_and_jobset_are_among_the_definitions(kubectl: Kubectl) -> None:
    kinds = ["crd/jobsets.jobset.x-k8s.io", "crd/workloads.kueue.x-k8s.io", "crd/clusterqueues.kueue.x-k8s.io"]
    assert kubectl("wait", "--for=condition=established", "--timeout=5s", *kinds).count("condition met") == len(kinds)
    assert "its definition cannot be deleted" in kubectl.refused("delete", kinds[0])


def test_explain_and_discovery(kubectl: Kubectl, long: bool) -> None:
    text = kubectl("explain", "pods.spec.containers")
    assert re.search(r"FIELD: containers <\[\]Container>", text)
    assert re.search(r"name\t<string> -required-", text)
    assert re.search(r"\n  resources\t<ResourceRequirements>", text)
    text = kubectl("explain", "job", "--recursive")
    assert re.search(r"GROUP: +batch\nKIND: +Job\nVERSION: +v1", text)
    assert re.search(r"completionMode\t<string>", text)
    assert "does not exist" in kubectl.refused("explain", "pods.spec.nonsense")
    kinds = lines(kubectl("api-resources", "--verbs=get", "--no-headers"))
    for row in kinds if long else {row[-3]: row for row in kinds}.values():  # a kind of each group and version
        assert "FIELDS:" in kubectl("explain", row[0], f"--api-version={row[-3]}", "--recursive")
    # The first of a name is the one that is meant by it: metrics.k8s.io has pods, too.
    rows = {row[0]: row for row in reversed(lines(kubectl("api-resources")))}
    assert rows["jobs"][1:] == ["batch/v1", "true", "Job"]
    assert rows["pods"][1:] == ["po", "v1", "true", "Pod"]
    assert "pods" in kubectl("api-resources", "--categories=all", "--namespaced=true", "--verbs=watch", "-o", "name")
    assert {"v1", "batch/v1"} <= set(kubectl("api-versions").split())
    for path in ("/healthz", "/livez", "/readyz"):
        assert kubectl("get", "--raw", path).strip() == "ok"
    assert json.loads(kubectl("get", "--raw", "/version"))["gitVersion"].startswith("v1.")
    assert "Server Version: v1." in kubectl.run("version").stdout  # it may complain of a difference of versions


def test_field_validation(kubectl: Kubectl) -> None:
    wrong = CONFIG_MAP + "nonsense: 1\n"
    message = 'strict decoding error: unknown field "nonsense"'
    assert message in kubectl.refused("create", "-f", "-", input=wrong)
    assert message in kubectl.refused("apply", "-f", "-", input=wrong)
    done = kubectl.run("create", "-f", "-", "--validate=warn", input=wrong)
    assert done.returncode == 0
    assert 'Warning: unknown field "nonsense"' in done.stderr
    kubectl("apply", "-f", "-", "--validate=ignore", input=wrong.replace("settings", "other"))
    typed = pod().replace("restartPolicy: Never", "restartPolicy: [1]")
    assert (
        "json: cannot unmarshal array into Go struct field PodSpec.spec.restartPolicy of type string"
        in kubectl.refused("create", "-f", "-", input=typed)
    )
    invalid = pod().replace("name: main", "name: MAIN")
    assert 'spec.containers[0].name: Invalid value: "MAIN"' in kubectl.refused("create", "-f", "-", input=invalid)


def test_the_other_releases(other_kubectl: Kubectl) -> None:
    kubectl = other_kubectl
    assert kubectl("apply", "-f", "-", input=job(script="echo hello")) == "job.batch/j created\n"
    assert kubectl("apply", "-f", "-", input=job(script="echo hello")) == "job.batch/j unchanged\n"
    kubectl("wait", "--for=condition=complete", "job/j", "--timeout=20s")
    assert kubectl("logs", "job/j") == "hello\n"
    assert lines(kubectl("get", "jobs"))[1][0] == "j"
    kubectl("label", "job", "j", "a=b")
    kubectl("create", "secret", "generic", "s", "--from-literal=password=hush")
    assert kubectl("get", "secret", "s", "-o", "jsonpath={.data.password}") == "aHVzaA=="
    kubectl("create", "-f", "-", input=CONFIG_MAP)
    kubectl("edit", "configmap", "settings", KUBE_EDITOR=RENAME)
    assert kubectl.json("get", "configmap", "settings")["data"] == {"renamed": "1", "b": "2"}
    assert "FIELDS" in kubectl("explain", "job.spec")
    assert "jobs" in kubectl("api-resources")
    assert "Controlled By" in kubectl("describe", "pods")
    kubectl("delete", "job", "j")
