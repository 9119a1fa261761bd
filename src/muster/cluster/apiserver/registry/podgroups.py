"""The PodGroups of KEP-34, kube-batch, Volcano and the coscheduling plugin, as they are served.

Upstream they are CRDs, and they behave so here. Volcano's has no status subresource: its status is written with it.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from muster.api.defaults import DEFAULTS
from muster.api.kinds import Kind
from muster.api.podgroups import coscheduling, kep, kubebatch, sigs, volcano
from muster.api.validation.podgroups import VALIDATIONS
from muster.cluster.apiserver.objects import preparation, views
from muster.cluster.apiserver.registry.resources import VIEW_VERBS, Resource, Rules, Subresource, View
from muster.cluster.apiserver.schema import compile_structural, compile_whole


def _served(kind: Kind[Any], *short_names: str) -> Resource:
    rules = VALIDATIONS[kind.resource]
    status = View(
        kind,
        take=views.take_status,
        validate_update=rules.update_status,
        compile=partial(compile_structural, status=True),
    )
    return Resource(
        kind=kind,
        stored=kind,
        view=View(kind, None, views.take_main, rules.create, rules.update, compile=compile_structural),
        rules=_rules(kind, Rules(prepare_create=preparation.new, prepare_update=preparation.changed_counted)),
        short_names=short_names,
        subresources=(Subresource("status", kind, VIEW_VERBS, status),),
    )


def _served_whole(kind: Kind[Any], *short_names: str) -> Resource:
    """A kind whose status is a part of it as others are."""
    rules = VALIDATIONS[kind.resource]
    return Resource(
        kind=kind,
        stored=kind,
        view=View(kind, None, views.take_all, rules.create, rules.update, compile=compile_whole),
        rules=_rules(kind, Rules(prepare_update=partial(preparation.changed_counted, status=True))),
        short_names=short_names,
    )


def _rules(kind: Kind[Any], rules: Rules) -> Rules:
    return replace(rules, default=DEFAULTS[kind.resource], has_generation=True, unconditional_update=False)


POD_GROUPS: tuple[Resource, ...] = (
    _served(kep.POD_GROUP, "pg"),
    _served(kubebatch.POD_GROUP),
    _served(sigs.POD_GROUP),
    _served_whole(volcano.POD_GROUP, "pg", "podgroup-v1beta1"),
    _served(coscheduling.POD_GROUP, "pg", "pgs"),
)
