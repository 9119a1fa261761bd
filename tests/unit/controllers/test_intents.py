"""Which bound pods were meant to be bound together with others that are not."""

from datetime import UTC, datetime

import msgspec
import pytest

from muster.api.core import Pod
from muster.api.meta import ObjectMeta
from muster.api.ours.elastic import BINDING_ANNOTATION
from muster.controllers.intents import Intent, find_unfinished_start, note_intent, read_intent


def intent(second, *, leaves=False):
    return Intent(datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC), leaves)


def pod(second, since=None, *, leaves=False, text=None):
    """A pod made in a second of a minute; since: the second of the newest pod that was to be bound with it."""
    said = note_intent(ObjectMeta(uid="1"), intent(since, leaves=leaves)) if since is not None else {}
    annotations = {BINDING_ANNOTATION: text} if text is not None else said
    created = f"2026-01-01T00:00:{second:02}Z"
    meta = {"name": "p", "uid": "1", "creationTimestamp": created, "annotations": annotations}
    return msgspec.convert({"metadata": meta}, Pod)


def carrier(since=None, *, uid="c"):
    said = note_intent(ObjectMeta(uid=uid), intent(since, leaves=True)) if since is not None else {}
    return ObjectMeta(uid="c", annotations=said)


FIRST, LATER, CROWD = pod(1, since=2), pod(5, since=6), pod(5, since=6, leaves=True)


@pytest.mark.parametrize(
    ("bound", "unbound", "half"),
    [
        pytest.param([FIRST], [pod(2)], [FIRST], id="the rest of a start"),
        pytest.param([FIRST], [pod(2), pod(3)], [FIRST], id="the rest of a start, and a younger pod"),
        pytest.param([FIRST], [], [], id="nothing is left"),
        pytest.param([FIRST], [pod(3)], [], id="a replacement"),
        pytest.param([pod(1)], [pod(1)], [], id="each went for itself"),
        pytest.param([pod(1, text="soon/1")], [pod(1)], [], id="another program wrote there"),
        pytest.param([pod(1, text="2099-01-01T00:00:00Z")], [pod(1)], [], id="a template said it"),
        pytest.param([pod(1, text="2099-01-01T00:00:00Z/2")], [pod(1)], [], id="copied from another pod"),
        pytest.param([FIRST, pod(1), LATER], [pod(6)], [LATER], id="of two stages the later"),
        pytest.param([FIRST, LATER], [pod(2)], [FIRST], id="of two stages the earlier"),
        pytest.param([FIRST, LATER], [pod(7)], [], id="a replacement beside two stages"),
    ],
)
@pytest.mark.parametrize("on_carrier", [None, carrier()], ids=["no carrier", "a carrier"])
def test_which_bound_pods_were_meant_to_be_bound_with_others(bound, unbound, half, on_carrier):
    assert find_unfinished_start(on_carrier, bound, unbound) == half


@pytest.mark.parametrize(
    ("on_carrier", "bound", "unbound", "half"),
    [
        pytest.param(carrier(6), [CROWD], [pod(6)], [CROWD], id="under way"),
        pytest.param(carrier(), [CROWD], [pod(6)], [], id="over"),
        pytest.param(carrier(9), [CROWD], [pod(6)], [], id="another one is under way"),
        pytest.param(None, [CROWD], [pod(6)], [], id="its carrier is gone"),
        pytest.param(carrier(6, uid="other"), [CROWD], [pod(6)], [], id="its carrier is another's copy"),
        pytest.param(carrier(6), [pod(1)], [pod(2)], [], id="what no pod says"),
        pytest.param(carrier(6), [FIRST, pod(4), CROWD], [pod(4)], [CROWD], id="beside an earlier stage"),
    ],
)
def test_a_start_that_leaves_pods_behind_is_unfinished_while_its_carrier_says_so(on_carrier, bound, unbound, half):
    assert find_unfinished_start(on_carrier, bound, unbound) == half


@pytest.mark.parametrize("said", [intent(1), intent(1, leaves=True)])
def test_an_intent_is_read_as_it_was_noted(said):
    assert read_intent(ObjectMeta(uid="1", annotations=note_intent(ObjectMeta(uid="1"), said))) == said
    assert read_intent(ObjectMeta(uid="2", annotations=note_intent(ObjectMeta(uid="1"), said))) is None
