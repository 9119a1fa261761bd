"""What emptyDir volumes may hold and do hold."""

import contextlib
import os
import tempfile
from pathlib import Path

import pytest

from muster.cluster.nodes.volumes.sizes import charged_volumes, describe_overfull, find_overfull, measure, size_limits


def test_only_emptydirs_with_a_limit_have_one(make_pod):
    volumes = [
        {"name": "a", "emptyDir": {"sizeLimit": "1Mi"}},
        {"name": "b", "emptyDir": {}},
        {"name": "c", "emptyDir": {"sizeLimit": "0"}},
        {"name": "d", "hostPath": {"path": "/"}},
        {"name": "e", "emptyDir": {"medium": "Memory", "sizeLimit": "2k"}},
    ]
    pod = make_pod({"containers": [{"name": "main"}], "volumes": volumes})
    assert size_limits(pod) == {"a": 1 << 20, "e": 2000}
    assert describe_overfull(pod, "a") == 'Usage of EmptyDir volume "a" exceeds the limit "1Mi". '


def test_a_volume_in_memory_counts_for_the_first_container_that_mounts_it(make_pod):
    def mounting(name, *volumes):
        return {"name": name, "volumeMounts": [{"name": one, "mountPath": f"/{one}"} for one in volumes]}

    volumes = [{"name": "a", "emptyDir": {"medium": "Memory"}}, {"name": "b", "emptyDir": {"medium": "Memory"}}]
    volumes += [{"name": "disk", "emptyDir": {}}, {"name": "secret", "secret": {"secretName": "s"}}]
    containers = [mounting("one", "a", "disk", "secret"), mounting("two", "a", "b"), mounting("three")]
    pod = make_pod({"containers": containers, "volumes": volumes})
    assert charged_volumes(pod) == {"one": ("a",), "two": ("b",)}


def test_a_directory_holds_what_is_below_it_and_nothing_behind_links(tmp_path):
    outside, volume = tmp_path / "outside", tmp_path / "volume"
    (volume / "deep/er").mkdir(parents=True)
    outside.mkdir()
    (outside / "large").write_bytes(b"x" * (1 << 20))
    empty = measure(volume)
    (volume / "link").symlink_to(outside)
    (volume / "deep/file").symlink_to(outside / "large")
    assert measure(volume) < empty + (1 << 16)
    (volume / "deep/er/file").write_bytes(b"x" * (1 << 20))
    with (volume / "sparse").open("wb") as sparse:
        sparse.truncate(1 << 30)
    assert empty + (1 << 20) <= measure(volume) < empty + (2 << 20)
    assert measure(tmp_path / "gone") == 0


def test_a_file_with_several_links_counts_once(tmp_path):
    (tmp_path / "copy").mkdir()
    (tmp_path / "file").write_bytes(b"x" * (1 << 20))
    before = measure(tmp_path)
    for number in range(10):
        os.link(tmp_path / "file", tmp_path / f"copy/{number}")
    assert measure(tmp_path) < before + (1 << 16)


def test_what_is_mounted_in_a_directory_does_not_count():
    outer, mounted = Path("/dev"), Path("/dev/shm")
    if outer.stat().st_dev == mounted.stat().st_dev:
        pytest.skip("this machine mounts nothing at /dev/shm")
    before = measure(outer)
    with tempfile.NamedTemporaryFile(dir=mounted) as file:
        file.write(b"x" * (4 << 20))
        file.flush()
        assert measure(outer) < before + (1 << 20)


def test_the_first_volume_over_its_limit_counts(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 8192)
    sources = {"a": tmp_path, "b": tmp_path}
    assert find_overfull({"a": 1 << 20, "b": 4096}, sources) == "b"
    assert find_overfull({"a": 1 << 20, "missing": 1}, sources) == ""


def test_a_directory_that_becomes_a_link_meanwhile_is_not_entered(tmp_path, monkeypatch):
    outside, volume = tmp_path / "outside", tmp_path / "volume"
    (volume / "deep").mkdir(parents=True)
    outside.mkdir()
    (outside / "large").write_bytes(b"x" * (1 << 20))
    scandir = os.scandir

    def scandir_of_a_moment_ago(directory):
        entries = scandir(directory)
        if (volume / "deep").is_dir() and not (volume / "deep").is_symlink():
            listed = list(entries)
            [entry.is_dir(follow_symlinks=False) for entry in listed]  # as the system listed it
            (volume / "deep").rmdir()
            (volume / "deep").symlink_to(outside)
            return contextlib.nullcontext(listed)
        return entries

    monkeypatch.setattr(os, "scandir", scandir_of_a_moment_ago)
    assert measure(volume) < 1 << 16
