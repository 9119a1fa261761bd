import pytest

from muster.api.managed.ancestry import NestingTooDeepError, managed_ancestor
from muster.api.meta import ObjectMeta, OwnerReference

QUEUE = {"kueue.x-k8s.io/queue-name": "lq"}


def chain(*labels):
    """A job at the top with the first labels, one below it with the next, ...; returns the last and how to go up."""
    jobs: dict[str, ObjectMeta] = {}
    above: tuple[OwnerReference, ...] = ()
    meta = ObjectMeta()
    for number, found in enumerate(labels):
        meta = ObjectMeta(name=f"j{number}", namespace="ns", uid=f"u{number}", labels=found, owner_references=above)
        jobs[meta.name] = meta
        above = (OwnerReference(kind="Job", name=meta.name, uid=meta.uid, controller=True),)
    return meta, lambda namespace, reference: jobs.get(reference.name) if namespace == "ns" else None


def top(*labels, without_queue=False):
    meta, owner_of = chain(*labels)
    found = managed_ancestor(meta, owner_of, without_queue=without_queue)
    return found[1].name if found is not None else None


@pytest.mark.parametrize(
    ("labels", "name", "all_name"),
    [
        ([{}], None, None),
        ([QUEUE], None, None),
        ([{}, {}, {}], None, "j0"),
        ([{}, QUEUE, QUEUE], "j1", "j0"),
        ([QUEUE, {}, QUEUE], "j0", "j0"),
        ([QUEUE, QUEUE, QUEUE], "j0", "j0"),
        ([QUEUE, {}], "j0", "j0"),
    ],
)
def test_pitfall_42_the_topmost_that_queues(labels, name, all_name):
    assert top(*labels) == name
    assert top(*labels, without_queue=True) == all_name


def test_ten_levels_are_fine_and_eleven_are_too_many():
    assert top(QUEUE, *[{}] * 10) == "j0"
    with pytest.raises(NestingTooDeepError, match="exceeded limit of 10"):
        top(QUEUE, *[{}] * 11)


def test_a_circle_ends():
    meta, _ = chain({}, {})
    with pytest.raises(NestingTooDeepError):
        managed_ancestor(meta, lambda *_: ObjectMeta(uid="u0", owner_references=meta.owner_references))


def test_an_owner_of_another_uid_is_another_object():
    meta, _ = chain(QUEUE, {})
    assert managed_ancestor(meta, lambda *_: ObjectMeta(uid="else", labels=QUEUE)) is None


def test_owners_that_do_not_manage_it_are_not_asked():
    meta = ObjectMeta(namespace="ns", owner_references=(OwnerReference(kind="Job", name="j", uid="u"),))
    assert managed_ancestor(meta, lambda *_: ObjectMeta(uid="u", labels=QUEUE)) is None
