"""`muster up --audit-policy`: the policy is read before anything starts, and what it says is logged."""

import json

HEAD = "apiVersion: audit.k8s.io/v1\nkind: Policy\n"


def test_a_policy_is_checked_first_and_then_holds(muster, tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text(HEAD + "rules: [{level: Everything}]\n")
    refused = muster("up", "--detach", "--port", "0", "--audit-policy", str(file), check=False)
    assert refused.returncode == 2
    assert f"Invalid value for --audit-policy: {file}: Invalid enum value 'Everything'" in refused.stderr
    assert "No such file" in muster("up", "--audit-policy", str(tmp_path / "none"), check=False).stderr
    assert not muster.home.exists()

    file.write_text(HEAD + 'rules: [{level: None, users: ["system:muster"]}, {level: Metadata}]\n')
    muster("up", "--detach", "--port", "0", "--audit-policy", str(file))
    muster("ps")
    events = [json.loads(line) for line in (muster.home / "audit.log").read_text().splitlines()]
    assert {event["user"]["username"] for event in events} == {"kubernetes-admin"}
    assert {"RequestReceived", "ResponseComplete"} <= {event["stage"] for event in events}
    assert any(event["verb"] == "list" and event["objectRef"]["resource"] == "jobs" for event in events)
