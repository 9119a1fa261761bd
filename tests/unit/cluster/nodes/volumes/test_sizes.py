"""What emptyDir volumes may hold and do hold."""

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


def test_the_first_volume_over_its_limit_counts(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 8192)
    sources = {"a": tmp_path, "b": tmp_path}
    assert find_overfull({"a": 1 << 20, "b": 4096}, sources) == "b"
    assert find_overfull({"a": 1 << 20, "missing": 1}, sources) == ""
