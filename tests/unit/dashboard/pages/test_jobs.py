"""What the list of jobs decides about its filters."""

from muster.dashboard.pages.jobs import list_users

OF_MUSTER, OF_UNIX = "system:serviceaccount:muster-users:ada", "unix:ada"


def test_users_have_short_names_and_whole_ones_where_two_would_be_the_same() -> None:
    assert list_users([{"owner": OF_MUSTER}, {"owner": "unix:bob"}, {"owner": ""}]) == ["ada", "bob"]
    assert list_users([{"owner": OF_MUSTER}, {"owner": OF_UNIX}, {"owner": OF_UNIX}]) == [OF_MUSTER, OF_UNIX]
