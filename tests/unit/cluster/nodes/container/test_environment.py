import base64
import tracemalloc
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.api.core import CONFIG_MAP, SECRET
from muster.cluster.nodes.container.environment import (
    MAX_STRING,
    MAX_TOTAL,
    ConfigError,
    Names,
    Objects,
    TooLongError,
    build_environment,
    command_line,
    encode,
    expand,
    list_references,
)

NOTHING = Objects({}, {})
VARIABLES = {"A": "1", "B": "two", "EMPTY": "", "NESTED": "$(A)"}


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        # The cases of upstream's own table (third_party/forked/golang/expansion).
        ("", ""),
        ("$(A)", "1"),
        ("___$(A)___", "___1___"),
        ("$(A)-$(B)", "1-two"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$$$$(A)", "$$(A)"),
        ("$(EMPTY)", ""),
        ("$(NESTED)", "$(A)"),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$()", "$()"),
        ("$(A", "$(A"),
        ("$A", "$A"),
        ("$", "$"),
        ("a$", "a$"),
        ("$$", "$"),
        ("$$$", "$$"),
        ("$)A(", "$)A("),
        ("f$(A)o$$o$(B)", "f1o$otwo"),
        ("$(A)$$(B)$(UNKNOWN)", "1$(B)$(UNKNOWN)"),
        ("$($(A))", "$($(A))"),
    ],
)
def test_expansion(text, expanded):
    assert expand(text, VARIABLES) == expanded


@given(st.text(alphabet="$()AB ", max_size=30))
def test_doubling_every_dollar_is_an_escape(text):
    assert expand(text.replace("$", "$$"), VARIABLES) == text


def objects(config_maps=None, secrets=None):
    def decode(kind, name, data):
        import msgspec

        return kind.decode(msgspec.json.encode({"metadata": {"name": name}, "data": data}))

    encoded = {
        name: {key: base64.b64encode(value).decode() for key, value in data.items()}
        for name, data in (secrets or {}).items()
    }
    return Objects(
        {name: decode(CONFIG_MAP, name, data) for name, data in (config_maps or {}).items()},
        {name: decode(SECRET, name, data) for name, data in encoded.items()},
    )


def build(make_pod, around, container, known=NOTHING, defaults=None, **metadata):
    pod = make_pod({"containers": [{"name": "main", "command": ["x"], **container}]}, **metadata)
    return build_environment(pod, pod.spec.containers[0], known, around, defaults or {})


def value(make_pod, around, source, known=NOTHING, **metadata):
    found = build(make_pod, around, {"env": [{"name": "X", "valueFrom": source}]}, known, **metadata)
    return found.variables.get("X")


def test_values_see_what_was_defined_before_them(make_pod, around):
    env = [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "$(A)$(C)"},
        {"name": "C", "value": "3"},
        {"name": "A", "value": "$(A)1"},
        {"name": "E"},
    ]
    found = build(make_pod, around, {"env": env}, defaults={"PATH": "/bin"}).variables
    assert found == {"PATH": "/bin", "A": "11", "B": "1$(C)", "C": "3", "E": ""}


def test_env_wins_over_env_from_and_later_sources_over_earlier(make_pod, around):
    known = objects({"one": {"A": "1", "B": "1", "C": "1"}, "two": {"B": "2", "C": "2"}}, {"s": {"D": b"secret"}})
    container = {
        "envFrom": [
            {"configMapRef": {"name": "one"}},
            {"configMapRef": {"name": "two"}},
            {"prefix": "P_", "secretRef": {"name": "s"}},
        ],
        "env": [{"name": "C", "value": "3 $(P_D)"}],
    }
    found = build(make_pod, around, container, known).variables
    assert found == {"A": "1", "B": "2", "C": "3 secret", "P_D": "secret"}


def test_keys_that_are_no_names_are_left_out_and_told(make_pod, around):
    known = objects({"one": {"good": "1", "b\u00e4d": "2"}})
    found = build(make_pod, around, {"envFrom": [{"configMapRef": {"name": "one"}}]}, known)
    assert found.variables == {"good": "1"}
    assert found.skipped == (("configMap ns/one", ("b\u00e4d",)),)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "ns"),
        ("metadata.uid", "uid-1"),
        ("metadata.labels['app.kubernetes.io/name']", "web"),
        ("metadata.annotations['it''s']", "odd"),
        ("metadata.annotations['none']", ""),
        ("spec.nodeName", "node-0"),
        ("spec.serviceAccountName", "robot"),
        ("status.hostIP", "127.0.0.1"),
        ("status.hostIPs", "127.0.0.1"),
        ("status.podIP", "127.1.0.7"),
        ("status.podIPs", "127.1.0.7"),
    ],
)
def test_fields_of_the_pod(make_pod, around, path, text):
    env = [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}]
    spec = {"serviceAccountName": "robot", "containers": [{"name": "main", "env": env}]}
    pod = make_pod(spec, labels={"app.kubernetes.io/name": "web"}, annotations={"it''s": "odd"})
    assert build_environment(pod, pod.spec.containers[0], NOTHING, around, {}).variables == {"X": text}


RESOURCES = {"limits": {"cpu": "1500m", "memory": "1Gi"}, "requests": {"cpu": "250m", "memory": "64Mi"}}


@pytest.mark.parametrize(
    ("resource", "divisor", "text"),
    [
        ("limits.cpu", None, "2"),
        ("limits.cpu", "1m", "1500"),
        ("limits.memory", None, "1073741824"),
        ("limits.memory", "1Mi", "1024"),
        ("limits.memory", "0", "1073741824"),
        ("requests.cpu", "1", "1"),
        ("requests.memory", "1M", "68"),
        ("requests.ephemeral-storage", None, "0"),
        ("limits.ephemeral-storage", None, "0"),
    ],
)
def test_resources_are_rounded_up(make_pod, around, resource, divisor, text):
    selector = {"resource": resource} | ({"divisor": divisor} if divisor else {})
    env = [{"name": "X", "valueFrom": {"resourceFieldRef": selector}}]
    found = build(make_pod, around, {"resources": RESOURCES, "env": env})
    assert found.variables == {"X": text}


def test_a_limit_that_is_not_set_is_what_the_node_has(make_pod, around):
    assert value(make_pod, around, {"resourceFieldRef": {"resource": "limits.cpu"}}) == "3"
    assert value(make_pod, around, {"resourceFieldRef": {"resource": "limits.memory"}}) == str(4 << 30)


def test_keys_of_objects(make_pod, around):
    known = objects({"c": {"k": "text"}}, {"s": {"k": b"\xff\x00y"}})
    assert value(make_pod, around, {"configMapKeyRef": {"name": "c", "key": "k"}}, known) == "text"
    secret = value(make_pod, around, {"secretKeyRef": {"name": "s", "key": "k"}}, known)
    assert encode({"X": secret}) == [(b"X", b"\xff\x00y")]


@pytest.mark.parametrize("optional", [True, False])
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"configMapKeyRef": {"name": "none", "key": "k"}}, 'configmap "none" not found'),
        ({"configMapKeyRef": {"name": "c", "key": "none"}}, "couldn't find key none in ConfigMap ns/c"),
        ({"secretKeyRef": {"name": "none", "key": "k"}}, 'secret "none" not found'),
        ({"secretKeyRef": {"name": "s", "key": "none"}}, "couldn't find key none in Secret ns/s"),
    ],
)
def test_what_is_missing_stops_the_container_unless_it_is_optional(make_pod, around, source, message, optional):
    known = objects({"c": {"k": "text"}}, {"s": {"k": b"x"}})
    source = {kind: {**ref, "optional": optional} for kind, ref in source.items()}
    if optional:
        assert value(make_pod, around, source, known) is None
    else:
        with pytest.raises(ConfigError, match="^" + message.replace("'", ".") + "$") as caught:
            value(make_pod, around, source, known)
        assert caught.value.reason == "CreateContainerConfigError"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"fieldRef": {"fieldPath": "spec.volumes"}}, "unsupported fieldPath: spec.volumes"),
        ({"resourceFieldRef": {"resource": "limits.cpu", "containerName": "other"}}, "container other not found"),
        ({"resourceFieldRef": {"resource": "cpu"}}, "unsupported container resource: cpu"),
        ({"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}, "fileKeyRef is not supported"),
    ],
)
def test_what_cannot_be_meant(make_pod, around, source, message):
    with pytest.raises(ConfigError, match=message):
        value(make_pod, around, source)


@pytest.mark.parametrize("source", ["configMapRef", "secretRef"])
def test_env_from_a_missing_object(make_pod, around, source):
    kind = "configmap" if source == "configMapRef" else "secret"
    with pytest.raises(ConfigError, match=f'{kind} "none" not found'):
        build(make_pod, around, {"envFrom": [{source: {"name": "none"}}]})
    assert build(make_pod, around, {"envFrom": [{source: {"name": "none", "optional": True}}]}).variables == {}


def test_the_command_line_is_command_and_args_expanded(make_pod):
    spec = {"name": "main", "command": ["sh", "-c", "echo $(A) $$(A)"], "args": ["$(B)", "$(NONE)"]}
    container = make_pod({"containers": [spec]}).spec.containers[0]
    assert command_line(container, VARIABLES) == ["sh", "-c", "echo 1 $(A)", "two", "$(NONE)"]


def test_without_a_command_there_is_nothing_to_run(make_pod):
    container = make_pod({"containers": [{"name": "main", "image": "x"}]}).spec.containers[0]
    with pytest.raises(ConfigError, match="process nodes have no images: give the container a command") as caught:
        command_line(container, {})
    assert caught.value.reason == "CreateContainerError"


def test_what_a_container_refers_to(make_pod):
    spec = {
        "name": "main",
        "envFrom": [{"configMapRef": {"name": "a"}}, {"secretRef": {"name": "b"}}],
        "env": [
            {"name": "X", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
            {"name": "Y", "valueFrom": {"secretKeyRef": {"name": "d", "key": "k"}}},
            {"name": "Z", "value": "z"},
        ],
    }
    container = make_pod({"containers": [spec]}).spec.containers[0]
    assert list_references(container) == Names(frozenset("ac"), frozenset("bd"))


@contextmanager
def little_memory(megabytes=32):
    """Fails if what is done takes more, at any time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < megabytes << 20
    finally:
        tracemalloc.stop()


DOUBLING = [{"name": "E0", "value": "0123456789"}] + [
    {"name": f"E{n + 1}", "value": f"$(E{n})$(E{n})"} for n in range(32)
]
MANY = [{"name": "B", "value": "b" * 100_000}, *({"name": f"E{n}", "value": "$(B)"} for n in range(10_000))]
EACH_AGAIN = [{"name": "B", "value": "b" * 100}, {"name": "C", "value": "$(B)" * 100_000}]


@pytest.mark.parametrize(
    ("env", "what"),
    [
        (DOUBLING, f"variable E14 would have more than {MAX_STRING} bytes"),
        (MANY, f"all up to variable E61 would have more than {MAX_TOTAL} bytes"),
        (EACH_AGAIN, f"variable C would have more than {MAX_STRING} bytes"),
    ],
)
def test_variables_that_no_program_can_be_given_are_refused_before_they_are_made(make_pod, around, env, what):
    with little_memory(), pytest.raises(TooLongError, match=f"^argument list too long: {what}$"):
        build(make_pod, around, {"env": env})


def test_the_same_with_what_variables_refer_to(make_pod, around):
    known = objects({"big": {"k": "x" * (1 << 20), "fits": "x" * 100_000}}, {"big": {"k": b"x" * (1 << 20)}})
    long = {"annotations": {"a": '"' * 200_000}}
    with little_memory():
        for ref in (
            {"configMapKeyRef": {"name": "big", "key": "k"}},
            {"secretKeyRef": {"name": "big", "key": "k"}},
            {"fieldRef": {"fieldPath": "metadata.annotations"}},
            {"fieldRef": {"fieldPath": "metadata.annotations['a']"}},
        ):
            env = [{"name": f"E{n}", "valueFrom": ref} for n in range(1000)]
            with pytest.raises(TooLongError, match="variable E0 would"):
                build(make_pod, around, {"env": env}, known, **long)
        whole = [{"prefix": f"P{n}_", "configMapRef": {"name": "big"}} for n in range(1000)]
        with pytest.raises(TooLongError, match="variable P0_k would"):
            build(make_pod, around, {"envFrom": whole}, known)
        fits = [
            {"name": f"E{n}", "valueFrom": {"configMapKeyRef": {"name": "big", "key": "fits"}}} for n in range(1000)
        ]
        with pytest.raises(TooLongError, match="all up to variable E62 would"):
            build(make_pod, around, {"env": fits}, known)


@pytest.mark.parametrize(
    ("args", "what"),
    [
        (["$(B)" * 100_000], "argument 1 would have"),
        (["$(B)$(B)"] * 100_000, f"all up to argument 30103 would have more than {MAX_TOTAL}"),
    ],
)
def test_arguments_that_no_program_can_be_given(make_pod, args, what):
    pod = make_pod({"containers": [{"name": "main", "command": ["x"], "args": args}]})
    with little_memory(), pytest.raises(TooLongError, match=what):
        command_line(pod.spec.containers[0], {"B": "b" * 100})


def test_what_just_fits_is_given(make_pod, around):
    text = "x" * (MAX_STRING - len("A="))
    found = build(make_pod, around, {"env": [{"name": "A", "value": text}]})
    assert found.variables == {"A": text}
    assert expand("$(A)$$", {"A": "x" * (MAX_STRING - 1)}) == "x" * (MAX_STRING - 1) + "$"
    with pytest.raises(TooLongError):
        expand("$(A)$$", {"A": "x" * MAX_STRING})


NAMES = [f"E{n}" for n in range(6)]
VALUES = st.lists(st.sampled_from([*(f"$({name})" for name in NAMES), "x" * 20_000, "$$", "$("]), max_size=12).map(
    "".join
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=40), st.lists(VALUES, max_size=20))
def test_whatever_refers_to_whatever_it_is_bounded(make_pod, around, env, args):
    try:
        found = build(make_pod, around, {"env": [{"name": name, "value": value} for name, value in env]}).variables
        pod = make_pod({"containers": [{"name": "main", "command": ["x"], "args": args}]})
        words = command_line(pod.spec.containers[0], found)
    except TooLongError:
        return
    strings = [*(f"{name}={text}" for name, text in found.items()), *words]
    assert all(len(text) <= MAX_STRING for text in strings)
    assert sum(map(len, strings)) <= 2 * MAX_TOTAL
