"""Paths and queries, as data."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.status import ApiError
from muster.cluster.apiserver.request.requestinfo import (
    ListOptions,
    Target,
    is_long_running,
    list_options,
    parse_boolean,
    parse_integer,
    parse_path,
    parse_revision,
    parse_timeout,
    replace_watch_path,
    revision_of_list,
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
    assert parse_boolean({"a": text}, "a") is value
    assert parse_boolean({}, "a") is None


@pytest.mark.parametrize(("text", "value"), [("", None), ("0", 0), ("-5", -5), ("+7", 7), (str(2**63 - 1), 2**63 - 1)])
def test_integers(text, value):
    assert parse_integer({"a": text}, "a") == value


@pytest.mark.parametrize("text", ["x", "1.0", "٣", "--1", str(2**63), "9" * 10_000, " 1", "-"])
def test_what_is_no_integer(text):
    with pytest.raises(ApiError) as error:
        parse_integer({"a": text}, "a")
    assert error.value.code == 400
    assert len(error.value.status.message) < 300


@pytest.mark.parametrize("text", ["x", "-1", "²", str(2**64), "9" * 10_000])
def test_what_is_no_revision(text):
    with pytest.raises(ApiError) as error:
        parse_revision(text, "jobs.batch")
    assert error.value.code == 422
    assert error.value.status.message.startswith('jobs.batch "" is invalid: resourceVersion: Invalid value')


@pytest.mark.parametrize(
    ("path", "listed", "query"),
    [
        ("/api/v1/watch/pods", "/api/v1/pods", {"watch": "true"}),
        ("/api/v1/watch/namespaces", "/api/v1/namespaces", {"watch": "true"}),
        ("/api/v1/watch/namespaces/d/pods", "/api/v1/namespaces/d/pods", {"watch": "true"}),
        (
            "/api/v1/watch/namespaces/d/pods/p",
            "/api/v1/namespaces/d/pods",
            {"watch": "true", "fieldSelector": "metadata.name=p"},
        ),
        ("/api/v1/watch/nodes/n", "/api/v1/nodes", {"watch": "true", "fieldSelector": "metadata.name=n"}),
        ("/api/v1/watch/namespaces/d", "/api/v1/namespaces", {"watch": "true", "fieldSelector": "metadata.name=d"}),
        ("/apis/batch/v1/watch/jobs", "/apis/batch/v1/jobs", {"watch": "true"}),
        ("/apis/batch/v1/watch/namespaces/d/jobs/", "/apis/batch/v1/namespaces/d/jobs", {"watch": "true"}),
        ("/api/v1/namespaces/watch/pods", "/api/v1/namespaces/watch/pods", {}),
        ("/api/v1/watch", "/api/v1/watch", {}),
        ("/watch/", "/watch/", {}),
    ],
)
def test_deprecated_watch_paths(path, listed, query):
    assert replace_watch_path(path, {}) == (listed, query)


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("GET", "/api/v1/pods", {"watch": "1"}, True),
        ("GET", "/api/v1/pods", {"watch": ""}, True),
        ("GET", "/api/v1/pods", {"watch": "false"}, False),
        ("GET", "/api/v1/pods", {}, False),
        ("POST", "/api/v1/namespaces/d/pods", {"watch": "1"}, False),
        ("GET", "/api/v1/namespaces/d/pods/p/log", {}, True),
        ("POST", "/api/v1/namespaces/d/pods/p/exec", {}, True),
        ("GET", "/api/v1/namespaces/d/pods/p/portforward", {}, True),
        ("GET", "/api/v1/namespaces/d/pods/log", {}, False),
        ("GET", "/apis/batch/v1/namespaces/d/jobs/j/log", {}, True),
        ("DELETE", "/apis/batch/v1/namespaces/d/jobs/log", {}, False),
        ("GET", "/apis/batch/v1/namespaces/d/jobs/j/status", {}, False),
    ],
)
def test_what_has_no_end(method, path, query, expected):
    assert is_long_running(method, path, query) is expected


@pytest.mark.parametrize(
    ("text", "seconds"), [("", 60), ("0s", 60), ("-5s", 60), ("30s", 30), ("1500ms", 1.5), ("2m", 60), ("1ns", 1e-9)]
)
def test_timeouts(text, seconds):
    assert parse_timeout({"timeout": text}, 60) == seconds
    assert parse_timeout({}, 60) == 60


@pytest.mark.parametrize("text", ["x", "5", "5 s", "1e3s", "s"])
def test_what_is_no_timeout(text):
    with pytest.raises(ApiError) as error:
        parse_timeout({"timeout": text}, 60)
    assert error.value.code == 400
    assert error.value.status.message.startswith("invalid timeout specified in the request URL - time: ")


@pytest.mark.parametrize("text", ["x", "-1", str(2**64)])
def test_what_is_no_revision_of_a_list(text):
    with pytest.raises(ApiError) as error:
        revision_of_list(text)
    assert error.value.code == 400
    assert error.value.status.message.startswith("invalid resource version: resourceVersion: Invalid value: ")


def test_list_options():
    assert list_options({}) == ListOptions()
    query = {"limit": "-3", "timeoutSeconds": "5", "allowWatchBookmarks": "true", "continue": "c"}
    assert list_options(query) == ListOptions(timeout_seconds=5, bookmarks=True, continue_="c")


@pytest.mark.parametrize(
    ("query", "initial", "match"),
    [
        ({}, True, "NotOlderThan"),
        ({"resourceVersion": ""}, True, "NotOlderThan"),
        ({"resourceVersion": "0"}, True, "NotOlderThan"),
        ({"resourceVersion": "5"}, None, ""),
        ({"sendInitialEvents": "false", "resourceVersionMatch": "NotOlderThan"}, False, "NotOlderThan"),
        (
            {"resourceVersion": "5", "sendInitialEvents": "", "resourceVersionMatch": "NotOlderThan"},
            True,
            "NotOlderThan",
        ),
    ],
)
def test_what_a_watch_begins_with(query, initial, match):
    """Upstream's defaults: SetListOptionsDefaults."""
    options = list_options({"watch": "true"} | query)
    assert (options.send_initial_events, options.resource_version_match) == (initial, match)


def test_write_options():
    assert not write_options({}, "CreateOptions").dry_run
    assert write_options({"dryRun": "All", "fieldValidation": "Strict"}, "PatchOptions").field_validation == "Strict"
