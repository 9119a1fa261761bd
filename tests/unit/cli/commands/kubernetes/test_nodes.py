"""Which nodes `muster nodes` takes, and of which servers."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from muster.cli.commands.kubernetes.nodes import command


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--nodes", "process:2"], "this machine joins another cluster as one process node"),
        (["--nodes", "process", "--nodes", "process,cpu=1"], "this machine joins another cluster as one process node"),
        (["--nodes", "process", "--name", "../box"], "'../box': a lowercase RFC 1123 subdomain must"),
        (["--nodes", "process", "--name", ""], "'': a lowercase RFC 1123 subdomain must"),
        (["--nodes", "process", "--client-ca", "/missing"], "/missing: No such file or directory"),
        (["--nodes", "process", "--client-ca", __file__], "holds no certificates in PEM"),
        (["--nodes", "process", "--lease-duration", "soon"], "invalid duration"),
        (["--nodes", "process", "--lease-duration", "1500ms"], "is no whole number of seconds from 1s to 60m"),
        (["--nodes", "process", "--lease-duration", "2h"], "is no whole number of seconds from 1s to 60m"),
        (["--nodes", "simulated", "--name", "box"], "are of a process node: --nodes process"),
        (["--nodes", "kubelet"], "'kubelet' is not a kind of node"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, arguments: list[str], problem: str) -> None:
    done = CliRunner().invoke(command, [*arguments, "--data", str(tmp_path / "home")])
    assert done.exit_code == 2
    assert problem in " ".join(done.stderr.split())


KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "http://127.0.0.1:9"}}]
contexts: [{name: a, context: {cluster: a}}]
current-context: a
"""


@pytest.mark.parametrize("nodes", ["process", "simulated:3"])
def test_a_server_that_is_not_there_is_said(tmp_path: Path, nodes: str) -> None:
    config = tmp_path / "config"
    config.write_text(KUBECONFIG)
    arguments = ["--kubeconfig", str(config), "--nodes", nodes, "--data", str(tmp_path / "home")]
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 1
    assert done.stderr == "Error: GET http://127.0.0.1:9/version: Connection refused\n"
