"""Every combination of what says which state a list shows and where a watch begins.

The rules are those of the API documentation ("Resource versions", "Streaming lists") as k8s.io/apiserver keeps them:
`ValidateListOptions` of apimachinery says what may be joined, `storage.ValidateListOptions` which state is meant.
"""

import itertools
import json
import random

import pytest
from tests.system.apiserver.harness import EVENTS_V1, MAPS, NAMESPACES, PARTIAL, PODS, TABLE, api, config_map, pod

from muster.cluster.apiserver.answers import Stream
from muster.cluster.apiserver.identity.users import ADMIN
from muster.cluster.apiserver.verbs import read
from muster.runtime.transport import JSON, Request

NO_VERSION = "resourceVersionMatch is forbidden unless resourceVersion is provided"
NO_MATCH = "resourceVersionMatch is forbidden when continue is provided"
NO_EXACT_0 = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
UNKNOWN = 'Unsupported value: "Newest": supported values: "Exact", "NotOlderThan", ""'
NOT_WITH_CONTINUE = "specifying resource version is not allowed when using continue"
TOO_LARGE = "Timeout: Too large resource version: "

LISTS = [
    # version, match, without a limit, with one
    ("", "", "now", "now"),
    ("", "Exact", NO_VERSION, NO_VERSION),
    ("", "NotOlderThan", NO_VERSION, NO_VERSION),
    ("", "Newest", NO_VERSION, NO_VERSION),
    ("0", "", "now", "now"),
    ("0", "Exact", NO_EXACT_0, NO_EXACT_0),
    ("0", "NotOlderThan", "now", "now"),
    ("0", "Newest", UNKNOWN, UNKNOWN),
    ("then", "", "now", "then"),  # with a limit as it was before there was resourceVersionMatch
    ("then", "Exact", "then", "then"),
    ("then", "NotOlderThan", "now", "now"),
    ("then", "Newest", UNKNOWN, UNKNOWN),
    ("now", "", "now", "now"),
    ("now", "Exact", "now", "now"),
    ("now", "NotOlderThan", "now", "now"),
    ("soon", "", TOO_LARGE, TOO_LARGE),
    ("soon", "Exact", TOO_LARGE, TOO_LARGE),
    ("soon", "NotOlderThan", TOO_LARGE, TOO_LARGE),
]

CONTINUED = [
    # version, match, what the rest of a list that began "then" is
    ("", "", "then"),
    ("", "Exact", NO_MATCH),
    ("", "NotOlderThan", NO_MATCH),
    ("0", "", "then"),
    ("0", "Exact", NO_MATCH),
    ("0", "NotOlderThan", NO_MATCH),
    ("then", "", NOT_WITH_CONTINUE),
    ("then", "Exact", NO_MATCH),
    ("then", "NotOlderThan", NO_MATCH),
    ("soon", "", NOT_WITH_CONTINUE),
    ("x", "", NOT_WITH_CONTINUE),
]
STATUSES = {NOT_WITH_CONTINUE: 400, TOO_LARGE: 504}


async def history(api):
    """What there was then, what there is now, and the token of a list that was begun then."""
    states = {}
    for name in "abc":
        await api.made(MAPS, config_map(name))
    first = await api.get(MAPS, limit=1)
    states["then"] = (str(api.store.revision), (await api.get(MAPS)).json["items"])
    await api.merge(f"{MAPS}/b", {"data": {"x": "y"}})
    await api.delete(f"{MAPS}/c")
    await api.made(MAPS, config_map("d"))
    await api.made(MAPS, config_map("e"))
    states["now"] = (str(api.store.revision), (await api.get(MAPS)).json["items"])
    states["soon"] = (str(api.store.revision + 1), [])
    return states, first.meta["continue"]


def asked(states, version, match):
    query = {"resourceVersion": states[version][0] if version in states else version, "resourceVersionMatch": match}
    return {name: value for name, value in query.items() if value}


def refused(answer, message):
    assert (answer.status, message in answer.message) == (STATUSES.get(message, 422), True), answer.body
    if message == TOO_LARGE:
        assert answer.json["details"]["causes"] == [
            {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        ]


@pytest.mark.parametrize("limit", [0, 2])
@pytest.mark.parametrize(("version", "match", "unlimited", "limited"), LISTS)
@api
async def test_lists(api, version, match, unlimited, limited, limit):
    states, _ = await history(api)
    expected = limited if limit else unlimited
    query = asked(states, version, match)
    answer = await api.get(MAPS, **query, limit=limit)
    if expected not in states:
        refused(answer, expected)
        return
    revision, items = states[expected]
    found, remaining = answer.json["items"], len(items) - (limit or len(items))
    while answer.meta.get("continue"):
        assert answer.meta["remainingItemCount"] == remaining
        answer = await api.get(MAPS, limit=limit, continue_=answer.meta["continue"])
        found += answer.json["items"]
        remaining -= limit
    assert "remainingItemCount" not in answer.meta
    assert (answer.meta["resourceVersion"], found) == (revision, items)


@pytest.mark.parametrize("limit", [0, 1])
@pytest.mark.parametrize(("version", "match", "expected"), CONTINUED)
@api
async def test_continued_lists(api, version, match, expected, limit):
    states, token = await history(api)
    answer = await api.get(MAPS, **asked(states, version, match), limit=limit, continue_=token)
    if expected not in states:
        refused(answer, expected)
        return
    revision, items = states[expected]
    assert answer.meta["resourceVersion"] == revision
    assert answer.json["items"] == items[1:][: limit or None]
    assert ("continue" in answer.meta) is bool(limit)


@api
async def test_versions_that_are_no_longer_kept(api):
    states, token = await history(api)
    await api.clock.sleep(3600)
    await api.store.compact(api.store.revision)
    exactly = await api.get(MAPS, **asked(states, "then", "Exact"))
    assert (exactly.status, exactly.json["reason"]) == (410, "Expired")
    assert exactly.message == "The resourceVersion for the provided list is too old."
    legacy = await api.get(MAPS, **asked(states, "then", ""), limit=1)
    assert (legacy.status, legacy.message) == (410, exactly.message)
    assert (await api.get(MAPS, **asked(states, "then", "NotOlderThan"))).json["items"] == states["now"][1]
    gone = await api.get(MAPS, continue_=token)
    assert (gone.status, gone.json["reason"]) == (410, "Expired")
    rest = await api.get(MAPS, continue_=gone.meta["continue"])  # inconsistent, as the message says
    assert (rest.names, rest.meta["resourceVersion"]) == (["b", "d", "e"], states["now"][0])


@api
async def test_a_token_is_good_for_what_it_was_made_for(api):
    """The state is found again for another namespace too: upstream's tokens hold a revision and a key."""
    await history(api)
    await api.made(f"{NAMESPACES}/kube-system/configmaps", config_map("z"))
    token = (await api.get("/api/v1/configmaps", limit=2)).meta["continue"]
    await api.delete(f"{NAMESPACES}/kube-system/configmaps/z")
    assert (await api.get("/api/v1/configmaps", continue_=token)).names == ["d", "e", "z"]
    assert (await api.get("/api/v1/configmaps", continue_=token, labelSelector="x=y")).names == []
    table = (await api.get("/api/v1/configmaps", continue_=token, accept=TABLE)).json
    assert [row["cells"][0] for row in table["rows"]] == ["d", "e", "z"]
    partial = (await api.get("/api/v1/configmaps", continue_=token, limit=1, accept=PARTIAL)).json
    assert (partial["metadata"]["remainingItemCount"], len(partial["items"])) == (2, 1)


# -- watches

NEEDS_MATCH = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
NEEDS_INITIAL = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
ONLY_NOT_OLDER = 'Unsupported value: "Exact": supported values: "NotOlderThan"'
STATE = ["ADDED a", "ADDED b"]
CHANGES = ["ADDED b", "MODIFIED a"]

WATCHES = [
    # version, sendInitialEvents, match, what comes before what happens from now on
    ("", None, "", [*STATE, "END"]),
    ("", None, "NotOlderThan", NEEDS_INITIAL),
    ("", None, "Exact", NEEDS_INITIAL),
    ("", True, "", NEEDS_MATCH),
    ("", True, "NotOlderThan", [*STATE, "END"]),
    ("", True, "Exact", ONLY_NOT_OLDER),
    ("", False, "", NEEDS_MATCH),
    ("", False, "NotOlderThan", []),
    ("", False, "Exact", NEEDS_MATCH),
    ("0", None, "", [*STATE, "END"]),
    ("0", None, "NotOlderThan", NEEDS_INITIAL),
    ("0", True, "", NEEDS_MATCH),
    ("0", True, "NotOlderThan", [*STATE, "END"]),
    ("0", False, "NotOlderThan", []),
    ("then", None, "", CHANGES),
    ("then", None, "NotOlderThan", NEEDS_INITIAL),
    ("then", True, "", NEEDS_MATCH),
    ("then", True, "NotOlderThan", [*STATE, "END"]),
    ("then", False, "NotOlderThan", CHANGES),
    ("now", None, "", []),
    ("now", True, "NotOlderThan", [*STATE, "END"]),
    ("now", False, "NotOlderThan", []),
    ("lost", None, "", 410),
    ("lost", True, "NotOlderThan", [*STATE, "END"]),
    ("lost", False, "NotOlderThan", 410),
    ("soon", None, "", 504),
    ("soon", True, "NotOlderThan", 504),
    ("soon", False, "NotOlderThan", 504),
]


async def marks(api):
    """Versions before and after what is no longer known, and before and after two changes."""
    versions = {"lost": str(api.store.revision)}
    await api.made(MAPS, config_map("a"))
    await api.store.compact(api.store.revision)
    versions["then"] = str(api.store.revision)
    await api.made(MAPS, config_map("b"))
    await api.merge(f"{MAPS}/a", {"data": {"x": "y"}})
    await api.made(PODS, pod())  # another resource counts in versions, not in events
    return versions | {"now": str(api.store.revision), "soon": str(api.store.revision + 1)}


def word(event):
    type_, obj = event
    if type_ == "BOOKMARK" and obj["metadata"].get("annotations") == {"k8s.io/initial-events-end": "true"}:
        return "END"
    return f"{type_} {obj['metadata'].get('name', '')}"


@pytest.mark.parametrize("bookmarks", [False, True])
@pytest.mark.parametrize(("version", "initial", "match", "expected"), WATCHES)
@api
async def test_watches(api, version, initial, match, expected, bookmarks):
    versions = await marks(api)
    query = {"resourceVersion": versions.get(version, version), "resourceVersionMatch": match}
    query = {name: value for name, value in query.items() if value}
    if initial is not None:
        query["sendInitialEvents"] = str(initial).lower()
    if bookmarks:
        query["allowWatchBookmarks"] = "true"
    if isinstance(expected, str):
        answer = await api.get(MAPS, watch="true", **query)
        assert (answer.status, expected in answer.message) == (422, True), answer.body
        return
    if isinstance(expected, int):
        # What is wrong with a version is said in the stream, as upstream does.
        answer = await api.get(MAPS, watch="true", **query)
        event = json.loads(answer.body)
        assert (answer.status, event["type"], event["object"]["code"]) == (200, "ERROR", expected)
        words = {410: "too old resource version: ", 504: TOO_LARGE}
        assert event["object"]["message"].startswith(words[expected])
        return
    async with api.watch(MAPS, **query) as events:
        wanted = [name for name in expected if bookmarks or name != "END"]
        for name in wanted:
            event = await events.next()
            assert word(event) == name
            if name == "END":
                assert event[1]["metadata"]["resourceVersion"] == versions["now"]
        await api.made(MAPS, config_map("z"))
        assert await events.names(1) == ["ADDED z"]


@pytest.mark.parametrize(("version", "refused"), [("", True), ("0", True), ("now", False)])
@api
async def test_a_watch_has_no_pages(api, version, refused):
    """A token means nothing to a watch, but what begins like a list may not have one; a limit is passed over."""
    versions = await marks(api)
    query = {"resourceVersion": versions.get(version, version), "continue_": "x", "limit": 1, "timeoutSeconds": 1}
    answer = await api.get(MAPS, watch="true", **query)
    assert answer.status == (422 if refused else 200)
    whole = await api.get(MAPS, watch="true", limit=1, timeoutSeconds=1)
    assert whole.body.count(b"\n") == 2


@pytest.mark.parametrize("selector", [{}, {"labelSelector": "x=y"}, {"fieldSelector": "metadata.name=none"}])
@api
async def test_an_empty_streaming_list_ends_too(api, selector):
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with api.watch(MAPS, **query, **selector) as events:
        assert word(await events.next()) == "END"


@api
async def test_the_columns_of_a_table_are_said_once(api):
    await api.made(MAPS, config_map("a"))
    await api.made(MAPS, config_map("b"))
    async with api.watch(MAPS, accept=TABLE, allowWatchBookmarks="true") as events:
        tables = [(await events.next())[1] for _ in range(3)]
        await api.made(MAPS, config_map("c"))
        tables.append((await events.next())[1])
    assert [bool(table["columnDefinitions"]) for table in tables] == [True, False, False, False]
    rows = [table["rows"][0] for table in tables]
    assert [row["object"]["metadata"].get("name") for row in rows] == ["a", "b", None, "c"]
    assert rows[2]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


NONSENSE = {
    "resourceVersion": ["", "0", "1", "2", "5", "99999", "x", "-1", "9" * 30, "\u00e9"],
    "resourceVersionMatch": ["", "Exact", "NotOlderThan", "zz"],
    "limit": ["", "0", "1", "2", "-1", "x", "9" * 30],
    "continue_": ["", "TOKEN", "zz", "e30"],
    "watch": ["", "0", "1", "true", "false"],
    "sendInitialEvents": ["", "true", "false", "1"],
    "allowWatchBookmarks": ["", "1", "0"],
    "labelSelector": ["", "a=1", "a", "!a", "a in (", "a=="],
    "fieldSelector": ["", "metadata.name=m1", "metadata.name!=m1", "x=y", "a", "metadata.namespace=default"],
    "includeObject": ["", "None", "x"],
}


@pytest.mark.parametrize("seed", range(4))
@api
async def test_nothing_that_is_asked_breaks_it(api, seed):
    """Whatever is joined, the answer is one that upstream gives, and every line of it is JSON."""
    chance = random.Random(seed)
    _, token = await history(api)
    for _ in range(200):
        query = {name: chance.choice(values) for name, values in NONSENSE.items() if chance.random() < 0.4}
        query = {name: token if value == "TOKEN" else value for name, value in query.items()} | {"timeoutSeconds": "1"}
        path = chance.choice([MAPS, "/api/v1/configmaps", PODS, "/api/v1/nodes", EVENTS_V1])
        answer = await api.get(path, accept=chance.choice([JSON, TABLE, PARTIAL]), **query)
        assert answer.status in (200, 400, 410, 422, 504), (query, answer.body)
        for line in answer.body.splitlines():
            json.loads(line)


def test_the_tables_are_complete():
    """No combination of what a watch can say is forgotten."""
    said = {(initial, match) for _, initial, match, _ in WATCHES}
    assert said == set(itertools.product((None, True, False), ("", "NotOlderThan", "Exact")))
    assert {(version, match) for version, match, *_ in LISTS} >= set(
        itertools.product(("", "0", "then", "soon"), ("", "Exact", "NotOlderThan"))
    )


BIG = {"k": "x" * 900_000}  # twenty of them are more than a list may be in memory


@api
async def test_long_lists_come_in_pieces_and_pages_are_as_long_as_memory_allows(api):
    names = [f"m{number:02}" for number in range(20)]
    for name in names:
        await api.made(MAPS, config_map(name, data=BIG))
    answered = await api.server.handle(Request("GET", MAPS), ADMIN)
    assert isinstance(answered, Stream)
    longest = max([len(piece) async for piece in answered.chunks])
    assert longest < 2 * len(BIG["k"])
    for accept in (JSON, TABLE, PARTIAL):
        whole = await api.get(MAPS, accept=accept)
        assert (whole.status, whole.content_type) == (200, JSON)
        items = whole.json["rows"] if accept == TABLE else whole.json["items"]
        assert [(item["object"] if accept == TABLE else item)["metadata"]["name"] for item in items] == names
        one = await api.get(MAPS, accept=accept, fieldSelector="metadata.name=m00")
        assert {**whole.json, "items": 0, "rows": 0} == {**one.json, "items": 0, "rows": 0}
    first = await api.get(MAPS, limit=500)
    assert first.names == names[:18]
    assert first.json["metadata"]["remainingItemCount"] == 2
    second = await api.get(MAPS, limit=500, continue_=first.json["metadata"]["continue"])
    assert (second.names, second.json["metadata"].get("continue", "")) == (names[18:], "")
    selected = await api.get(MAPS, limit=500, fieldSelector="metadata.name!=m00")
    assert selected.names == names[1:19]
    gone = await api.delete(MAPS)
    assert gone.names == names
    assert (await api.get(MAPS)).names == []


@api
async def test_a_single_object_is_a_page_however_big_it_is(api, monkeypatch):
    monkeypatch.setattr(read, "LONG_BYTES", 10)
    for name in ("a", "b"):
        await api.made(MAPS, config_map(name))
    first = await api.get(MAPS, limit=500)
    assert first.names == ["a"]
    assert (await api.get(MAPS, limit=500, continue_=first.json["metadata"]["continue"])).names == ["b"]
