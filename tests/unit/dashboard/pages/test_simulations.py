"""The reports of simulations in a folder, and nothing else of the machine."""

import os

from muster.dashboard.pages.simulations import list_reports, read_report


def make(folder, name, content=b"<html>"):
    (folder / name).mkdir()
    (folder / name / "report.html").write_bytes(content)


def test_reports_are_listed_with_the_newest_first(tmp_path):
    for age, name in enumerate(("new", "old")):
        make(tmp_path, name)
        os.utime(tmp_path / name / "report.html", (1_000_000 - age, 1_000_000 - age))
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    assert [one.name for one in list_reports(tmp_path)] == ["new", "old"]
    assert list_reports(tmp_path / "nowhere") == []


def test_a_report_is_read_whole(tmp_path):
    make(tmp_path, "a", b"<html>figures")
    assert read_report(tmp_path, "a") == b"<html>figures"
    assert read_report(tmp_path, "b") is None


def test_no_link_leads_elsewhere(tmp_path):
    home, outside = tmp_path / "simulations", tmp_path / "outside"
    home.mkdir()
    outside.mkdir()
    (outside / "report.html").write_text("a secret")
    (home / "folder").symlink_to(outside)
    (home / "file").mkdir()
    (home / "file" / "report.html").symlink_to(outside / "report.html")
    (home / "pipe").mkdir()
    os.mkfifo(home / "pipe" / "report.html")
    assert list_reports(home) == []
    for name in ("folder", "file", "pipe", "../outside", "..", "."):
        assert read_report(home, name) is None, name
