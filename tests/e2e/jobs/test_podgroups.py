"""PodGroups by the installed command, on real processes."""

import json
import time

MANIFEST = """
apiVersion: incubator.scheduling.k8s.io/v1alpha1
kind: PodGroup
metadata: {{name: {name}}}
spec: {{minMembers: {minimum}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}-a, annotations: {{scheduling.k8s.io/group-name: {name}}}}}
spec:
  restartPolicy: Never
  containers: [{{name: c, image: none, command: [sleep, "60"]}}]
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}-b, annotations: {{scheduling.k8s.io/group-name: {name}}}}}
spec:
  restartPolicy: Never
  containers: [{{name: c, image: none, command: [sleep, "60"]}}]
"""


def rows(muster):
    return {row["name"]: row for row in json.loads(muster("podgroups", "list", "-o", "json").stdout)}


def test_groups_are_listed_and_described(up, tmp_path):
    manifest = tmp_path / "groups.yaml"
    manifest.write_text(MANIFEST.format(name="pair", minimum=2) + "---" + MANIFEST.format(name="trio", minimum=3))
    assert up("podgroups", "list").stderr == "no PodGroups\n"
    up("apply", "-f", str(manifest))
    end = time.monotonic() + 30
    while rows(up)["pair"]["running"] < 2:
        assert time.monotonic() < end, rows(up)
        time.sleep(0.1)
    found = rows(up)
    assert (found["pair"]["state"], found["pair"]["reason"]) == ("Ready", "")
    assert (found["trio"]["state"], found["trio"]["reason"]) == ("Waiting", "2 of 3 pods exist")
    assert up("podgroups", "list", "-o", "name").stdout == "pair\ntrio\n"
    header, *lines = up("podgroups", "list").stdout.splitlines()
    assert header.split() == ["NAME", "STATE", "MIN", "PODS", "BOUND", "RUNNING", "AGE", "REASON"]
    assert [line.split()[:3] for line in lines] == [["pair", "Ready", "2"], ["trio", "Waiting", "3"]]
    described = up("podgroups", "describe", "trio").stdout
    assert "state:           Waiting: 2 of 3 pods exist" in described
    assert "trio-a   Pending   -" in described
    why = up("why", "trio").stdout  # an event may have come meanwhile
    assert why.partition("SEEN")[0].rstrip() == described.partition("SEEN")[0].rstrip()
    refused = up("podgroups", "describe", "paar", check=False)
    assert refused.returncode == 1
    assert refused.stderr == "Error: there is no PodGroup paar in namespace default; did you mean pair?\n"
