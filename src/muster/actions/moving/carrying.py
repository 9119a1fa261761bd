"""Execute a move: read the cluster, execute the first remaining step, and repeat."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from muster.actions.moving.clusterstate import Engine, MoveState, RunFacts, identify_object, observe
from muster.actions.moving.steps import (
    Await,
    AwaitedEvent,
    Create,
    DeleteStep,
    GiveBack,
    Install,
    MoveStep,
    Patch,
    RefusedError,
    ReleaseStep,
    Try,
)
from muster.api.groups.apps import DEPLOYMENT
from muster.api.status import ApiError
from muster.install.documents import kind_of, make_documents
from muster.install.options import Json, Options
from muster.operator.handback import StillWorksError, hand_back_alone
from muster.operator.holders import LOOK_SECONDS, find_renewer
from muster.operator.precedence import is_ours, make_identity, place
from muster.operator.replica import FIELD_MANAGER
from muster.runtime.client import Client, Propagation
from muster.runtime.control.leases import LeadershipLostError
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.refusals import ignoring
from muster.runtime.transport import APPLY_PATCH

# The timeout of a wait: pods stop within their grace period, and an engine has to pull its image and acquire the Lease.
STOP_SECONDS: Final = 300.0
LEAD_SECONDS: Final = 600.0
# A step that is due for the third time is probably undone by another program.
_MOST_TIMES: Final = 2

Plan = Callable[[MoveState], list[MoveStep]]


class Move:
    """The move of one cluster from Kueue to Muster, or back.

    It executes the first step of the plan, reads the cluster again and plans again, until no step remains.
    """

    def __init__(self, client: Client, inputs: ExternalInputs, options: Options, report: Callable[[str], None]) -> None:
        """Prepare the move.

        report: called with the text of each step when the step starts, and with the reason for each wait.
        """
        self.documents = make_documents(options)
        # The help of `muster manifests` uses the same field manager, so that later applies do not conflict.
        self._client = Client(client.transport, field_manager=FIELD_MANAGER)
        self._inputs, self._options = inputs, options
        self._report = report
        self._learned = RunFacts()

    async def read_state(self) -> MoveState:
        """Return the current state of the cluster. Raises `ApiError`."""
        return await observe(self._client, self._options, self.documents, self._learned)

    async def run(self, plan: Plan) -> int:
        """Execute all remaining steps; return their number.

        Raises `RefusedError`, and `ApiError` if the server refuses.
        If a run is interrupted, the next run continues from the state of the cluster.
        """
        times, since = Counter[str](), dict[str, float]()
        while steps := plan(await self.read_state()):
            step = steps[0]
            if isinstance(step, Await) and step.event in (AwaitedEvent.KUEUE_STOPPED, AwaitedEvent.MUSTER_STOPPED):
                if step.text not in since:
                    self._report(step.text)
                began = since.setdefault(step.text, self._inputs.clock.monotonic())
                if self._inputs.clock.monotonic() - began > STOP_SECONDS:
                    raise RefusedError(f"{step.text}: gave up after {STOP_SECONDS:.0f} s; run this again")
                await self._inputs.clock.sleep(LOOK_SECONDS)
                continue
            times[step.text] += 1
            if times[step.text] > _MOST_TIMES:
                raise RefusedError(f"another program undoes this: {step.text}; stop that, and run this again")
            self._report(step.text)
            await self._do_step(step)
        return times.total() + len(since)

    async def rehearse(self, steps: Sequence[MoveStep]) -> None:
        """Execute only the dry runs among the steps, which test whether later steps would succeed.

        Raises `RefusedError`.
        """
        for step in steps:
            if isinstance(step, Try):
                await self._write(step)

    async def _do_step(self, step: MoveStep) -> None:
        match step:
            case GiveBack():
                await self._give_back()
            case Await(event=AwaitedEvent.LEASE_FREE):
                await self._check_no_leader()
            case Await(event=event):
                await self._wait_for_leader(musters=event is AwaitedEvent.MUSTER_LEADS)
            case _:
                await self._write(step)

    async def _write(self, step: MoveStep) -> None:
        """Send the writes of a step. An object that is already created or deleted is no error. Raises `ApiError`."""
        client = self._client
        match step:
            case Try(documents=tried):
                for document in tried:
                    await self._apply(document, dry_run=True)
                self._learned = replace(self._learned, tried=True)
            case Install(documents=wanted):
                for document in wanted:
                    await self._apply(document)
                self._learned = replace(self._learned, applied=self._learned.applied | {*map(identify_object, wanted)})
            case Create(document=document):
                with ignoring("AlreadyExists"):
                    await client.create(kind_of(document), document)
            case Patch(kind=kind, namespace=namespace, name=name, patch=patch):
                await client.patch(kind.seen_as(dict), name, patch, namespace)
            case ReleaseStep(held=held):
                for document, entries in held:
                    meta = document["metadata"]
                    version = {"resourceVersion": meta["resourceVersion"], "managedFields": entries}
                    patch = {"metadata": version}
                    await client.patch(kind_of(document), meta["name"], patch, meta.get("namespace") or "")
            case DeleteStep(kind=kind, namespace=namespace, name=name):
                with ignoring("NotFound"):
                    how: Propagation = "Foreground" if kind.resource == DEPLOYMENT.resource else "Background"
                    await client.delete(kind, name, namespace, propagation=how)

    async def _apply(self, document: Json, *, dry_run: bool = False) -> None:
        meta = document["metadata"]
        where = meta.get("namespace") or ""
        try:
            await self._client.patch(
                kind_of(document), meta["name"], document, where, type=APPLY_PATCH, force=True, dry_run=dry_run
            )
        except ApiError as error:
            name = f"{document['kind']} {f'{where}/' if where else ''}{meta['name']}"
            note = "" if not dry_run else "; nothing has been changed"
            raise RefusedError(f"the server does not take {name}: {error}{note}") from error

    async def _give_back(self) -> None:
        own = make_identity("handback", self._inputs.ids.uid())
        try:
            count = await hand_back_alone(self._client, self._inputs, self._options.settings, own, self._report)
        except (StillWorksError, LeadershipLostError) as error:
            raise RefusedError(str(error)) from error
        self._report(f"  {count} workload{'s' if count != 1 else ''} given back")
        self._learned = replace(self._learned, given_back=True)

    async def _check_no_leader(self) -> None:
        namespace, name = place(self._options.settings)
        holder = await find_renewer(self._client, self._inputs.clock, namespace, name, self._report)
        if holder and not is_ours(holder):
            raise RefusedError(
                f"{holder} renews the Lease {namespace}/{name} and is no pod of Kueue's Deployment: stop it, and run"
                " this again"
            )
        self._learned = replace(self._learned, lease_free=True, muster_leads=bool(holder))

    async def _wait_for_leader(self, *, musters: bool) -> None:
        clock, (namespace, name) = self._inputs.clock, place(self._options.settings)
        until = clock.monotonic() + LEAD_SECONDS
        while clock.monotonic() < until:
            holder = await find_renewer(self._client, clock, namespace, name, lambda _: None)
            if holder and is_ours(holder) == musters:
                self._report(f"  {holder} leads")
                self._learned = replace(self._learned, muster_leads=musters, kueue_leads=not musters)
                return
            await clock.sleep(LOOK_SECONDS)
        observed = await self.read_state()
        engine = observed.muster if musters else next(iter(observed.kueue), None)
        raise RefusedError(_explain_no_leader(engine, namespace, name))


def _explain_no_leader(engine: Engine | None, namespace: str, lease: str) -> str:
    """Return the reason why no replica of the engine acquired the Lease, as far as the cluster shows it.

    engine: None if there is no Deployment of it.
    """
    if engine is None:
        return f"no engine renews the Lease {namespace}/{lease}, and there is no Deployment of it: run this again"
    why = "; ".join(engine.troubles[:3]) or f"see kubectl -n {engine.namespace} logs deployment/{engine.name}"
    return f"no pod of {engine.name} renews the Lease {namespace}/{lease} after {LEAD_SECONDS:.0f} s: {why}"
