"""What a pod's spec says of other pods: which to be with, which to be apart from, and how evenly to be spread."""

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

from msgspec import Struct

from muster.api.core import PodAffinityTerm, PodSpec, TopologySpreadConstraint
from muster.api.meta import LabelSelector, LabelSelectorRequirement
from muster.api.values.selectors import EVERYTHING, NOTHING, LabelMatcher, Operator, Requirement, label_matcher

Labels = Mapping[str, str]
Pairs = tuple[tuple[str, str], ...]


class Term(Struct, frozen=True):
    """Pods, and the node label that says which nodes are one place.

    namespaces: where the pods are, besides those whose labels `elsewhere` matches.
    """

    topology_key: str
    matcher: LabelMatcher
    namespaces: tuple[str, ...]
    elsewhere: LabelMatcher = NOTHING

    def matches(self, namespace: str, labels: Labels, namespace_labels: Labels) -> bool:
        """Whether a pod is meant."""
        inside = namespace in self.namespaces or self.elsewhere.matches(namespace_labels)
        return inside and self.matcher.matches(labels)


class Spread(Struct, frozen=True):
    """How evenly pods of the same namespace are spread over the places that a node label names.

    required: whether a node that makes it too uneven is closed, or only less welcome.
    """

    topology_key: str
    matcher: LabelMatcher
    max_skew: int
    least_places: int = 1
    honours_affinity: bool = True
    honours_taints: bool = False
    required: bool = True

    def counts(self, namespace: str, other: str, labels: Labels) -> bool:
        """Whether a pod in the namespace `other` is counted for one in `namespace`; an empty selector counts none."""
        return namespace == other and self.matcher != EVERYTHING and self.matcher.matches(labels)


class Wish(Struct, frozen=True):
    """Pods that are welcome nearby, or unwelcome if the weight is negative."""

    weight: int
    term: Term


class Terms(Struct, frozen=True):
    """All that a pod says of others."""

    affinity: tuple[Term, ...] = ()
    anti_affinity: tuple[Term, ...] = ()
    spread: tuple[Spread, ...] = ()
    wishes: tuple[Wish, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.affinity or self.anti_affinity or self.spread or self.wishes)

    @property
    def matchers(self) -> list[LabelMatcher]:
        """What looks at the labels of pods."""
        terms = (*self.affinity, *self.anti_affinity, *(wish.term for wish in self.wishes))
        return [*(term.matcher for term in terms), *(spread.matcher for spread in self.spread)]


NO_TERMS = Terms()


def terms_of(spec: PodSpec, namespace: str, labels: Labels) -> Terms:
    """What a pod says of others. Raises `SelectorError`: what templates say is not validated as pods are."""
    affinity = spec.affinity
    with_ = affinity.pod_affinity if affinity is not None else None
    apart = affinity.pod_anti_affinity if affinity is not None else None
    if with_ is None and apart is None and not spec.topology_spread_constraints:
        return NO_TERMS

    def read(terms: Iterable[PodAffinityTerm]) -> tuple[Term, ...]:
        return tuple(_term(one, namespace, labels) for one in terms)

    wishes = [
        Wish(sign * one.weight, _term(one.pod_affinity_term, namespace, labels))
        for sign, group in ((1, with_), (-1, apart))
        if group is not None
        for one in group.preferred_during_scheduling_ignored_during_execution
    ]
    return Terms(
        affinity=read(with_.required_during_scheduling_ignored_during_execution) if with_ is not None else (),
        anti_affinity=read(apart.required_during_scheduling_ignored_during_execution) if apart is not None else (),
        spread=tuple(_spread(one, labels) for one in spec.topology_spread_constraints),
        wishes=tuple(wishes),
    )


def watched_labels(terms: Iterable[Terms]) -> frozenset[str] | None:
    """The labels that the terms look at; None if there are no terms at all."""
    matchers = [matcher for one in terms for matcher in one.matchers]
    return keys_of(matchers) if matchers else None


def keys_of(matchers: Iterable[LabelMatcher]) -> frozenset[str]:
    """The labels that they look at."""
    return frozenset(requirement.key for matcher in matchers for requirement in matcher.requirements)


def _term(written: PodAffinityTerm, namespace: str, labels: Labels) -> Term:
    inside = written.namespaces or (() if written.namespace_selector is not None else (namespace,))
    matcher = _matcher(written.label_selector)
    if matcher is not NOTHING:
        extra = [*_same(written.match_label_keys, labels, Operator.IN)]
        extra += _same(written.mismatch_label_keys, labels, Operator.NOT_IN)
        matcher = _with(matcher, extra)
    elsewhere = _matcher(written.namespace_selector)
    return Term(written.topology_key, matcher, tuple(sorted(inside)), elsewhere)


def _spread(written: TopologySpreadConstraint, labels: Labels) -> Spread:
    matcher = _matcher(written.label_selector)
    if matcher is not NOTHING:
        matcher = _with(matcher, _same(written.match_label_keys, labels, Operator.IN))
    return Spread(
        written.topology_key,
        matcher,
        written.max_skew,
        least_places=1 if written.min_domains is None else written.min_domains,
        honours_affinity=written.node_affinity_policy != "Ignore",
        honours_taints=written.node_taints_policy == "Honor",
        required=written.when_unsatisfiable == "DoNotSchedule",
    )


def _same(keys: Collection[str], labels: Labels, operator: Operator) -> list[Requirement]:
    """That other pods share, or do not share, the pod's own values; what it has no value of says nothing."""
    return [Requirement(key, operator, frozenset((labels[key],))) for key in keys if key in labels]


def _with(matcher: LabelMatcher, extra: Iterable[Requirement]) -> LabelMatcher:
    known = set(matcher.requirements)  # the API server has written the same into the selector
    new = [one for one in extra if one not in known]
    return LabelMatcher((*matcher.requirements, *new)) if new else matcher


def _matcher(selector: LabelSelector | None) -> LabelMatcher:
    if selector is None:
        return NOTHING
    expressions = tuple((one.key, one.operator, one.values) for one in selector.match_expressions)
    return _parsed(tuple(sorted(selector.match_labels.items())), expressions)


@lru_cache(maxsize=4096)
def _parsed(labels: Pairs, expressions: tuple[tuple[str, str, tuple[str, ...]], ...]) -> LabelMatcher:
    """As pods of a gang say the same, it is parsed once."""
    requirements = tuple(
        LabelSelectorRequirement(key=key, operator=operator, values=values) for key, operator, values in expressions
    )
    return label_matcher(LabelSelector(match_labels=dict(labels), match_expressions=requirements))
