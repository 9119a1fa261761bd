"""Plan the remaining steps until Muster runs in place of Kueue's manager. Pure.

The plan tests steps that may fail before it removes anything, and stores what a handback needs. No webhook responds
between the stop of Kueue's manager and the start of Muster, so the order of the steps keeps that time short. Kueue's
webhooks are deleted as soon as its pods have terminated and its Lease is free. Muster's documents are applied
immediately after that.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from muster.actions.moving.clusterstate import Engine, MoveState, identify_object, is_musters
from muster.actions.moving.kueuestate import KueueState, capture_state, config_map
from muster.actions.moving.steps import (
    AwaitedEvent,
    Install,
    MoveStep,
    Patch,
    RefusedError,
    Try,
    await_event,
    make_delete_step,
    title_object,
)
from muster.api.core import CONFIG_MAP
from muster.api.groups.apps import DEPLOYMENT
from muster.api.server.apiregistration import API_SERVICE
from muster.install.documents import kind_of
from muster.install.options import Json, Options

# The maximum number of object names in a message.
_NAMED: Final = 5


def plan_takeover(
    seen: MoveState, options: Options, documents: Sequence[Json], restarting: Sequence[str]
) -> list[MoveStep]:
    """Return the remaining steps in order; empty once Muster leads.

    restarting: the names of the running jobs that Muster would restart.

    Raises `RefusedError`.
    """
    manager = _find_manager(seen, options)
    if not _has_begun(seen, manager):
        _refuse_to_disturb(options, restarting)
    steps: list[MoveStep] = []
    if (state := _merge_state(seen, manager)) != seen.kueue_state:
        if not seen.learned.tried:
            steps.append(Try(f"ask the server whether it would take {len(documents)} documents of Muster's", documents))
        stored_state = config_map(state, options.namespace)
        words = title_object(CONFIG_MAP, options.namespace, stored_state["metadata"]["name"])
        steps.append(Install(f"keep in {words} what the way back needs", [stored_state]))
    if manager is not None and manager.replicas:
        steps.append(make_scale_step(manager, 0, "stop Kueue's manager"))
    if manager is not None and (manager.replicas or manager.pods):
        steps.append(await_event(AwaitedEvent.KUEUE_STOPPED))
    if not seen.learned.lease_free:
        steps.append(await_event(AwaitedEvent.LEASE_FREE))
    steps += [make_delete_step(kind_of(each), "", each["metadata"]["name"]) for each in seen.webhooks]
    kueues = [each for each in seen.api_services if not is_musters(each)]
    steps += [make_delete_step(API_SERVICE, "", each["metadata"]["name"]) for each in kueues]
    removed_keys = {identify_object(each) for each in kueues}
    missing = [
        each
        for each in documents
        if identify_object(each) not in seen.learned.applied and not _is_there(each, seen, removed_keys)
    ]
    if missing:
        steps.append(Install(f"install Muster: {_list_documents(missing)}", missing))
    if not seen.learned.muster_leads:
        steps.append(await_event(AwaitedEvent.MUSTER_LEADS))
    return steps


def make_scale_step(engine: Engine, replicas: int, words: str) -> Patch:
    """Return a step that changes the number of replicas of an engine's Deployment."""
    title = title_object(DEPLOYMENT, engine.namespace, engine.name)
    text = f"{words}: {title} from {engine.replicas} to {replicas} replicas"
    return Patch(text, DEPLOYMENT, engine.namespace, engine.name, {"spec": {"replicas": replicas}})


def covers(live: Any, document: Any) -> bool:
    """Return whether a live object has every field of a document, with the same value.

    live, document: whole objects, or corresponding parts of them.

    The server may drop empty fields and add further ones.
    """
    if isinstance(document, Mapping):
        values = live or {}
        return isinstance(values, Mapping) and all(covers(values.get(name), part) for name, part in document.items())
    if isinstance(document, list | tuple):
        values = live or []
        return isinstance(values, list) and len(values) == len(document) and all(map(covers, values, document))
    return bool(live == document) or (live is None and not document)


def _is_there(document: Json, seen: MoveState, gone: set[tuple[str, str, str]]) -> bool:
    name = identify_object(document)
    return name not in gone and covers(seen.live.get(name), document)


def _list_documents(documents: Sequence[Json]) -> str:
    if len(documents) > _NAMED:
        return f"{len(documents)} documents"
    return ", ".join(f"{kind} {name}" for kind, _, name in map(identify_object, documents))


def _find_manager(seen: MoveState, options: Options) -> Engine | None:
    """Return the Deployment of Kueue's manager; None if it was deleted. Raises `RefusedError`."""
    if len(seen.kueue) > 1:
        places = ", ".join(f"{each.namespace}/{each.name}" for each in seen.kueue)
        raise RefusedError(f"Kueue's manager is installed more than once: {places}")
    for each in seen.kueue:
        if each.namespace != options.namespace:
            raise RefusedError(
                f"Kueue's manager is in namespace {each.namespace}, and the Configuration says {options.namespace}:"
                f" the two engines would not exclude each other; write `namespace: {each.namespace}` there"
            )
        return each
    if seen.kueue_state is None and not seen.webhooks:
        here = "Muster is installed already" if seen.muster is not None else "`muster manifests` prints what to install"
        raise RefusedError(f"no Kueue is here to take over from: {here}")
    return None


def _has_begun(seen: MoveState, manager: Engine | None) -> bool:
    """Return whether an earlier takeover has stopped Kueue's manager already.

    In that case, continuing disturbs jobs less than stopping half way.
    """
    return seen.kueue_state is not None and (manager is None or not manager.replicas)


def _refuse_to_disturb(options: Options, restarting: Sequence[str]) -> None:
    if not options.settings.internal_cert_management.enable:
        raise RefusedError(
            "internalCertManagement.enable is false: another program makes the certificates, and Muster's need other"
            " names; install by hand with the overlay or the chart for cert-manager, as docs/kueue-migration.md says"
        )
    if restarting:
        more = len(restarting) - _NAMED
        raise RefusedError(
            f"{len(restarting)} Jobs that run have no label kueue.x-k8s.io/podset on their pods, and would be stopped"
            f" and started again: {', '.join(restarting[:_NAMED])}{f' and {more} more' if more > 0 else ''};"
            " let them end first"
        )


def _merge_state(seen: MoveState, manager: Engine | None) -> KueueState:
    """Return the state of Kueue to store for a later handback.

    Once Kueue's manager has stopped, the stored state is kept. If the manager runs again after a takeover has deleted
    objects of Kueue, the stored copies of those objects are kept.
    """
    running = manager is not None and manager.replicas > 0
    if seen.kueue_state is not None and not running:
        return seen.kueue_state
    theirs = [*seen.webhooks, *(each for each in seen.api_services if not is_musters(each))]
    now = capture_state(
        manager.replicas if manager is not None and running else 1, theirs, seen.service, seen.namespace or {}
    )
    if seen.kueue_state is None:
        return now
    objects = {identify_object(each): each for each in seen.kueue_state.objects} | {
        identify_object(each): each for each in now.objects
    }
    return replace(seen.kueue_state, replicas=now.replicas, objects=tuple(objects.values()))
