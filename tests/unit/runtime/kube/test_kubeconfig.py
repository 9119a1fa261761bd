"""What kubeconfigs say, how several merge, and how each kind of mistake in one is told."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.runtime.kube.kubeconfig import (
    ClusterConfig,
    ConnectionConfig,
    ExecConfig,
    Impersonation,
    InsecureKubeconfigError,
    KubeconfigError,
    UserConfig,
    require_inline,
)
from muster.runtime.kube.kubeconfig_parse import MAX_BYTES, Kubeconfig, from_dict, merge, parse

SECRET = "s3cr3t-t0k3n-that-nobody-may-see"
CERTIFICATE = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
KEY = b"-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n"
HOME = Path("/home/ada/.kube")


def encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


def document(cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **top: Any) -> dict[str, Any]:
    """A whole kubeconfig around one cluster and one user."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "current-context": "dev",
        "clusters": [{"name": "one", "cluster": {"server": "https://10.0.0.1:6443"} | (cluster or {})}],
        "users": [{"name": "ada", "user": user or {}}],
        "contexts": [{"name": "dev", "context": {"cluster": "one", "user": "ada"}}],
    } | top


def connection(cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None) -> ConnectionConfig:
    text = yaml.safe_dump(document(cluster, user)).encode()
    return parse(text, "/home/ada/.kube/config", HOME).connection()


def test_all_of_a_cluster() -> None:
    config = connection(
        {
            "server": "https://10.0.0.1:6443/prefix/",
            "certificate-authority-data": encoded(CERTIFICATE),
            "tls-server-name": "kubernetes",
            "proxy-url": "http://proxy:3128",
            "disable-compression": True,
            "extensions": [
                {"name": "other", "extension": 1},
                {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x", "level": 3}},
            ],
        }
    )
    assert config.cluster == ClusterConfig(
        server="https://10.0.0.1:6443/prefix",
        certificate_authority=CERTIFICATE,
        tls_server_name="kubernetes",
        proxy_url="http://proxy:3128",
        disable_compression=True,
        exec_extension={"audience": "x", "level": 3},
    )
    assert (config.context, config.namespace, config.source) == ("dev", "default", "/home/ada/.kube/config")


def test_all_of_a_user() -> None:
    config = connection(
        user={
            "token": f" {SECRET}\n",
            "tokenFile": "token",
            "client-certificate-data": encoded(CERTIFICATE),
            "client-key-data": encoded(KEY),
            "as": "grace",
            "as-uid": "7",
            "as-groups": ["admirals"],
            "as-user-extra": {"scope": ["a", "b"]},
        }
    )
    assert config.user == UserConfig(
        token=SECRET,
        token_file=HOME / "token",
        client_certificate=CERTIFICATE,
        client_key=KEY,
        impersonation=Impersonation("grace", "7", ("admirals",), (("scope", ("a", "b")),)),
    )


def test_all_of_an_exec_plugin() -> None:
    config = connection(
        user={
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": "aws",
                "args": ["eks", "get-token"],
                "env": [{"name": "AWS_PROFILE", "value": "dev"}],
                "installHint": "install it",
                "provideClusterInfo": True,
                "interactiveMode": "Never",
            }
        }
    )
    assert config.user.exec == ExecConfig(
        "client.authentication.k8s.io/v1",
        "aws",
        ("eks", "get-token"),
        (("AWS_PROFILE", "dev"),),
        "install it",
        provide_cluster_info=True,
        interactive_mode="Never",
    )


def test_v1beta1_plugins_may_leave_interactive_mode_out_and_nulls_count_as_absent() -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "x", "args": None, "env": None}
    config = connection(user={"exec": plugin, "token": None})
    assert config.user.exec == ExecConfig("client.authentication.k8s.io/v1beta1", "x")


@pytest.mark.parametrize(
    ("command", "resolved"), [("aws", "aws"), ("./bin/aws", "/home/ada/.kube/bin/aws"), ("/bin/aws", "/bin/aws")]
)
def test_a_plugin_with_a_slash_is_relative_to_the_file_and_others_are_on_the_path(command: str, resolved: str) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": command}
    config = connection(user={"exec": plugin})
    assert config.user.exec is not None
    assert config.user.exec.command == resolved


def test_paths_are_relative_to_the_file() -> None:
    config = connection(
        {"certificate-authority": "ca.crt"},
        {"client-certificate": "/etc/ada.crt", "client-key": "../ada.key", "tokenFile": "tokens/ada"},
    )
    assert config.cluster.certificate_authority_file == HOME / "ca.crt"
    assert config.user.client_certificate_file == Path("/etc/ada.crt")
    assert config.user.client_key_file == HOME / "../ada.key"
    assert config.user.token_file == HOME / "tokens/ada"


def test_inline_data_win_over_files() -> None:
    config = connection(
        {"certificate-authority": "ca.crt", "certificate-authority-data": encoded(CERTIFICATE)},
        {
            "client-certificate": "c",
            "client-key": "k",
            "client-certificate-data": encoded(CERTIFICATE),
            "client-key-data": encoded(KEY),
        },
    )
    assert config.cluster.certificate_authority_file is None
    assert config.cluster.certificate_authority == CERTIFICATE
    assert (config.user.client_certificate_file, config.user.client_key_file) == (None, None)


def test_base64_may_be_broken_into_lines() -> None:
    text = "\n".join(encoded(CERTIFICATE)[i : i + 20] for i in range(0, 100, 20)) + "\n"
    assert connection({"certificate-authority-data": text}).cluster.certificate_authority == CERTIFICATE


def test_json_is_read_too() -> None:
    assert parse(json.dumps(document()).encode(), "x").connection().cluster.server == "https://10.0.0.1:6443"


def test_a_dict_from_a_secret() -> None:
    config = from_dict(document(user={"token": SECRET}), "secret team/worker").connection()
    assert (config.user.token, config.source) == (SECRET, "secret team/worker")


def test_words_that_yaml_takes_for_other_types_stay_names() -> None:
    text = """
    current-context: on
    contexts: [{name: on, context: {cluster: 2026-01-01, namespace: no}}]
    clusters: [{name: 2026-01-01, cluster: {server: 'https://h', insecure-skip-tls-verify: true}}]
    """
    config = parse(text.encode(), "x").connection()
    assert (config.context, config.namespace, config.cluster.insecure_skip_tls_verify) == ("on", "no", True)


def test_a_context_needs_no_user() -> None:
    entry = {"name": "dev", "context": {"cluster": "one", "namespace": "team"}}
    config = from_dict(document(contexts=[entry]), "x").connection()
    assert (config.user, config.namespace) == (UserConfig(), "team")


def test_an_entry_that_is_not_used_is_not_judged() -> None:
    users = [{"name": "ada", "user": {}}, {"name": "broken", "user": {"auth-provider": {"name": "oidc"}}}]
    assert from_dict(document(users=users), "x").connection().user == UserConfig()


# ---- several files ----


def test_the_first_file_wins_whole_entry_by_whole_entry() -> None:
    first = document({"server": "https://first"}) | {"current-context": ""}
    second = document({"server": "https://second", "tls-server-name": "ignored"}, {"token": SECRET})
    second["users"].append({"name": "bob", "user": {"token": "b"}})
    second["contexts"].append({"name": "prod", "context": {"cluster": "one", "user": "bob"}})
    merged = merge([from_dict(first, "1", Path("/1")), from_dict(second, "2", Path("/2"))])
    assert merged.current_context == "dev"
    assert merged.source == "1:2"
    dev, prod = merged.connection(), merged.connection("prod")
    assert dev.cluster == ClusterConfig("https://first")
    assert dev.user == UserConfig()
    assert (prod.user.token, prod.source) == ("b", "2")


def test_paths_of_merged_files_are_relative_to_their_own_file() -> None:
    first = document({"certificate-authority": "ca"}, users=[])
    second = document(user={"tokenFile": "token"})
    config = merge([from_dict(first, "1", Path("/1")), from_dict(second, "2", Path("/2"))]).connection()
    assert config.cluster.certificate_authority_file == Path("/1/ca")
    assert config.user.token_file == Path("/2/token")


NAMES = st.sampled_from(["a", "b", "c"])
FILES = st.lists(st.tuples(NAMES, st.dictionaries(NAMES, st.integers(0, 9), max_size=3)), max_size=4)


@given(FILES)
def test_merging_is_first_come_first_served(files: list[tuple[str, dict[str, int]]]) -> None:
    configs = [
        from_dict(
            {
                "current-context": current,
                "clusters": [{"name": name, "cluster": {"server": f"https://h{port}"}} for name, port in ports.items()],
                "contexts": [{"name": name, "context": {"cluster": name}} for name in ports],
            },
            str(number),
        )
        for number, (current, ports) in enumerate(files)
    ]
    merged = merge(configs)
    expected: dict[str, int] = {}
    for _, ports in files:
        expected = ports | expected
    assert {name: merged.connection(name).cluster.server for name in merged.contexts} == {
        name: f"https://h{port}" for name, port in expected.items()
    }
    assert merged.current_context == (files[0][0] if files else "")
    assert merge([merge(configs[:2]), *configs[2:]]).contexts == merged.contexts


# ---- mistakes ----

PLUGIN = {"apiVersion": "client.authentication.k8s.io/v1", "command": "x", "interactiveMode": "Never"}

MISTAKES: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("no server", {"server": ""}, {}, "clusters[0].cluster.server: is missing"),
    ("no scheme", {"server": "10.0.0.1:6443"}, {}, "clusters[0].cluster.server: must start with https:// or http://"),
    ("other scheme", {"server": "ftp://h"}, {}, "clusters[0].cluster.server: must start with https:// or http://"),
    ("no host", {"server": "https://"}, {}, "clusters[0].cluster.server: is not a URL with a host"),
    ("bad port", {"server": "https://h:port"}, {}, "clusters[0].cluster.server: is not a URL"),
    ("port zero", {"server": "https://h:0"}, {}, "clusters[0].cluster.server: is not a URL"),
    ("bad bracket", {"server": "https://[::1"}, {}, "clusters[0].cluster.server: is not a URL"),
    ("space", {"server": "https://h /x"}, {}, "clusters[0].cluster.server: is not a URL"),
    ("query", {"server": "https://h?x=1"}, {}, "clusters[0].cluster.server: must have no query"),
    ("user in URL", {"server": f"https://u:{SECRET}@h"}, {}, "clusters[0].cluster.server: a user name and password"),
    ("server type", {"server": 5}, {}, "clusters[0].cluster.server: Expected `str`, got `int`; put it in quotes"),
    ("flag type", {"insecure-skip-tls-verify": "yes"}, {}, "insecure-skip-tls-verify: Expected `bool`, got `str`"),
    ("not base64", {"certificate-authority-data": "*"}, {}, "cluster.certificate-authority-data: is not base64"),
    ("not ASCII", {"certificate-authority-data": "é"}, {}, "cluster.certificate-authority-data: is not base64"),
    ("not PEM", {"certificate-authority-data": "AAAA"}, {}, "certificate-authority-data: holds no PEM 'CERTIFICATE'"),
    ("socks proxy", {"proxy-url": f"socks5://{SECRET}@h"}, {}, "proxy-url: must start with http:// or https://"),
    (
        "insecure and authority",
        {"insecure-skip-tls-verify": True, "certificate-authority": "x"},
        {},
        "insecure-skip-tls-verify: cannot be combined with a certificate authority",
    ),
    ("token type", {}, {"token": 12345}, "users[0].user.token: Expected `str`, got `int`; put it in quotes"),
    ("two logins", {}, {"token": SECRET, "username": "u"}, "users[0].user.username: cannot be combined with token"),
    ("no key", {}, {"client-certificate": "c"}, "users[0].user.client-key: is missing"),
    ("no certificate", {}, {"client-key-data": encoded(KEY)}, "users[0].user.client-certificate: is missing"),
    (
        "key is no key",
        {},
        {"client-certificate": "c", "client-key-data": encoded(CERTIFICATE)},
        "users[0].user.client-key-data: holds no PEM 'PRIVATE KEY' block",
    ),
    ("OIDC", {}, {"auth-provider": {"name": "oidc", "config": {"id-token": SECRET}}}, "kubelogin"),
    ("Azure", {}, {"auth-provider": {"name": "azure"}}, "kubelogin convert-kubeconfig"),
    ("Google", {}, {"auth-provider": {"name": "gcp"}}, "gke-gcloud-auth-plugin"),
    ("other provider", {}, {"auth-provider": {"name": "x"}}, "users[0].user.auth-provider: the 'x' provider"),
    ("no command", {}, {"exec": PLUGIN | {"command": ""}}, "users[0].user.exec.command: is missing"),
    ("no plugin version", {}, {"exec": PLUGIN | {"apiVersion": ""}}, "users[0].user.exec.apiVersion: is ''"),
    (
        "old plugin version",
        {},
        {"exec": PLUGIN | {"apiVersion": "client.authentication.k8s.io/v1alpha1"}},
        "supported are client.authentication.k8s.io/v1 and client.authentication.k8s.io/v1beta1",
    ),
    ("no mode", {}, {"exec": PLUGIN | {"interactiveMode": ""}}, "users[0].user.exec.interactiveMode: is missing"),
    ("bad mode", {}, {"exec": PLUGIN | {"interactiveMode": "Often"}}, "exec.interactiveMode: is 'Often'"),
    ("bad variable", {}, {"exec": PLUGIN | {"env": [{"name": "a=b"}]}}, "users[0].user.exec.env[0]: needs a name"),
    ("no variable", {}, {"exec": PLUGIN | {"env": [{"value": SECRET}]}}, "users[0].user.exec.env[0]: needs a name"),
    ("args type", {}, {"exec": PLUGIN | {"args": "x"}}, "users[0].user.exec.args: Expected `array`, got `str`"),
    ("groups alone", {}, {"as-groups": ["g"]}, "users[0].user.as: is missing"),
    (
        "header injection",
        {},
        {"as": "a\r\nb: c"},
        "users[0].user.as: and its groups, uid and extra may hold no control",
    ),
]


@pytest.mark.parametrize(("cluster", "user", "message"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
def test_a_mistake_names_the_file_the_field_and_the_rule(
    cluster: dict[str, Any], user: dict[str, Any], message: str
) -> None:
    with pytest.raises(KubeconfigError) as raised:
        connection(cluster, user)
    assert str(raised.value).startswith("/home/ada/.kube/config: ")
    assert message in str(raised.value)
    assert SECRET not in str(raised.value)
    assert "\n" not in str(raised.value)


SHAPES: list[tuple[str, bytes, str]] = [
    ("list", b"[]", "x: is not a kubeconfig: that is YAML or JSON with clusters, users and contexts"),
    ("text", b"root:x:0:0:root:/root:/bin/sh\n", "x: is not a kubeconfig: that is YAML or JSON with clusters"),
    ("clusters as map", b"clusters: {a: 1}", "x: clusters: Expected `array`, got `object`"),
    ("null entry", b"users: [~]", "x: users[0]: Expected `object`, got `null`"),
    ("no name", b"users: [{user: {}}]", "x: users[0]: Object missing required field `name`"),
    ("number as key", b"1: 2", "x: "),
    ("twice", b"users: [{name: a}, {name: a}]", "x: users[1].name: 'a' is there twice"),
    ("other kind", b"{apiVersion: v1, kind: Secret}", "x: is a 'v1 Secret', not a kubeconfig"),
    ("other version", b"{apiVersion: v2, kind: Config}", "x: is a 'v2 Config', not a kubeconfig"),
    ("not YAML", f"users:\n- token: {SECRET}: x".encode(), "x: line 2: is not YAML: mapping values are not allowed"),
    ("unclosed", b"users: [", "x: line 2: is not YAML"),
    ("two documents", b"a: 1\n---\nb: 2", "x: line 2: is not YAML: but found another document"),
    ("tag", b"users: !!python/object:os.system {}", "x: line 1: is not YAML: could not determine a constructor"),
    ("list as key", b"? [a]\n: b", "x: line 1: is not YAML: found unhashable key"),
    ("bytes", b"\x00\xff\x00", "x: is not a text file in YAML"),
    ("impossible number", b"a: 0x_", "x: is not a text file in YAML"),
    ("alias", b"a: &a {b: 1}\nc: *a", "x: line 2: YAML aliases are not supported here"),
    ("alias of itself", b"a: &a [*a]", "x: line 1: YAML aliases are not supported here"),
    ("deep", b"a: " + b"[" * 500_000, "x: line 1: is nested more than 64 levels deep"),
    ("huge", b"#" * (MAX_BYTES + 1), f"x: has {MAX_BYTES + 1} bytes, more than the {MAX_BYTES}"),
]


@pytest.mark.parametrize(("data", "message"), [s[1:] for s in SHAPES], ids=[s[0] for s in SHAPES])
def test_a_file_of_another_shape_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(KubeconfigError) as raised:
        parse(data, "x")
    assert str(raised.value).startswith(message)
    assert SECRET not in str(raised.value)


REFERENCES: list[tuple[str, dict[str, Any], str, str]] = [
    ("no current", {"current-context": ""}, "", "x: current-context is not set; there are contexts 'dev'"),
    ("wrong current", {"current-context": "b"}, "", "x: current-context 'b' does not exist; there are contexts 'dev'"),
    ("wrong choice", {}, "prod", "x: context 'prod' does not exist; there are contexts 'dev'"),
    ("none", {"contexts": []}, "dev", "x: context 'dev' does not exist; there are no contexts"),
    ("no cluster", {"clusters": []}, "", "x: contexts[0].context.cluster: 'one' does not exist; there are no clusters"),
    ("no user", {"users": []}, "", "x: contexts[0].context.user: 'ada' does not exist; there are no users"),
]


@pytest.mark.parametrize(("top", "context", "message"), [r[1:] for r in REFERENCES], ids=[r[0] for r in REFERENCES])
def test_a_name_that_leads_nowhere_is_told_with_the_ones_that_exist(
    top: dict[str, Any], context: str, message: str
) -> None:
    with pytest.raises(KubeconfigError) as raised:
        from_dict(document(**top), "x").connection(context)
    assert str(raised.value) == message


def test_an_empty_file_is_an_empty_kubeconfig() -> None:
    assert parse(b"", "x") == Kubeconfig("x")


def test_a_relative_path_needs_a_file_to_be_relative_to() -> None:
    with pytest.raises(KubeconfigError, match=r"secret: users\[0\]\.user\.tokenFile: 'token' is relative"):
        from_dict(document(user={"tokenFile": "token"}), "secret").connection()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "cluster", "user", "context", "server", "exec", "env"]), inner)
    ),
    max_leaves=10,
)


@given(st.binary(max_size=200))
def test_no_text_breaks_the_parser(data: bytes) -> None:
    with pytest.raises(KubeconfigError, match=r"^x: "):
        parse(data, "x").connection()


@given(st.dictionaries(st.sampled_from(["clusters", "users", "contexts", "current-context", "kind"]), JSON))
def test_no_document_breaks_the_parser(value: dict[str, Any]) -> None:
    with pytest.raises(KubeconfigError, match=r"^x: "):
        from_dict(value, "x").connection()


def test_no_secret_shows_in_a_repr() -> None:
    plugin = PLUGIN | {"args": [SECRET], "env": [{"name": "A", "value": SECRET}]}
    users = {"token": SECRET, "exec": plugin}, {"username": "u", "password": SECRET}
    proxy = {"proxy-url": f"http://u:{SECRET}@proxy"}
    for user in users:
        kubeconfig = from_dict(document(proxy, user), "x")
        for value in (kubeconfig, kubeconfig.connection(), kubeconfig.connection().user):
            assert SECRET not in repr(value) + repr([*value.__rich_repr__()])
    certificate = {"client-certificate-data": encoded(CERTIFICATE), "client-key-data": encoded(KEY)}
    assert "PRIVATE" not in repr(connection(user=certificate))


# ---- kubeconfigs of others ----

FOREIGN: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("insecure", {"insecure-skip-tls-verify": True}, {}, "insecure-skip-tls-verify is not allowed"),
    ("http", {"server": "http://h"}, {}, "the server must be reached by https"),
    ("proxy", {"proxy-url": "http://10.0.0.1:80"}, {}, "proxy-url is not allowed"),
    ("authority file", {"certificate-authority": "/a"}, {}, "certificate-authority must be given as"),
    ("token file", {}, {"tokenFile": "/a"}, "tokenFile is not allowed"),
    ("certificate file", {}, {"client-certificate": "/a", "client-key": "/b"}, "client-certificate must be given as"),
    (
        "key file",
        {},
        {"client-certificate-data": encoded(CERTIFICATE), "client-key": "/b"},
        "client-key must be given as",
    ),
    ("password", {}, {"username": "u", "password": "p"}, "username and password are not allowed"),
    ("plugin", {}, {"exec": PLUGIN}, "exec plugins are not allowed"),
]


@pytest.mark.parametrize(("cluster", "user", "message"), [f[1:] for f in FOREIGN], ids=[f[0] for f in FOREIGN])
def test_a_kubeconfig_of_somebody_else_may_not_touch_this_machine(
    cluster: dict[str, Any], user: dict[str, Any], message: str
) -> None:
    with pytest.raises(InsecureKubeconfigError, match=message):
        require_inline(connection(cluster, user))


def test_a_kubeconfig_of_somebody_else_may_hold_inline_credentials() -> None:
    certificate = {"client-certificate-data": encoded(CERTIFICATE), "client-key-data": encoded(KEY)}
    cluster = {"certificate-authority-data": encoded(CERTIFICATE)}
    assert is_inline(connection(cluster, certificate | {"token": SECRET}))
    assert not is_inline(connection(cluster, certificate | {"tokenFile": "/a"}))


def is_inline(config: ConnectionConfig) -> bool:
    try:
        require_inline(config)
    except InsecureKubeconfigError:
        return False
    return True
