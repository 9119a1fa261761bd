"""kubectl and what people have: CRDs and sample manifests, the peers' too, through a whole life.

What no server without their operators knows (RayJob, Kubeflow's and Tekton's kinds) is refused as unknown.
"""

import re
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml
from tests.documents import files

pytestmark = [pytest.mark.kubectl, pytest.mark.timeout(300)]

Kubectl: TypeAlias = Any  # the fixture's class, in conftest

CRDS = files("crds/*/*.yaml")
MANIFESTS = files("manifests/*/*.yaml")
# Groups of kinds that are neither built in nor defined in `crds`.
UNKNOWN_GROUPS = (
    "agents.x-k8s.io", "argoproj.io", "kind.x-k8s.io", "kubeflow.org", "monitoring.coreos.com", "ray.io", "tekton.dev",
    "trainer.kubeflow.org",
)  # fmt: skip
# The annotation that client-side apply would need for them is longer than an object may have.
TOO_LONG_FOR_CLIENT_SIDE = ("jobsets.jobset.x-k8s.io", "workloads.kueue.x-k8s.io")

# What is served on request only, and the kinds that have a controller outside which lets them wait in a queue.
CONFIGURATION = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
integrations:
  frameworks: [batch/job, pod]
  externalFrameworks: [JobSet.v1alpha2.jobset.x-k8s.io]
muster:
  apis: [scheduling.k8s.io/v1alpha2]
"""


@cache
def documents(path: Path) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def group(document: dict[str, Any]) -> str:
    return str(document["apiVersion"]).rpartition("/")[0]


def name_of(crd: Path) -> str:
    return str(documents(crd)[0]["metadata"]["name"])


def served(crd: Path) -> list[str]:
    """The versions of its API that a CRD serves."""
    spec = documents(crd)[0]["spec"]
    versions = [each["name"] for each in spec.get("versions", ()) if each["served"]] or [spec["version"]]
    return [f"{spec['group']}/{version}" for version in versions]


def text(found: list[dict[str, Any]]) -> str:
    return yaml.safe_dump_all(found)


@pytest.fixture(scope="module")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The newest kubectl for a server of its own, with the CRDs in place, and nothing that has a sample's name."""
    from tests.peers.conftest import Kubectl, releases, start

    home = tmp_path_factory.mktemp("manifests") / "home"
    settings = home.with_name("configuration.yaml")
    settings.write_text(CONFIGURATION)
    with start(home, "--config", str(settings)) as server:
        assert server.kubeconfig == home / "kubeconfig"
        kubectl = Kubectl(releases()[-1], home, "default")
        kubectl("delete", "localqueue/default", "clusterqueue/muster-default", "resourceflavor/muster-nodes")
        for crd in CRDS:
            kubectl.run("apply", "--server-side", "-f", str(crd))
        yield kubectl


@pytest.mark.parametrize("crd", CRDS, ids=lambda crd: crd.stem)
def test_crd(newest: Kubectl, crd: Path) -> None:
    name = name_of(crd)
    definition = f"crd/{name}"
    assert "condition met" in newest("wait", "--for=condition=Established", "--timeout=10s", definition)
    for side in ("--server-side=true", "--server-side=false"):
        if "true" in side or name not in TOO_LONG_FOR_CLIENT_SIDE:
            # It may warn: of an old version, of an object that was made without the annotation.
            for done in (newest.run("apply", side, "-f", str(crd)), newest.run("diff", side, "-f", str(crd))):
                assert done.returncode == 0, done.stdout + done.stderr
    for version in served(crd):
        assert "FIELDS:" in newest("explain", name.partition(".")[0], "--api-version", version, "--recursive")
    patched = newest.run("patch", definition, "--type=merge", "-p", '{"metadata":{"labels":{"seen":"yes"}}}')
    is_users = name.endswith(".example.com")
    assert patched.returncode == 0
    assert ("only metadata of its definition can change" in patched.stderr) is not is_users
    assert f"/{name}\n" in newest("get", "crd", "-l", "seen=yes", "-o", "name")
    assert newest("get", name, "-A", "-o", "name") is not None


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_manifest(newest: Kubectl, manifest: Path) -> None:
    known = [each for each in documents(manifest) if not group(each).endswith(UNKNOWN_GROUPS)]
    unknown = [each for each in documents(manifest) if group(each).endswith(UNKNOWN_GROUPS)]
    if unknown:
        assert "no matches for kind" in newest.refused("apply", "-f", "-", input=text(unknown))
    for namespace in {each["metadata"].get("namespace", "default") for each in known} - {"default"}:
        newest.run("create", "namespace", namespace)
    named = [each for each in known if "name" in each["metadata"]]
    generated = [each for each in known if "name" not in each["metadata"]]
    if generated:
        assert "created" in newest("create", "--dry-run=server", "-f", "-", input=text(generated))
    if named:
        lives(newest, text(named), len(named))


def settled_diff(kubectl: Kubectl, side: str, manifests: str) -> str:
    """What kubectl finds different; controllers may write a status between the two reads that it compares."""
    said = ""
    for _ in range(5):
        compared = kubectl.run("diff", side, "-f", "-", input=manifests)
        if compared.returncode == 0:
            return ""
        said = f"exit code {compared.returncode}\n{compared.stdout}{compared.stderr}"
    return said


def lives(kubectl: Kubectl, manifests: str, count: int) -> None:
    """Applied from both sides, compared and deleted; shown and changed, which knows no side, once."""
    for side in ("--server-side=false", "--server-side=true"):
        done = kubectl.run("apply", side, "--force-conflicts=" + side.rpartition("=")[2], "-f", "-", input=manifests)
        assert done.returncode == 0, done.stderr
        assert len(re.findall(r"created|configured|unchanged|applied", done.stdout)) == count, done.stdout
        assert settled_diff(kubectl, side, manifests) == ""
        if side == "--server-side=false":
            assert kubectl("get", "-f", "-", "-o", "name", input=manifests).count("\n") == count
            patch = '{"metadata":{"annotations":{"seen":"yes"}}}'
            assert kubectl("patch", "--type=merge", "-p", patch, "-f", "-", input=manifests).count("patched") == count
        # With a namespace goes what is in it, maybe before its own turn.
        deleted = kubectl.run("delete", "--ignore-not-found", "--timeout=20s", "-f", "-", input=manifests)
        assert deleted.returncode == 0, deleted.stderr
