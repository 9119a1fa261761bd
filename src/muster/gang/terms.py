"""Parse the rules in a pod's spec about other pods: affinity, anti-affinity and topology spread."""

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

from msgspec import Struct

from muster.api.core import PodAffinityTerm, PodSpec, TopologySpreadConstraint
from muster.api.meta import LabelSelector, LabelSelectorRequirement
from muster.api.values.selectors import EVERYTHING, NOTHING, LabelMatcher, Operator, Requirement, label_matcher

Labels = Mapping[str, str]
Pairs = tuple[tuple[str, str], ...]


class Term(Struct, frozen=True):
    """A selector of pods, and the node label whose equal values make nodes one topology domain.

    namespaces: the namespaces of the selected pods, in addition to namespaces whose labels match `elsewhere`.
    """

    topology_key: str
    matcher: LabelMatcher
    namespaces: tuple[str, ...]
    elsewhere: LabelMatcher = NOTHING

    def matches(self, namespace: str, labels: Labels, namespace_labels: Labels) -> bool:
        """Return whether the term selects a pod with these labels in this namespace."""
        inside = namespace in self.namespaces or self.elsewhere.matches(namespace_labels)
        return inside and self.matcher.matches(labels)


class Spread(Struct, frozen=True):
    """A topology spread constraint: how evenly pods of one namespace are spread over the domains of a node label.

    required: whether the constraint excludes nodes that would violate it, rather than only lowering their score.
    """

    topology_key: str
    matcher: LabelMatcher
    max_skew: int
    least_places: int = 1
    honours_affinity: bool = True
    honours_taints: bool = False
    required: bool = True

    def counts(self, namespace: str, other: str, labels: Labels) -> bool:
        """Return whether a pod with these labels in namespace `other` counts for a pod in `namespace`.

        An empty selector counts no pods.
        """
        return namespace == other and self.matcher != EVERYTHING and self.matcher.matches(labels)


class Wish(Struct, frozen=True):
    """A preference for nodes near certain pods, or away from them if the weight is negative."""

    weight: int
    term: Term


class PodTerms(Struct, frozen=True):
    """All affinity, anti-affinity and spread terms of a pod."""

    affinity: tuple[Term, ...] = ()
    anti_affinity: tuple[Term, ...] = ()
    spread: tuple[Spread, ...] = ()
    wishes: tuple[Wish, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.affinity or self.anti_affinity or self.spread or self.wishes)

    @property
    def matchers(self) -> list[LabelMatcher]:
        """The matchers that select pods by label."""
        terms = (*self.affinity, *self.anti_affinity, *(wish.term for wish in self.wishes))
        return [*(term.matcher for term in terms), *(spread.matcher for spread in self.spread)]


NO_TERMS = PodTerms()


def terms_of(spec: PodSpec, namespace: str, labels: Labels) -> PodTerms:
    """Return the terms of a pod's spec. Raises `SelectorError`, because pod templates are not validated like pods."""
    affinity = spec.affinity
    with_ = affinity.pod_affinity if affinity is not None else None
    apart = affinity.pod_anti_affinity if affinity is not None else None
    if with_ is None and apart is None and not spec.topology_spread_constraints:
        return NO_TERMS

    def read(terms: Iterable[PodAffinityTerm]) -> tuple[Term, ...]:
        return tuple(_read_term(one, namespace, labels) for one in terms)

    wishes = [
        Wish(sign * one.weight, _read_term(one.pod_affinity_term, namespace, labels))
        for sign, group in ((1, with_), (-1, apart))
        if group is not None
        for one in group.preferred_during_scheduling_ignored_during_execution
    ]
    return PodTerms(
        affinity=read(with_.required_during_scheduling_ignored_during_execution) if with_ is not None else (),
        anti_affinity=read(apart.required_during_scheduling_ignored_during_execution) if apart is not None else (),
        spread=tuple(_read_spread(one, labels) for one in spec.topology_spread_constraints),
        wishes=tuple(wishes),
    )


def watched_labels(terms: Iterable[PodTerms]) -> frozenset[str] | None:
    """Return the label keys by which the terms select pods; None if there are no terms."""
    matchers = [matcher for one in terms for matcher in one.matchers]
    return keys_of(matchers) if matchers else None


def keys_of(matchers: Iterable[LabelMatcher]) -> frozenset[str]:
    """Return the label keys by which the matchers select pods."""
    return frozenset(requirement.key for matcher in matchers for requirement in matcher.requirements)


def _read_term(term: PodAffinityTerm, namespace: str, labels: Labels) -> Term:
    inside = term.namespaces or (() if term.namespace_selector is not None else (namespace,))
    matcher = _make_matcher(term.label_selector)
    if matcher is not NOTHING:
        extra = [*_require_same(term.match_label_keys, labels, Operator.IN)]
        extra += _require_same(term.mismatch_label_keys, labels, Operator.NOT_IN)
        matcher = _add_requirements(matcher, extra)
    elsewhere = _make_matcher(term.namespace_selector)
    return Term(term.topology_key, matcher, tuple(sorted(inside)), elsewhere)


def _read_spread(spread: TopologySpreadConstraint, labels: Labels) -> Spread:
    matcher = _make_matcher(spread.label_selector)
    if matcher is not NOTHING:
        matcher = _add_requirements(matcher, _require_same(spread.match_label_keys, labels, Operator.IN))
    return Spread(
        spread.topology_key,
        matcher,
        spread.max_skew,
        least_places=1 if spread.min_domains is None else spread.min_domains,
        honours_affinity=spread.node_affinity_policy != "Ignore",
        honours_taints=spread.node_taints_policy == "Honor",
        required=spread.when_unsatisfiable == "DoNotSchedule",
    )


def _require_same(keys: Collection[str], labels: Labels, operator: Operator) -> list[Requirement]:
    """Return requirements that compare other pods' values of these labels with the pod's own values.

    Labels that the pod lacks are skipped.
    """
    return [Requirement(key, operator, frozenset((labels[key],))) for key in keys if key in labels]


def _add_requirements(matcher: LabelMatcher, extra: Iterable[Requirement]) -> LabelMatcher:
    known = set(matcher.requirements)  # the API server merges matchLabelKeys into the selector
    new = [one for one in extra if one not in known]
    return LabelMatcher((*matcher.requirements, *new)) if new else matcher


def _make_matcher(selector: LabelSelector | None) -> LabelMatcher:
    if selector is None:
        return NOTHING
    expressions = tuple((one.key, one.operator, one.values) for one in selector.match_expressions)
    return _parse_selector(tuple(sorted(selector.match_labels.items())), expressions)


@lru_cache(maxsize=4096)
def _parse_selector(labels: Pairs, expressions: tuple[tuple[str, str, tuple[str, ...]], ...]) -> LabelMatcher:
    """Return the matcher of a label selector; cached, because the pods of a gang have the same selectors."""
    requirements = tuple(
        LabelSelectorRequirement(key=key, operator=operator, values=values) for key, operator, values in expressions
    )
    return label_matcher(LabelSelector(match_labels=dict(labels), match_expressions=requirements))
