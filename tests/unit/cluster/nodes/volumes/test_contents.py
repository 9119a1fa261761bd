import base64
import os
import stat
import tracemalloc

import msgspec
import pytest

from muster.api.core import CONFIG_MAP, SECRET
from muster.cluster.nodes.container.environment import AskedToken, Names, Objects
from muster.cluster.nodes.volumes.contents import (
    MOST_BYTES,
    EmptyDirectory,
    File,
    HostPath,
    Tree,
    VolumeError,
    is_in_memory,
    list_references,
    make_content,
    relocate_variables,
)
from muster.cluster.nodes.volumes.files import make_empty, prepare_host_path, resolve_within, write_tree


def config_map(**data):
    return CONFIG_MAP.decode(msgspec.json.encode({"metadata": {"name": "c"}, "data": data}))


def secret(**data):
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    return SECRET.decode(msgspec.json.encode({"metadata": {"name": "s"}, "data": encoded}))


KNOWN = Objects({"c": config_map(a="one", b="two")}, {"s": secret(k=b"\x00\xff")})


def of(make_pod, around, volume, known=KNOWN):
    containers = [{"name": "main", "resources": {"limits": {"cpu": "2"}}}]
    meta = {"labels": {"b": 'say "hi"\n', "a": "1"}, "annotations": {"z": "\u00e4\u0001"}}
    pod = make_pod({"volumes": [{"name": "v", **volume}], "containers": containers}, **meta)
    return make_content(pod, pod.spec.volumes[0], known, around)


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        ({"emptyDir": {}}, False),
        ({"emptyDir": {"medium": "Memory"}}, True),
        ({"hostPath": {"path": "/data"}}, False),
        ({"configMap": {"name": "c"}}, False),
        ({"downwardAPI": {}}, False),
        ({"secret": {"secretName": "s"}}, True),
        ({"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}, True),
    ],
)
def test_which_volumes_are_in_memory(make_pod, volume, expected):
    pod = make_pod({"volumes": [{"name": "v", **volume}]})
    assert is_in_memory(pod.spec.volumes[0]) is expected


def test_plain_volumes(make_pod, around):
    assert of(make_pod, around, {"emptyDir": {}}) == EmptyDirectory()
    path = {"hostPath": {"path": "/data", "type": "Directory"}}
    assert of(make_pod, around, path) == HostPath("/data", "Directory")


def test_all_keys_of_an_object(make_pod, around):
    assert of(make_pod, around, {"configMap": {"name": "c"}}) == Tree({"a": File(b"one"), "b": File(b"two")})
    found = of(make_pod, around, {"secret": {"secretName": "s", "defaultMode": 0o400}})
    assert found == Tree({"k": File(b"\x00\xff", 0o400)})


def test_chosen_keys_go_where_they_are_told(make_pod, around):
    items = [{"key": "a", "path": "deep/er/x", "mode": 0o755}, {"key": "b", "path": "y"}]
    found = of(make_pod, around, {"configMap": {"name": "c", "items": items, "defaultMode": 0o600}})
    assert found == Tree({"deep/er/x": File(b"one", 0o755), "y": File(b"two", 0o600)})


def test_facts_about_the_pod(make_pod, around):
    items = [
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "annotations", "fieldRef": {"fieldPath": "metadata.annotations"}},
        {"path": "cpu", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"}},
    ]
    found = of(make_pod, around, {"downwardAPI": {"items": items}})
    assert {path: file.data.decode() for path, file in found.files.items()} == {
        "labels": 'a="1"\nb="say \\"hi\\"\\n"',
        "annotations": 'z="\u00e4\\x01"',
        "cpu": "2",
    }


def test_tokens_are_those_that_were_asked_for(make_pod, around):
    tokens = {AskedToken("", 3600): "one", AskedToken("vault", 600): "two"}
    sources = [
        {"serviceAccountToken": {"path": "token"}},
        {"serviceAccountToken": {"path": "deep/vault", "audience": "vault", "expirationSeconds": 600}},
    ]
    found = of(make_pod, around, {"projected": {"sources": sources, "defaultMode": 0o400}}, Objects({}, {}, tokens))
    assert found == Tree({"token": File(b"one", 0o400), "deep/vault": File(b"two", 0o400)})


def test_a_projected_volume_joins_its_sources(make_pod, around):
    sources = [
        {"configMap": {"name": "c", "items": [{"key": "a", "path": "x"}]}},
        {"secret": {"name": "s"}},
        {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"configMap": {"name": "c", "items": [{"key": "b", "path": "x"}]}},
    ]
    found = of(make_pod, around, {"projected": {"sources": sources, "defaultMode": 0o440}})
    assert {path: file.data for path, file in found.files.items()} == {"x": b"two", "k": b"\x00\xff", "name": b"p"}
    assert {file.mode for file in found.files.values()} == {0o440}


@pytest.mark.parametrize(
    ("volume", "message", "waits"),
    [
        ({"configMap": {"name": "none"}}, 'configmap "none" not found', True),
        ({"secret": {"secretName": "none"}}, 'secret "none" not found', True),
        ({"configMap": {"name": "c", "items": [{"key": "none", "path": "x"}]}}, "non-existent config key: none", True),
        ({"projected": {"sources": [{"secret": {"name": "none"}}]}}, 'secret "none" not found', True),
        ({"persistentVolumeClaim": {"claimName": "x"}}, 'persistentvolumeclaim "x" is not bound', True),
        ({"nfs": {"server": "x"}}, "no volumes of type nfs", False),
        ({"configMap": {"name": "c", "items": [{"key": "a", "path": "../x"}]}}, "stay within the volume", False),
        ({"configMap": {"name": "c", "items": [{"key": "a", "path": "/x"}]}}, "stay within the volume", False),
        ({"configMap": {"name": "c", "items": [{"key": "a", "path": "x/../../y"}]}}, "stay within", False),
        ({"configMap": {"name": "c", "items": [{"key": "a", "path": "..data"}]}}, "must not start", False),
    ],
)
def test_what_cannot_be_had(make_pod, around, volume, message, waits):
    with pytest.raises(VolumeError, match=message) as caught:
        of(make_pod, around, volume)
    assert caught.value.waits is waits


def test_optional_objects_may_be_missing(make_pod, around):
    for volume in (
        {"configMap": {"name": "none", "optional": True}},
        {"secret": {"secretName": "none", "optional": True}},
        {"configMap": {"name": "c", "optional": True, "items": [{"key": "none", "path": "x"}]}},
    ):
        assert of(make_pod, around, volume, KNOWN) == Tree({})


def test_what_volumes_refer_to(make_pod):
    sources = [{"secret": {"name": "b"}}, {"configMap": {"name": "c"}}]
    pod = make_pod({"volumes": [{"name": "v", "projected": {"sources": sources}}]})
    assert list_references(pod.spec.volumes[0]) == Names(frozenset("c"), frozenset("b"))


def test_where_nothing_can_be_mounted_variables_name_where_volumes_are():
    places = {"/etc/muster": "/v/world", "/etc/muster/inner/": "/v/inner", "/one": "/v/c/key"}
    variables = {
        "WORLD": "/etc/muster/world",
        "DIRECTORY": "/etc/muster",
        "DEEP": "/etc/muster/inner/x",
        "FILE": "/one",
        "OTHER": "/etc/muster-else",
        "TEXT": "see /etc/muster",
        "EMPTY": "",
    }
    changed = {"WORLD": "/v/world/world", "DIRECTORY": "/v/world", "DEEP": "/v/inner/x", "FILE": "/v/c/key"}
    assert relocate_variables(variables, places) == variables | changed
    assert relocate_variables(variables, {}) == variables


def shown(directory):
    return {
        path.relative_to(directory).as_posix(): (path.read_text(), stat.S_IMODE(path.stat().st_mode))
        for path in directory.rglob("*")
        if path.is_file() and not path.relative_to(directory).parts[0].startswith("..")
    }


def test_files_appear_change_and_go_all_at_once(tmp_path):
    volume = tmp_path / "v"
    first = {"a": File(b"1"), "deep/er/b": File(b"2", 0o600)}
    assert write_tree(volume, first)
    assert shown(volume)["a"] == ("1", 0o644)
    assert (volume / "deep/er/b").read_text() == "2"
    assert not write_tree(volume, first), "nothing changed, nothing is written"
    held = (volume / "..data").resolve()
    assert write_tree(volume, {"a": File(b"3"), "c": File(b"4")})
    assert shown(volume) == {"a": ("3", 0o644), "c": ("4", 0o644)}
    assert not held.exists(), "old versions go"
    assert write_tree(volume, {"a": File(b"3", 0o600), "c": File(b"4")}), "a mode is a change too"
    assert write_tree(volume, {})
    assert shown(volume) == {}


def test_a_crash_in_the_middle_leaves_the_old_or_the_new(tmp_path):
    volume = tmp_path / "v"
    write_tree(volume, {"a": File(b"old")})
    # What a crash may leave: a version half written, and a link that was not moved into place.
    (volume / "..7").mkdir()
    (volume / "..7" / "a").write_text("half")
    (volume / "..data_tmp").symlink_to("..7")
    assert (volume / "a").read_text() == "old"
    assert write_tree(volume, {"a": File(b"new")})
    assert (volume / "a").read_text() == "new"
    assert sorted(path.name for path in volume.iterdir()) == sorted(
        ["..data", "a", (volume / "..data").readlink().name]
    )


def test_a_failure_leaves_nothing_behind(tmp_path):
    volume = tmp_path / "v"
    write_tree(volume, {"a": File(b"old")})
    before = sorted(path.name for path in volume.iterdir())
    for _ in range(3):
        with pytest.raises(OSError, match="name too long"):
            write_tree(volume, {"a": File(b"new"), "x" * 300: File(b"")})
    assert sorted(path.name for path in volume.iterdir()) == before
    assert shown(volume) == {"a": ("old", 0o644)}
    assert write_tree(volume, {"a": File(b"new")})


def test_an_empty_directory_stays_what_it_is(tmp_path):
    make_empty(tmp_path / "v")
    (tmp_path / "v/x").touch()
    make_empty(tmp_path / "v")
    assert (tmp_path / "v/x").exists()
    assert stat.S_IMODE((tmp_path / "v").stat().st_mode) == 0o777


@pytest.mark.parametrize(
    ("type", "make", "ok"),
    [
        ("", "dir", True),
        ("", "", False),
        ("Directory", "dir", True),
        ("Directory", "file", False),
        ("DirectoryOrCreate", "", True),
        ("DirectoryOrCreate", "file", False),
        ("File", "file", True),
        ("File", "dir", False),
        ("FileOrCreate", "", True),
        ("Socket", "file", False),
        ("CharDevice", "file", False),
        ("BlockDevice", "dir", False),
    ],
)
def test_host_paths_are_checked(tmp_path, type, make, ok):
    path = tmp_path / "x"
    if make == "dir":
        path.mkdir()
    elif make:
        path.touch()
    if ok:
        assert prepare_host_path(HostPath(str(path), type)) == path
        assert path.exists()
    else:
        with pytest.raises((VolumeError, FileExistsError)):
            prepare_host_path(HostPath(str(path), type))


@pytest.fixture
def volume(tmp_path):
    root = tmp_path / "v"
    (root / "real").mkdir(parents=True)
    (root / "inside").symlink_to("real")
    (root / "outside").symlink_to("/etc")
    (root / "up").symlink_to("../..")
    return root


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("real", "real"),
        ("inside", "real"),
        ("new/er", "new/er"),
        ("inside/new", "real/new"),
        (".", ""),
        ("./real/", "real"),
    ],
)
def test_sub_paths_are_resolved_within_the_volume(volume, path, found):
    assert resolve_within(volume, path, create=True) == found
    assert (volume / found).is_dir()


@pytest.mark.parametrize("path", ["..", "real/../..", "/etc", "outside", "outside/passwd", "up", "up/x"])
def test_sub_paths_that_leave_the_volume_are_refused(volume, path):
    before = sorted(os.listdir(volume.parent))
    with pytest.raises(VolumeError, match="subPath"):
        resolve_within(volume, path, create=True)
    assert sorted(os.listdir(volume.parent)) == before


def test_sub_paths_are_not_made_where_they_may_not(volume):
    with pytest.raises(VolumeError, match="does not exist in the volume"):
        resolve_within(volume, "new", create=False)


MEGABYTE = "x" * (1 << 20)
AGAIN = range(10_000)


def item(n):
    return [{"key": "k", "path": f"f{n}"}]


@pytest.mark.parametrize(
    "volume",
    [
        {"configMap": {"name": "c", "items": [{"key": "a", "path": f"f{n}"} for n in AGAIN]}},
        {"projected": {"sources": [{"configMap": {"name": "c"}}] * len(AGAIN)}},
        {
            "projected": {
                "sources": [{"secret": {"name": "s", "items": [{"key": "k", "path": f"f{n}"}]}} for n in AGAIN]
            }
        },
        {"downwardAPI": {"items": [{"path": f"f{n}", "fieldRef": {"fieldPath": "metadata.labels"}} for n in AGAIN]}},
    ],
    ids=["items", "sources", "items of sources", "fields"],
)
def test_one_object_shown_again_and_again_is_refused_before_it_is_there(make_pod, around, volume):
    known = Objects({"c": config_map(a=MEGABYTE)}, {"s": secret(k=MEGABYTE.encode())})
    pod = make_pod({"volumes": [{"name": "v", **volume}]}, labels={"a": "\x01" * 10_000})
    tracemalloc.start()
    try:
        with pytest.raises(VolumeError, match=f"the pod's volumes would show more than {MOST_BYTES} bytes of objects"):
            make_content(pod, pod.spec.volumes[0], known, around)
        assert tracemalloc.get_traced_memory()[1] < 2 * MOST_BYTES
    finally:
        tracemalloc.stop()
