"""What is installed for the dashboard: no right, unless a proxy in front names the viewers."""

from typing import Any

import pytest

from muster.api.config import load
from muster.install.dashboard import describe_rights
from muster.install.documents import make_documents
from muster.install.options import Options, make_default_configuration
from muster.install.removal import make_removal_script

NAMES = """
muster:
  dashboard:
    identityHeaders:
      userHeader: X-User
      secretHeader: X-Secret
"""
FEW = """
muster:
  dashboard:
    identityHeaders:
      userHeader: X-User
      groupsHeader: X-Groups
      extraHeaders: {example.com/team: X-Team}
      allowedUsers: [alice, bob]
      allowedGroups: [lab]
      allowedNames: [front]
      secretName: proof
"""


def options(more: str = "", **others: Any) -> Options:
    text = make_default_configuration() + more
    return Options(text, load(text), kinds=(), dashboard=True, **others)


def installed(more: str = "") -> dict[str, Any]:
    """What is installed for the dashboard, by its kind."""
    found = [each for each in make_documents(options(more)) if each["metadata"]["name"].startswith("muster-dashboard")]
    return {each["kind"]: each for each in found}


@pytest.mark.parametrize("more", ["", "muster: {dashboard: {tokenHeader: X-Token}}\n"])
def test_viewers_with_tokens_need_no_right_of_the_dashboard(more: str) -> None:
    found = installed(more)
    assert set(found) == {"ServiceAccount", "ConfigMap", "Service", "Deployment"}
    pod = found["Deployment"]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert "--proxy-files" not in pod["containers"][0]["command"]
    assert describe_rights(options(more)) == ""


def test_viewers_whom_a_proxy_names_need_one_to_impersonate() -> None:
    found = installed(NAMES)
    assert found["ClusterRole"]["rules"] == [{"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]}]
    [subject] = found["ClusterRoleBinding"]["subjects"]
    assert subject == {"kind": "ServiceAccount", "name": "muster-dashboard", "namespace": "kueue-system"}
    said = describe_rights(options(NAMES))
    assert "kueue-system/muster-dashboard may act as every user of the cluster" in said
    assert "allowedUsers narrows that" in said


def test_the_right_is_as_narrow_as_the_configuration() -> None:
    assert installed(FEW)["ClusterRole"]["rules"] == [
        {"apiGroups": [""], "resources": ["users"], "resourceNames": ["alice", "bob"], "verbs": ["impersonate"]},
        {"apiGroups": [""], "resources": ["groups"], "resourceNames": ["lab"], "verbs": ["impersonate"]},
        {
            "apiGroups": ["authentication.k8s.io"],
            "resources": ["userextras/example.com/team"],
            "verbs": ["impersonate"],
        },
    ]
    assert describe_rights(options(FEW)).endswith("may act as alice, bob and in the groups lab")


def test_the_pod_has_its_token_and_what_proves_the_proxy() -> None:
    pod = installed(FEW)["Deployment"]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is True
    assert {"name": "proxy", "secret": {"secretName": "proof"}} in pod["volumes"]
    [container] = pod["containers"]
    command = container["command"]
    folder = command[command.index("--proxy-files") + 1]
    assert {"name": "proxy", "mountPath": folder, "readOnly": True} in container["volumeMounts"]


def test_a_changed_configuration_starts_the_pod_again() -> None:
    noted = [
        installed(more)["Deployment"]["spec"]["template"]["metadata"]["annotations"]["muster.dev/configuration"]
        for more in ("", NAMES, FEW)
    ]
    assert len(set(noted)) == 3


@pytest.mark.parametrize("more", ["", NAMES])
def test_no_right_to_act_as_others_stays_behind(more: str) -> None:
    text = make_default_configuration() + more
    script = make_removal_script(Options(text, load(text), kinds=("kueue",)))
    for kind in ("clusterrole", "clusterrolebinding"):
        [command] = [
            part for part in script.split("\nremove ") if part.startswith(f"{kind}.") and "muster-dashboard" in part
        ]
        assert "muster-dashboard-impersonation" in command
