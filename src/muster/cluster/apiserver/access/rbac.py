"""Decides by the roles and bindings in the store.

Roles and bindings are read again when one of them has changed, and only those that did; until then, what was found of
a user in a namespace, and what was decided, is remembered. Only what is durable counts: a binding works from the moment
its writer hears that it was stored.
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
from muster.cluster.apiserver.identity.users import MASTERS, Access, User, account_name, refusal
from muster.cluster.store import Entry, Key, Store

# So many users' rights and decisions are remembered; past that, all are forgotten.
REMEMBERED = 10_000
# What is named at greater length than this is not remembered: any client could fill the memory with names.
MAX_NAMES = 1024

_KINDS: tuple[Kind[Any], ...] = (ROLE, CLUSTER_ROLE, ROLE_BINDING, CLUSTER_ROLE_BINDING)

_Binding: TypeAlias = RoleBinding | ClusterRoleBinding


class Decision(Struct, frozen=True):
    """Whether a user may do something, and what gave them the right; or what kept us from finding it."""

    allowed: bool
    reason: str = ""


class Grant(Struct, frozen=True):
    """The rules that a binding gives a user, and the binding in words."""

    rules: tuple[PolicyRule, ...]
    source: str


class Grants(Struct, frozen=True):
    """All that a user was given in a namespace (and in the whole cluster), and the roles that are missing."""

    given: tuple[Grant, ...]
    errors: tuple[str, ...]

    @property
    def rules(self) -> list[PolicyRule]:
        """All rules."""
        return [rule for grant in self.given for rule in grant.rules]


_MASTER = Decision(allowed=True)
_Asked: TypeAlias = tuple[str, frozenset[str], str, str, str, str, str, str]


class Rbac:
    """Knows who may do what."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: tuple[int, ...] = ()
        self._objects: dict[Key, tuple[Entry, Any]] = {}
        # By namespace ("" for the whole cluster) and then by `User:name` or `Group:name`.
        self._bindings: dict[str, dict[str, list[tuple[_Binding, Subject]]]] = {}
        self._grants: dict[tuple[str, frozenset[str], str], Grants] = {}
        self._decisions: dict[_Asked, Decision] = {}

    def require(self, access: Access) -> None:
        """Do nothing if the user may. Raises `ApiError` (403) in the API server's words."""
        decision = self.decide(access)
        if not decision.allowed:
            raise refusal(access, decision.reason)

    def decide(self, access: Access) -> Decision:
        """Whether the user may."""
        user = access.user
        if MASTERS in user.groups:
            return _MASTER
        self._read()
        asked = (
            user.name, user.groups, access.verb, access.group, access.resource, access.namespace, access.name,
            access.path,
        )  # fmt: skip
        found = self._decisions.get(asked)
        if found is None:
            if len(self._decisions) >= REMEMBERED:
                self._decisions.clear()
            found = _decided(access, self._granted(user, access.namespace))
            if _length(user, access.verb, access.group, access.resource, access.name, access.path) <= MAX_NAMES:
                self._decisions[asked] = found
        return found

    def grants(self, user: User, namespace: str) -> Grants:
        """All rights of a user in a namespace; with "" only those that hold in the whole cluster."""
        self._read()
        return self._granted(user, namespace)

    def role_rules(self, ref: RoleRef, namespace: str) -> tuple[PolicyRule, ...] | None:
        """The rules of a role, None if it is not there."""
        self._read()
        return self._rules_of(ref, namespace)

    def _granted(self, user: User, namespace: str) -> Grants:
        asked = (user.name, user.groups, namespace)
        found = self._grants.get(asked)
        if found is None:
            if len(self._grants) >= REMEMBERED:
                self._grants.clear()
            found = self._collect(user, namespace)
            if _length(user, namespace) <= MAX_NAMES:
                self._grants[asked] = found
        return found

    def _collect(self, user: User, namespace: str) -> Grants:
        given, errors = [], []
        keys = [f"User:{user.name}", *(f"Group:{group}" for group in sorted(user.groups))]
        for place in dict.fromkeys(("", namespace)):
            bound = self._bindings.get(place, {})
            for binding, subject in (pair for key in keys for pair in bound.get(key, ())):
                rules = self._rules_of(binding.role_ref, place)
                if rules is None:
                    errors.append(missing(binding.role_ref))
                else:
                    given.append(Grant(rules, _source(binding, subject)))
        return Grants(tuple(given), tuple(dict.fromkeys(errors)))

    def _rules_of(self, ref: RoleRef, namespace: str) -> tuple[PolicyRule, ...] | None:
        kind, place = (ROLE, namespace) if ref.kind == ROLE.kind else (CLUSTER_ROLE, "")
        found = self._objects.get(Key(kind.resource, place, ref.name))
        if found is None:
            return None
        role: Role | ClusterRole = found[1]
        return role.rules

    def _read(self) -> None:
        """Take notice of what has changed."""
        seen = tuple([self._store.changes_of(kind.resource) for kind in _KINDS])
        if seen == self._seen:
            return
        known, self._objects = self._objects, {}
        for kind in _KINDS:
            for entry in self._store.list(kind.resource).entries:
                old = known.get(entry.key)
                same = old is not None and old[0] is entry
                self._objects[entry.key] = old if old and same else (entry, kind.decode(entry.body))
        self._bindings = _by_subject(obj for _, obj in self._objects.values())
        self._grants.clear()
        self._decisions.clear()
        self._seen = seen


def _length(user: User, *texts: str) -> int:
    return sum(map(len, (user.name, *user.groups, *texts)))


def missing(ref: RoleRef) -> str:
    """What is said of a role that is not there."""
    return f'{ref.kind.lower()}.{ROLE.group} "{ref.name}" not found'


def _decided(access: Access, grants: Grants) -> Decision:
    for grant in grants.given:
        if any(allows(rule, access) for rule in grant.rules):
            return Decision(True, f"RBAC: allowed by {grant.source}")
    if len(grants.errors) > 1:
        return Decision(False, f"RBAC: [{', '.join(grants.errors)}]")
    return Decision(False, "".join(f"RBAC: {error}" for error in grants.errors))


def _by_subject(objects: Iterable[Any]) -> dict[str, dict[str, list[tuple[_Binding, Subject]]]]:
    found: dict[str, dict[str, list[tuple[_Binding, Subject]]]] = defaultdict(lambda: defaultdict(list))
    for binding in objects:
        if isinstance(binding, RoleBinding | ClusterRoleBinding):
            place = binding.metadata.namespace
            for subject in binding.subjects:
                for key in _key(subject, place):
                    found[place][key].append((binding, subject))
    return found


def _key(subject: Subject, place: str) -> Iterator[str]:
    """What the subject is found by; nothing if no user can be it."""
    if subject.kind in ("User", "Group"):
        yield f"{subject.kind}:{subject.name}"
    elif subject.kind == "ServiceAccount" and (namespace := subject.namespace or place):
        yield f"User:{account_name(namespace, subject.name)}"


def _source(binding: _Binding, subject: Subject) -> str:
    meta, ref = binding.metadata, binding.role_ref
    name = f"{meta.name}/{meta.namespace}" if meta.namespace else meta.name
    whom = subject.name
    if subject.kind == "ServiceAccount":
        whom = f"{subject.name}/{subject.namespace or meta.namespace}"
    return f'{type(binding).__name__} "{name}" of {ref.kind} "{ref.name}" to {subject.kind} "{whom}"'
