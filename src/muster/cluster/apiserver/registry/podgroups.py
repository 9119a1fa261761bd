"""The served resources of PodGroups: scheduler KEP-34 (kube-batch), kube-batch, Volcano and the coscheduling plugin.

Upstream they are CRDs, and they behave so here. Volcano's PodGroup has no status subresource: a write of the object
also writes its status.
"""

from functools import partial
from typing import Any

from muster.api.defaults import DEFAULTS
from muster.api.kinds import Kind
from muster.api.podgroups import coscheduling, kep, kubebatch, sigs, volcano
from muster.api.validation.podgroups import VALIDATIONS
from muster.cluster.apiserver.objects import preparation, views
from muster.cluster.apiserver.registry.entries import make_custom_resource
from muster.cluster.apiserver.registry.resources import Resource, Rules, View
from muster.cluster.apiserver.schema import compile_whole


def _make_resource(kind: Kind[Any], *short_names: str) -> Resource:
    rules = VALIDATIONS[kind.resource]
    return make_custom_resource(kind, (rules.create, rules.update), rules.update_status, *short_names)


def _make_whole_resource(kind: Kind[Any], *short_names: str) -> Resource:
    """Return the resource of a kind without a status subresource: a write of the object also writes its status."""
    rules = VALIDATIONS[kind.resource]
    return Resource(
        kind=kind,
        stored=kind,
        view=View(kind, None, views.take_all, rules.create, rules.update, compile=compile_whole),
        rules=Rules(
            default=DEFAULTS[kind.resource],
            prepare_update=partial(preparation.count_change, status=True),
            has_generation=True,
            unconditional_update=False,
        ),
        short_names=short_names,
    )


POD_GROUPS: tuple[Resource, ...] = (
    _make_resource(kep.POD_GROUP, "pg"),
    _make_resource(kubebatch.POD_GROUP),
    _make_resource(sigs.POD_GROUP),
    _make_whole_resource(volcano.POD_GROUP, "pg", "podgroup-v1beta1"),
    _make_resource(coscheduling.POD_GROUP, "pg", "pgs"),
)
