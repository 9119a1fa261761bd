"""Keep aggregated ClusterRoles up to date: each contains the rules of the roles that its selectors match."""

import msgspec

from muster.api.server.rbac import CLUSTER_ROLE, ClusterRole
from muster.api.values.selectors import SelectorError
from muster.cluster.apiserver.access.aggregation import aggregate_rules
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.refusals import ignoring


class RoleAggregator(Reconciler):
    """The controller of aggregated ClusterRoles. A `Manager` runs it.

    Its keys are the ClusterRoles with an aggregation rule.
    """

    name = "clusterrole-aggregation-controller"

    def __init__(self, manager: Manager) -> None:
        super().__init__(manager)
        self._roles = manager.informer(CLUSTER_ROLE)
        self._roles.on_change(self._on_role_changed)

    def _on_role_changed(self, old: ClusterRole | None, new: ClusterRole | None) -> None:
        """Queue all aggregated roles if a role's rules or labels changed, because any role may be part of any other."""
        if (
            old is not None
            and new is not None
            and (old.rules, old.metadata.labels, old.aggregation_rule)
            == (
                new.rules,
                new.metadata.labels,
                new.aggregation_rule,
            )
        ):
            return
        for role in self._roles.all():
            if role.aggregation_rule is not None:
                self._controller.queue.add(role.metadata.name)

    async def _reconcile(self, name: str) -> Result:
        role = self._roles.get(name)
        if role is None or role.aggregation_rule is None or role.metadata.deletion_timestamp is not None:
            return None
        try:
            rules = aggregate_rules(role, self._roles.all())
        except SelectorError:
            return None  # validation rejects such selectors; older roles stay as they are
        if rules == role.rules:
            return None
        with ignoring("NotFound", "Conflict"):  # gone, or changed, which calls this again
            await self._client.patch_object(CLUSTER_ROLE, role, {"rules": msgspec.to_builtins(rules)})
        return None
