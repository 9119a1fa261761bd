"""`muster dashboard`: which options go together."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from muster.cli.main import cli

HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
NAMES = HEAD + "muster: {dashboard: {identityHeaders: {userHeader: X-User, secretHeader: X-Secret}}}\n"
UNPROVEN = HEAD + "muster: {dashboard: {identityHeaders: {userHeader: X-User}}}\n"
KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
"""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--config", "names.yaml"], "need --sign-in"),
        (["--proxy-files", "."], "need --sign-in"),
        (["--sign-in", "--config", "names.yaml"], "need --proxy-files"),
        (["--sign-in", "--config", "names.yaml", "--proxy-files", "."], "secret holds no secret of the proxy"),
        (["--sign-in", "--config", "names.yaml", "--proxy-files", ".", "--token-header", "X"], "exclude each other"),
        (["--sign-in", "--proxy-files", "."], "is for a proxy that names viewers"),
        (["--sign-in", "--config", "plain.yaml", "--proxy-files", "."], "is for a proxy that names viewers"),
        (["--sign-in", "--config", "unproven.yaml", "--proxy-files", "."], "anybody could send the headers"),
        (["--sign-in", "--config", "none.yaml", "--proxy-files", "."], "none.yaml: No such file"),
    ],
)
def test_nobody_is_served_before_it_is_settled_who_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path / "home"))
    for name, text in {"names": NAMES, "plain": HEAD, "unproven": UNPROVEN, "kube": KUBECONFIG}.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    done = CliRunner().invoke(cli, ["dashboard", "--kubeconfig", "kube.yaml", *options])
    assert done.exit_code == 2, done.output
    assert said in " ".join(done.output.replace("│", " ").split())
