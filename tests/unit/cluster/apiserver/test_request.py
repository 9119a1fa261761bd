"""Paths and queries, as data."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.status import ApiError
from muster.cluster.apiserver.request import (
    ListOptions,
    Target,
    boolean,
    integer,
    list_options,
    parse_path,
    revision,
    write_options,
)


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/api/v1/pods", Target("", "v1", "pods")),
        ("/api/v1/pods/", Target("", "v1", "pods")),
        ("/api/v1/nodes/n", Target("", "v1", "nodes", "", "n")),
        ("/api/v1/nodes/n/status", Target("", "v1", "nodes", "", "n", "status")),
        ("/api/v1/namespaces", Target("", "v1", "namespaces")),
        ("/api/v1/namespaces/x", Target("", "v1", "namespaces", "", "x")),
        ("/api/v1/namespaces/x/status", Target("", "v1", "namespaces", "", "x", "status")),
        ("/api/v1/namespaces/x/finalize", Target("", "v1", "namespaces", "", "x", "finalize")),
        ("/api/v1/namespaces/x/pods", Target("", "v1", "pods", "x")),
        ("/api/v1/namespaces/x/pods/p", Target("", "v1", "pods", "x", "p")),
        ("/api/v1/namespaces/x/pods/p/log", Target("", "v1", "pods", "x", "p", "log")),
        ("/apis/batch/v1/namespaces/x/jobs/j/scale", Target("batch", "v1", "jobs", "x", "j", "scale")),
        ("/apis/batch/v1/jobs", Target("batch", "v1", "jobs")),
        ("/api", None),
        ("/api/v1", None),
        ("/apis", None),
        ("/apis/batch", None),
        ("/apis/batch/v1", None),
        ("/healthz", None),
        ("/", None),
        ("", None),
    ],
)
def test_paths(path, target):
    assert parse_path(path) == target


@pytest.mark.parametrize("path", ["/api/v1//pods", "/api/v1/pods/p/a/b", "/api/v1/namespaces/x/pods/p/a/b"])
def test_paths_of_nothing(path):
    with pytest.raises(ApiError) as error:
        parse_path(path)
    assert error.value.code == 404


@given(st.lists(st.sampled_from(["api", "apis", "v1", "namespaces", "x", "status", "..", "%2f", ""])).map("/".join))
def test_no_path_is_too_strange(path):
    with suppress(ApiError):
        parse_path(path)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", True), ("true", True), ("", True), ("yes", True), ("0", False), ("false", False), ("FALSE", False)],
)
def test_booleans_as_upstream_reads_them(text, value):
    assert boolean({"a": text}, "a") is value
    assert boolean({}, "a") is None


@pytest.mark.parametrize(("text", "value"), [("", None), ("0", 0), ("-5", -5), ("+7", 7), (str(2**63 - 1), 2**63 - 1)])
def test_integers(text, value):
    assert integer({"a": text}, "a") == value


@pytest.mark.parametrize("text", ["x", "1.0", "٣", "--1", str(2**63), "9" * 10_000, " 1", "-"])
def test_what_is_no_integer(text):
    with pytest.raises(ApiError) as error:
        integer({"a": text}, "a")
    assert error.value.code == 400
    assert len(error.value.status.message) < 300


@pytest.mark.parametrize("text", ["x", "-1", "²", str(2**64), "9" * 10_000])
def test_what_is_no_revision(text):
    with pytest.raises(ApiError) as error:
        revision(text, "jobs.batch")
    assert error.value.code == 422
    assert error.value.status.message.startswith('jobs.batch "" is invalid: resourceVersion: Invalid value')


def test_list_options():
    assert list_options({}) == ListOptions()
    query = {"watch": "1", "limit": "-3", "timeoutSeconds": "5", "allowWatchBookmarks": "true", "continue": "c"}
    assert list_options(query) == ListOptions(watch=True, timeout_seconds=5, bookmarks=True, continue_="c")


def test_write_options():
    assert not write_options({}, "CreateOptions").dry_run
    assert write_options({"dryRun": "All", "fieldValidation": "Strict"}, "PatchOptions").field_validation == "Strict"
