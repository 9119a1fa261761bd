"""What a manifest does not disclose."""

import pytest

from muster.insight.jobs.disclosure import HIDDEN, hide_in_text, hide_secrets

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"python train.py --token={SECRET} --lr=3", f"python train.py --token={HIDDEN} --lr=3"),
        (f"--hf-token {SECRET} --lr 3", f"--hf-token {HIDDEN} --lr 3"),
        (f"API_KEY={SECRET} python x.py", f"API_KEY={HIDDEN} python x.py"),
        (f"password: '{SECRET} with blanks' rest", f"password: {HIDDEN} rest"),
        (f'{{"password": "{SECRET}"}}', f'{{"password": {HIDDEN}}}'),
        (f"curl -H 'Authorization: Bearer {SECRET}'", f"curl -H 'Authorization: Bearer {HIDDEN}'"),
        (f"git clone https://me:{SECRET}@host/x", f"git clone https://me:{HIDDEN}@host/x"),
        ("tokenizer=bpe --tokens 3 sleep 10", "tokenizer=bpe --tokens 3 sleep 10"),
        ("python train.py --epochs 3", "python train.py --epochs 3"),
    ],
)
def test_what_a_text_gives_to_tokens_and_passwords_is_hidden(text, shown):
    assert hide_in_text(text) == shown


def test_variables_keep_their_names_and_where_their_values_come_from():
    reference = {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    container = {"name": "c", "env": [{"name": "A", "value": SECRET}, reference, "odd"]}
    hidden = hide_secrets({"spec": {"template": {"spec": {"containers": [container]}}}})
    [shown] = hidden["spec"]["template"]["spec"]["containers"]
    assert shown["env"] == [{"name": "A", "value": HIDDEN}, reference, "odd"]


def test_the_word_behind_an_option_is_hidden_unless_it_is_an_option():
    command = ["train", "--api-key", SECRET, "--token", "--max-tokens", "512", 7]
    shown = ["train", "--api-key", HIDDEN, "--token", "--max-tokens", "512", 7]
    assert hide_secrets({"command": command})["command"] == shown


def test_the_manifest_that_kubectl_keeps_and_annotations_with_secrets_are_hidden():
    annotations = {
        "kubectl.kubernetes.io/last-applied-configuration": f'{{"env": [{{"value": "{SECRET}"}}]}}',
        "example.com/webhook-token": SECRET,
        "note": "plain",
    }
    hidden = hide_secrets({"metadata": {"annotations": annotations, "managedFields": [{"manager": "x"}]}})
    assert SECRET not in str(hidden)
    assert hidden["metadata"]["annotations"]["note"] == "plain"
    assert "managedFields" not in hidden["metadata"]


def test_the_manifest_itself_stays():
    manifest = {"command": ["--token", SECRET], "env": [{"name": "A", "value": SECRET}]}
    hide_secrets(manifest)
    assert manifest == {"command": ["--token", SECRET], "env": [{"name": "A", "value": SECRET}]}
