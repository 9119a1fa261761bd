"""Which names a definition gets, beside others of its group."""

import pytest

from muster.cluster.apiserver.custom.names import settle_names

NOW, LATER = "2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"
NAMES = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList", "shortNames": ["wd"]}


def settled(others=(), names=NAMES, status=None, now=NOW):
    definition = {"spec": {"names": names}} | ({"status": status} if status else {})
    settle_names(definition, others, now)
    return definition["status"]


def words(status):
    return {c["type"]: (c["status"], c["reason"], c["message"]) for c in status["conditions"]}


def test_nobody_has_the_names():
    status = settled()
    assert status["acceptedNames"] == NAMES
    assert words(status) == {
        "NamesAccepted": ("True", "NoConflicts", "no conflicts found"),
        "Established": ("True", "InitialNamesAccepted", "the initial names have been accepted"),
    }


@pytest.mark.parametrize(
    ("other", "reason", "message", "missing"),
    [
        ({"plural": "widgets"}, "PluralConflict", '"widgets" is already in use', "plural"),
        ({"singular": "widget"}, "SingularConflict", '"widget" is already in use', "singular"),
        ({"shortNames": ["wd"]}, "ShortNamesConflict", '"wd" is already in use', "shortNames"),
        ({"plural": "wd"}, "ShortNamesConflict", '"wd" is already in use', "shortNames"),
        ({"kind": "Widget"}, "KindConflict", '"Widget" is already in use', "kind"),
        ({"listKind": "WidgetList"}, "ListKindConflict", '"WidgetList" is already in use', "listKind"),
    ],
)
def test_somebody_has_one(other, reason, message, missing):
    status = settled([other])
    assert words(status)["NamesAccepted"] == ("False", reason, message)
    assert words(status)["Established"] == ("False", "NotAccepted", "not all names are accepted")
    assert not status["acceptedNames"].get(missing)
    assert settled([{"plural": "others", "kind": "Other"}]) == settled()


def test_who_has_a_name_keeps_it_and_who_is_established_stays_so():
    first = settled()
    again = settled([{"shortNames": ["x"]}], NAMES | {"shortNames": ["wd", "x"]}, first, LATER)
    assert again["acceptedNames"]["shortNames"] == ["wd"]
    assert words(again)["NamesAccepted"][:2] == ("False", "ShortNamesConflict")
    assert words(again)["Established"][0] == "True"
    times = {c["type"]: c["lastTransitionTime"] for c in again["conditions"]}
    assert times == {"NamesAccepted": LATER, "Established": NOW}
