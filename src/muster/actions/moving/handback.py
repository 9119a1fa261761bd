"""Plan the remaining steps until Kueue's manager runs in Muster's place again. Pure.

Muster's webhooks are deleted first, so that the server refuses no request while no engine runs. Then Muster stops, its
Workloads are handed back, and the objects that only Muster uses are deleted. CRDs, queues, Workloads and jobs stay.
Kueue's webhooks are restored immediately before its manager starts.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from muster.actions.moving import kueuestate
from muster.actions.moving.clusterstate import Engine, MoveState, identify_object, is_musters
from muster.actions.moving.steps import (
    AwaitedEvent,
    Create,
    GiveBack,
    MoveStep,
    Patch,
    RefusedError,
    ReleaseStep,
    await_event,
    make_delete_step,
    title_object,
)
from muster.actions.moving.takeover import make_scale_step
from muster.api.core import CONFIG_MAP, NAMESPACE, SERVICE
from muster.api.groups.apps import DEPLOYMENT
from muster.api.server.apiregistration import API_SERVICE
from muster.install.documents import kind_of
from muster.install.options import NAME, Json, Options
from muster.operator.replica import FIELD_MANAGER

# Kueue's manifest contains documents of these kinds, too.
_SHARED_KINDS: Final = ("Namespace", "CustomResourceDefinition")
_SHARED_NAMES: Final = "kueue-"
# Separate steps delete documents of these kinds, and the engine's Deployment.
_APART: Final = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "APIService")

WITHOUT_KUEUE: Final = (
    "Kueue's manifest or chart has to be installed again: kubectl apply --server-side --force-conflicts -f FILE"
)


def include_extras(options: Options) -> Options:
    """Return the options with all extras enabled, because the cluster does not show which extras were installed."""
    return replace(options, cert_manager=True, monitoring=True, dashboard=True)


def plan_handback(seen: MoveState, options: Options, documents: Sequence[Json], left: Sequence[str]) -> list[MoveStep]:
    """Return the remaining steps in order; empty once Kueue's manager leads, or if Muster cannot start it.

    documents: everything that Muster installs, including extras.
    left: titles of the objects that no engine would process once Muster has stopped.

    Raises `RefusedError`.
    """
    manager = _find_manager(seen, options)
    runs = manager is not None and manager.replicas > 0
    muster = seen.muster
    if not seen.learned.given_back and _is_gone(seen, documents):
        if runs:
            return []
        raise RefusedError("Muster is not installed here; after an engine elsewhere, `muster adopt --back` gives back")
    if muster is not None and not muster.deleting and left:
        raise RefusedError(
            f"nothing would run these once Muster is stopped: {', '.join(left)};"
            " let them end, delete them, or start the controller that runs them"
        )
    if muster is not None and runs:
        raise RefusedError("Kueue's manager and Muster are both to run: scale one of their Deployments to 0 first")
    steps: list[MoveStep] = []
    steps += [make_delete_step(kind_of(each), "", each["metadata"]["name"]) for each in seen.own_webhooks]
    steps += [
        make_delete_step(API_SERVICE, "", each["metadata"]["name"]) for each in seen.api_services if is_musters(each)
    ]
    if muster is not None:
        if not muster.deleting:
            steps.append(make_delete_step(DEPLOYMENT, muster.namespace, NAME))
        steps.append(await_event(AwaitedEvent.MUSTER_STOPPED))
    if not runs and not seen.learned.given_back:
        steps.append(GiveBack("give back to Kueue what Muster has admitted"))
    steps += _plan_removals(seen, documents)
    if manager is not None and seen.kueue_state is not None:
        steps += _plan_returns(seen, options, manager, seen.kueue_state)
    steps += _plan_releases(seen, documents)
    if seen.kueue_state is not None:
        if manager is not None and not runs:
            steps.append(make_scale_step(manager, seen.kueue_state.replicas, "start Kueue's manager"))
        if manager is not None and not seen.learned.kueue_leads:
            steps.append(await_event(AwaitedEvent.KUEUE_LEADS))
        # The kept objects are useless without Kueue's manager, and Kueue's manifest creates all of them.
        steps.append(make_delete_step(CONFIG_MAP, options.namespace, kueuestate.NAME))
    return steps


def _find_manager(seen: MoveState, options: Options) -> Engine | None:
    return next((each for each in seen.kueue if each.namespace == options.namespace), None)


def _is_gone(seen: MoveState, documents: Sequence[Json]) -> bool:
    own = any(identify_object(each) in seen.live for each in documents if _is_own(each))
    return seen.muster is None and seen.kueue_state is None and not own


def _plan_removals(seen: MoveState, documents: Sequence[Json]) -> Iterator[MoveStep]:
    """Yield the steps that delete the objects that only Muster uses, each before the objects that it depends on."""
    for document in reversed(documents):
        _, namespace, name = identify_object(document)
        if _is_own(document) and identify_object(document) in seen.live:
            yield make_delete_step(kind_of(document), namespace, name)


def _plan_returns(
    seen: MoveState, options: Options, manager: Engine, state: kueuestate.KueueState
) -> Iterator[MoveStep]:
    """Yield the steps that restore the objects of Kueue that the takeover deleted or changed."""
    if seen.namespace is not None and (patch := kueuestate.namespace_patch(state, seen.namespace)) is not None:
        words = "give the namespace its Pod Security level again"
        yield Patch(words, NAMESPACE, "", options.namespace, patch)
    if seen.service is not None and (patch := kueuestate.service_patch(state, seen.service)) is not None:
        name = seen.service["metadata"]["name"]
        words = f"lead {title_object(SERVICE, options.namespace, name)} to {manager.name} again"
        yield Patch(words, SERVICE, options.namespace, name, patch)
    there = {
        identify_object(each) for each in (*seen.webhooks, *(one for one in seen.api_services if not is_musters(one)))
    }
    for document in state.objects:
        if identify_object(document) not in there:
            yield Create(f"create {document['kind']} {document['metadata']['name']} again", document)


def _plan_releases(seen: MoveState, documents: Sequence[Json]) -> Iterator[MoveStep]:
    """Yield the step that removes Muster from the field managers of the objects that stay for Kueue.

    After that, Kueue's manifest can be applied without conflicts.

    documents: all that Muster installs. Of these, Namespaces, CRDs and objects named `kueue-...` stay.
    """
    live = [
        seen.live[identify_object(each)] | _read_type(each)
        for each in documents
        if identify_object(each) in seen.live and _is_shared(each)
    ]
    theirs = [*seen.webhooks, *(each for each in seen.api_services if not is_musters(each))]
    before = {
        identify_object(each): _read_entries(each)
        for each in (seen.kueue_state.objects if seen.kueue_state is not None else ())
    }
    managed = [
        (each, remove_our_managers(_read_entries(each), before.get(identify_object(each), ())))
        for each in (*live, *theirs)
    ]
    held = [(document, entries) for document, entries in managed if entries is not None]
    if held:
        yield ReleaseStep(f"give up what Muster manages of {len(held)} objects of Kueue's", held)


def remove_our_managers(entries: Sequence[Json], before: Sequence[Json]) -> list[Json] | None:
    """Return an object's `managedFields` without Muster's entries; None if Muster has no entry.

    before: the entries of the object from before a takeover deleted it. They come first in the result.

    If no entry would remain, the result is a single empty entry, which makes the server clear the field.
    """
    others = [each for each in entries if each.get("manager") != FIELD_MANAGER]
    earlier = [each for each in before if each.get("manager") != FIELD_MANAGER]
    return None if len(others) == len(entries) else [*earlier, *others] or [{}]


def _read_entries(document: Json) -> Sequence[Json]:
    return document["metadata"].get("managedFields") or ()


def _is_shared(document: Json) -> bool:
    kind, _, name = identify_object(document)
    return kind in _SHARED_KINDS or name.startswith(_SHARED_NAMES)


def _is_own(document: Json) -> bool:
    kind, _, name = identify_object(document)
    is_engine = (kind, name) == (DEPLOYMENT.kind, NAME)
    return kind not in _APART and not is_engine and not _is_shared(document)


def _read_type(document: Json) -> Json:
    return {"apiVersion": document["apiVersion"], "kind": document["kind"]}
