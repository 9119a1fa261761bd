"""What of a page is sent again after a change."""

from hypothesis import given
from hypothesis import strategies as st

from muster.dashboard.pieces import find_changes


def page(rows, title="Jobs"):
    return f"<h1>{title}</h1>" + "".join(
        f'<!--piece {id}--><tr id="{id}">{body}</tr><!--/piece-->' for id, body in rows
    )


def sent(before, after):
    shown, _ = find_changes(None, before)
    return find_changes(shown, after)[1]


ROWS = [("a", "queued"), ("b", "queued")]


def test_the_first_time_the_whole_page_is_sent():
    assert find_changes(None, page(ROWS))[1] is None


def test_nothing_is_sent_for_the_same_page():
    assert sent(page(ROWS), page(ROWS)) == {}


def test_a_changed_row_is_sent_alone():
    assert sent(page(ROWS), page([("a", "running"), ("b", "queued")])) == {"a": '<tr id="a">running</tr>'}


def test_the_whole_is_sent_when_a_row_comes_goes_or_moves_or_the_rest_changes():
    assert sent(page(ROWS), page([*ROWS, ("c", "queued")])) is None
    assert sent(page(ROWS), page(ROWS[:1])) is None
    assert sent(page(ROWS), page(ROWS[::-1])) is None
    assert sent(page(ROWS), page(ROWS, title="All jobs")) is None


def test_an_age_that_grows_is_no_change():
    age = '<time class="age" datetime="2026-01-01T00:00:00+00:00">{}</time>'
    assert sent(page([("a", age.format("5s"))]), page([("a", age.format("9m"))])) == {}
    changed = sent(page([("a", "queued" + age.format("5s"))]), page([("a", "running" + age.format("9m"))]))
    assert changed is not None
    assert "9m" in changed["a"], "what is sent has its age"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.text("xy", max_size=2)), unique_by=lambda row: row[0]), st.data())
def test_what_is_sent_makes_the_new_page_of_the_old(before, data):
    after = data.draw(st.permutations([(id, data.draw(st.text("xy", max_size=2))) for id, _ in before]))
    changed = sent(page(before), page(after))
    if changed is None:
        return
    patched = [(id, changed[id].removeprefix(f'<tr id="{id}">').removesuffix("</tr>") if id in changed else body)
               for id, body in before]  # fmt: skip
    assert page(patched) == page(after)
