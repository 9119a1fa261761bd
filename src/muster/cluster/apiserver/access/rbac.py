"""Decide whether a user may do something, by the roles and bindings in the store.

When a role or binding has changed, the next decision decodes the changed objects again. Until then the rights of each
user in a namespace, and each decision, are cached. Only durable objects count: a binding takes effect when its writer
gets the response.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from msgspec import Struct

from muster.api.kinds import Kind
from muster.api.server.rbac import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    ROLE,
    ROLE_BINDING,
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    Role,
    RoleBinding,
    RoleRef,
    Subject,
)
from muster.cluster.apiserver.access.rules import allows
from muster.cluster.apiserver.identity.users import MASTERS, Access, User, account_name, make_refusal
from muster.cluster.store import Entry, Key, Store

# The most entries of each cache; a full cache is cleared.
REMEMBERED = 10_000
# Entries with longer names are not cached: any client could fill the memory with long names.
MAX_NAMES = 1024

_KINDS: tuple[Kind[Any], ...] = (ROLE, CLUSTER_ROLE, ROLE_BINDING, CLUSTER_ROLE_BINDING)

_Binding: TypeAlias = RoleBinding | ClusterRoleBinding


class AccessDecision(Struct, frozen=True):
    """The decision whether an access is allowed.

    reason: the binding that allows the access, or the missing roles of bindings; "" if there is nothing to say.
    """

    allowed: bool
    reason: str = ""


class Grant(Struct, frozen=True):
    """The rules that one binding grants a user, and a description of the binding."""

    rules: tuple[PolicyRule, ...]
    source: str


class Grants(Struct, frozen=True):
    """All grants of a user in a namespace and in the whole cluster, and an error for each missing role."""

    grants: tuple[Grant, ...]
    errors: tuple[str, ...]

    @property
    def rules(self) -> list[PolicyRule]:
        """The rules of all grants."""
        return [rule for grant in self.grants for rule in grant.rules]


_MASTER = AccessDecision(allowed=True)
_Question: TypeAlias = tuple[str, frozenset[str], str, str, str, str, str, str]


class Rbac:
    """The rights of all users, as the roles and bindings of a store grant them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: tuple[int, ...] = ()
        self._objects: dict[Key, tuple[Entry, Any]] = {}
        # By namespace ("" for the whole cluster) and then by `User:name` or `Group:name`.
        self._bindings: dict[str, dict[str, list[tuple[_Binding, Subject]]]] = {}
        self._grants: dict[tuple[str, frozenset[str], str], Grants] = {}
        self._decisions: dict[_Question, AccessDecision] = {}

    def require(self, access: Access) -> None:
        """Raise `ApiError` (403), in the API server's words, unless the user may do this."""
        decision = self.decide(access)
        if not decision.allowed:
            raise make_refusal(access, decision.reason)

    def decide(self, access: Access) -> AccessDecision:
        """Return whether the user may do this, and why."""
        user = access.user
        if MASTERS in user.groups:
            return _MASTER
        self._read()
        question = (
            user.name, user.groups, access.verb, access.group, access.resource, access.namespace, access.name,
            access.path,
        )  # fmt: skip
        decision = self._decisions.get(question)
        if decision is None:
            if len(self._decisions) >= REMEMBERED:
                self._decisions.clear()
            decision = _decide(access, self._find_grants(user, access.namespace))
            names = (access.verb, access.group, access.resource, access.namespace, access.name, access.path)
            if _measure_length(user, *names) <= MAX_NAMES:
                self._decisions[question] = decision
        return decision

    def grants(self, user: User, namespace: str) -> Grants:
        """Return all rights of a user in a namespace, with the rights in the whole cluster.

        namespace: "" for only the rights in the whole cluster.
        """
        self._read()
        return self._find_grants(user, namespace)

    def role_rules(self, ref: RoleRef, namespace: str) -> tuple[PolicyRule, ...] | None:
        """Return the rules of a role; None if the role does not exist. namespace: the namespace of the binding."""
        self._read()
        return self._find_rules(ref, namespace)

    def _find_grants(self, user: User, namespace: str) -> Grants:
        question = (user.name, user.groups, namespace)
        grants = self._grants.get(question)
        if grants is None:
            if len(self._grants) >= REMEMBERED:
                self._grants.clear()
            grants = self._collect(user, namespace)
            if _measure_length(user, namespace) <= MAX_NAMES:
                self._grants[question] = grants
        return grants

    def _collect(self, user: User, namespace: str) -> Grants:
        grants, errors = [], []
        keys = [f"User:{user.name}", *(f"Group:{group}" for group in sorted(user.groups))]
        for place in dict.fromkeys(("", namespace)):
            bound = self._bindings.get(place, {})
            for binding, subject in (pair for key in keys for pair in bound.get(key, ())):
                rules = self._find_rules(binding.role_ref, place)
                if rules is None:
                    errors.append(explain_missing_role(binding.role_ref))
                else:
                    grants.append(Grant(rules, _describe_source(binding, subject)))
        return Grants(tuple(grants), tuple(dict.fromkeys(errors)))

    def _find_rules(self, ref: RoleRef, namespace: str) -> tuple[PolicyRule, ...] | None:
        kind, place = (ROLE, namespace) if ref.kind == ROLE.kind else (CLUSTER_ROLE, "")
        decoded = self._objects.get(Key(kind.resource, place, ref.name))
        if decoded is None:
            return None
        role: Role | ClusterRole = decoded[1]
        return role.rules

    def _read(self) -> None:
        """Decode the roles and bindings that have changed since the last call, and clear the caches if any has."""
        seen = tuple([self._store.changes_of(kind.resource) for kind in _KINDS])
        if seen == self._seen:
            return
        known, self._objects = self._objects, {}
        for kind in _KINDS:
            for entry in self._store.list(kind.resource).entries:
                old = known.get(entry.key)
                same = old is not None and old[0] is entry
                self._objects[entry.key] = old if old and same else (entry, kind.decode(entry.body))
        self._bindings = _group_by_subject(obj for _, obj in self._objects.values())
        self._grants.clear()
        self._decisions.clear()
        self._seen = seen


def _measure_length(user: User, *texts: str) -> int:
    return sum(map(len, (user.name, *user.groups, *texts)))


def explain_missing_role(ref: RoleRef) -> str:
    """Return a sentence about a role that does not exist."""
    return f'{ref.kind.lower()}.{ROLE.group} "{ref.name}" not found'


def _decide(access: Access, grants: Grants) -> AccessDecision:
    for grant in grants.grants:
        if any(allows(rule, access) for rule in grant.rules):
            return AccessDecision(True, f"RBAC: allowed by {grant.source}")
    if len(grants.errors) > 1:
        return AccessDecision(False, f"RBAC: [{', '.join(grants.errors)}]")
    return AccessDecision(False, "".join(f"RBAC: {error}" for error in grants.errors))


def _group_by_subject(objects: Iterable[Any]) -> dict[str, dict[str, list[tuple[_Binding, Subject]]]]:
    bindings: dict[str, dict[str, list[tuple[_Binding, Subject]]]] = defaultdict(lambda: defaultdict(list))
    for binding in objects:
        if isinstance(binding, RoleBinding | ClusterRoleBinding):
            place = binding.metadata.namespace
            for subject in binding.subjects:
                for key in _yield_key(subject, place):
                    bindings[place][key].append((binding, subject))
    return bindings


def _yield_key(subject: Subject, place: str) -> Iterator[str]:
    """Yield the key under which a binding's subject is indexed; nothing if the subject can match no user.

    place: the binding's namespace.
    """
    if subject.kind in ("User", "Group"):
        yield f"{subject.kind}:{subject.name}"
    elif subject.kind == "ServiceAccount" and (namespace := subject.namespace or place):
        yield f"User:{account_name(namespace, subject.name)}"


def _describe_source(binding: _Binding, subject: Subject) -> str:
    meta, ref = binding.metadata, binding.role_ref
    name = f"{meta.name}/{meta.namespace}" if meta.namespace else meta.name
    whom = subject.name
    if subject.kind == "ServiceAccount":
        whom = f"{subject.name}/{subject.namespace or meta.namespace}"
    return f'{type(binding).__name__} "{name}" of {ref.kind} "{ref.name}" to {subject.kind} "{whom}"'
