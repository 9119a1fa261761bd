"""Whom a job tells of which events, as its annotations say."""

import pytest

from muster.api.ours.notify import (
    Event,
    NoticeSettings,
    NotifyError,
    TargetKind,
    address_of,
    check_target,
    find_kind,
    make_annotations,
    parse_events,
    parse_targets,
    read_notice_settings,
)


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("https://example.org/hook?x=1", TargetKind.URL),
        ("http://127.0.0.1:8080", TargetKind.URL),
        ("ada@example.org", TargetKind.MAIL),
        ("mailto:ada", TargetKind.MAIL),
        ("./tell.sh ada@example.org", TargetKind.COMMAND),
        ("curl https://example.org", TargetKind.COMMAND),
    ],
)
def test_the_kind_of_a_target(target: str, kind: TargetKind) -> None:
    assert check_target(target) == target
    assert find_kind(target) is kind


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        ("", "goes to a URL, a mail address or a command"),
        ("a\nb", "on one line"),
        ("http://", "is no URL"),
        ("ftp://example.org/in", "URLs of http:// and https:// alone"),
        ("http://h:99999/", "is no URL"),
        ("https://h/ x", "is no URL"),
        ("mailto:a b", "is no mail address"),
        ("mailto:a@b,c@d", "is no mail address"),
        ("mailto:-oQ", "is no mail address"),
        ("x" * 5000, "is longer than 4096 characters"),
    ],
)
def test_a_target_that_means_nothing(target: str, complaint: str) -> None:
    with pytest.raises(NotifyError, match=complaint):
        check_target(target)


def test_the_address_of_a_target() -> None:
    assert (address_of("mailto:ada"), address_of("ada@b.c")) == ("ada", "ada@b.c")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("stop", "'stop' is no event of a job: there are start"),
        ("start,stop,halt", "'stop' is no event"),
        ("start,", "'start,' has an empty name of an event; there are start"),
        (",bogus", "',bogus' has an empty name"),
        ("", "'' has an empty name"),
    ],
)
def test_events_that_there_are_not(text: str, complaint: str) -> None:
    with pytest.raises(NotifyError, match=complaint):
        parse_events(text)


def test_wishes_and_annotations_say_the_same() -> None:
    settings = NoticeSettings(("a@b.c", "echo $X, 'y'"), frozenset({Event.FAIL, Event.START}))
    annotations = make_annotations(settings)
    assert annotations == {"muster.dev/notify": "a@b.c\necho $X, 'y'", "muster.dev/notify-on": "start,fail"}
    assert read_notice_settings(annotations) == settings
    assert make_annotations(NoticeSettings()) == {}


def test_without_events_the_end_counts() -> None:
    assert read_notice_settings({"muster.dev/notify": "a@b.c\n\n  a@b.c"}) == NoticeSettings(
        ("a@b.c",), frozenset({Event.END})
    )
    assert not read_notice_settings({})


def test_no_more_than_five_targets() -> None:
    with pytest.raises(NotifyError, match="6 targets are more than 5"):
        parse_targets("\n".join("abcdef"))
