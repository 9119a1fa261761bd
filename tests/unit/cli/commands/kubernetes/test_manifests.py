"""`muster manifests`: what is printed, and what it will not print."""

import pytest
import yaml
from click.testing import CliRunner

from muster.cli.main import cli
from muster.install.crds import FAMILIES


def invoke(*arguments: str):
    return CliRunner().invoke(cli, ["manifests", *arguments])


def test_all_is_printed_as_one_stream_of_documents(tmp_path):
    file = tmp_path / "muster.yaml"
    file.write_text(
        "# ours\napiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nnamespace: batch\n"
        "integrations: {frameworks: [batch/job]}\n"
    )
    done = invoke("--config", str(file), "--image", "example/muster:1", "--replicas", "3")
    found = {each["kind"]: each for each in yaml.load_all(done.stdout, yaml.CSafeLoader)}
    assert (done.exit_code, done.stderr) == (0, "")
    assert found["ConfigMap"]["data"]["config.yaml"] == file.read_text()
    assert found["Deployment"]["metadata"]["namespace"] == "batch"
    assert found["Deployment"]["spec"]["replicas"] == 3


def test_a_framework_that_has_no_effect_is_told_beside_the_documents(tmp_path):
    file, name = tmp_path / "kueue.yaml", "sparkoperator.k8s.io/sparkapplication"
    file.write_text(
        f"apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nintegrations: {{frameworks: [{name}]}}\n"
    )
    done = invoke("--config", str(file))
    said = f"warning: integrations.frameworks names {name}: Muster has no integration for it"
    assert (done.exit_code, said in done.stderr, said in done.stdout) == (0, True, False)


def test_the_script_of_a_removal_is_for_the_same_namespace():
    done = invoke("--uninstall", "--namespace", "batch")
    assert done.exit_code == 0
    assert "remove deployment.apps -n batch --cascade=foreground \\\n  muster-controller-manager\n" in done.stdout


KINDS = {
    "kueue": "clusterqueues.kueue.x-k8s.io",
    "jobset": "jobsets.jobset.x-k8s.io",
    "podgroups": "podgroups.scheduling.volcano.sh",
}


@pytest.mark.parametrize("uninstall", [(), ("--uninstall",)])
@pytest.mark.parametrize("kinds", [("kueue",), ("jobset", "podgroups"), ()])
def test_definitions_come_and_go_with_the_kinds_that_are_named(kinds: tuple[str, ...], uninstall: tuple[str, ...]):
    done = invoke(*(word for kind in kinds for word in ("--kinds", kind)), *uninstall)
    lines = {line.removesuffix(" \\") for line in done.stdout.splitlines()}
    found = {kind for kind, name in KINDS.items() if {f"  {name}", f"  name: {name}"} & lines}
    assert found == ({"kueue", *kinds} if uninstall else set(kinds or FAMILIES))


def test_without_an_election_there_is_one_replica(tmp_path):
    file = tmp_path / "muster.yaml"
    file.write_text(
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nleaderElection: {leaderElect: false}\n"
    )
    (deployment,) = [
        each
        for each in yaml.load_all(invoke("--config", str(file)).stdout, yaml.CSafeLoader)
        if each["kind"] == "Deployment"
    ]
    assert deployment["spec"]["replicas"] == 1
    done = invoke("--config", str(file), "--replicas", "2")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "2 would all work at the same time" in " ".join(done.stderr.split())


def test_what_cannot_be_installed_is_said(tmp_path):
    file = tmp_path / "muster.yaml"
    file.write_text("apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nnamespace: batch\n")
    address = tmp_path / "address.yaml"
    address.write_text(file.read_text() + "metrics: {bindAddress: nowhere}\n")
    refused = {
        ("--config", str(file), "--namespace", "other"): f"{file} says namespace: batch; say the same in both",
        ("--namespace", "kube-system"): "kube-system will not do: the engine needs a namespace of its own",
        ("--replicas", "0"): "0 is not in the range",
        ("--image", "two words"): "'two words' is no image",
        ("--config", str(address)): "'nowhere' is no address to serve at",
        ("--config", str(tmp_path / "none")): "No such file or directory",
    }
    for arguments, words in refused.items():
        done = invoke(*arguments)
        assert (done.exit_code, done.stdout) == (2, ""), arguments
        assert words in " ".join(done.stderr.split()), arguments
