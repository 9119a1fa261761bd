"""`flowcontrol.apiserver.k8s.io/v1`: how requests share the server. Kept; this server has rules of its own."""

from typing import Annotated

from muster.api.kinds import Kind
from muster.api.markers import ATOMIC, SET, Int32, Required, merged_by, one_of
from muster.api.meta import ObjectMeta, PlainCondition, Struct

Words = Annotated[tuple[str, ...], SET]


class UserSubject(Struct):
    """A user.

    name: name of the user; * for all.
    """

    name: Required[str] = ""


class GroupSubject(Struct):
    """A group of users.

    name: name of the group; * for all.
    """

    name: Required[str] = ""


class ServiceAccountSubject(Struct):
    """A service account.

    namespace: its namespace.
    name: its name; * for all of the namespace.
    """

    namespace: Required[str] = ""
    name: Required[str] = ""


class Subject(Struct):
    """Who asks; the one that kind names.

    kind: User, Group or ServiceAccount.
    user: a user.
    group: a group of users.
    service_account: a service account.
    """

    kind: Required[str] = ""
    user: UserSubject | None = None
    group: GroupSubject | None = None
    service_account: ServiceAccountSubject | None = None


class ResourcePolicyRule(Struct):
    """Requests on resources.

    verbs: what is done; * for anything.
    api_groups: groups; * for all.
    resources: resources; * for all.
    cluster_scope: whether requests outside of namespaces are meant.
    namespaces: in which namespaces; * for all.
    """

    verbs: Required[Words] = ()
    api_groups: Required[Words] = ()
    resources: Required[Words] = ()
    cluster_scope: bool = False
    namespaces: Words = ()


class NonResourcePolicyRule(Struct):
    """Requests on other paths.

    verbs: what is done; * for anything.
    non_resource_urls: paths; * at the end for all that begin so.
    """

    verbs: Required[Words] = ()
    non_resource_urls: Required[Words] = ()


class PolicyRulesWithSubjects(Struct):
    """Whose requests on what.

    subjects: who asks.
    resource_rules: requests on resources.
    non_resource_rules: requests on other paths.
    """

    subjects: Required[Annotated[tuple[Subject, ...], ATOMIC]] = ()
    resource_rules: Annotated[tuple[ResourcePolicyRule, ...], ATOMIC] = ()
    non_resource_rules: Annotated[tuple[NonResourcePolicyRule, ...], ATOMIC] = ()


class FlowDistinguisherMethod(Struct):
    """What tells flows apart.

    type: ByUser or ByNamespace.
    """

    type: Required[str] = ""


class PriorityLevelConfigurationReference(Struct):
    """Names a priority level.

    name: its name.
    """

    name: Required[str] = ""


class FlowSchemaSpec(Struct):
    """Which requests get which priority level.

    priority_level_configuration: the priority level.
    matching_precedence: of several that match, the one with the least number decides.
    distinguisher_method: what tells flows apart.
    rules: which requests.
    """

    priority_level_configuration: Required[PriorityLevelConfigurationReference] = PriorityLevelConfigurationReference()
    matching_precedence: Int32 = 0
    distinguisher_method: FlowDistinguisherMethod | None = None
    rules: Annotated[tuple[PolicyRulesWithSubjects, ...], ATOMIC] = ()


class FlowSchemaCondition(PlainCondition):
    """One observed aspect of a FlowSchema.

    type: Dangling.
    """

    type: str = ""
    status: str = ""


class FlowSchemaStatus(Struct):
    """What was observed of a FlowSchema.

    conditions: observed aspects.
    """

    conditions: Annotated[tuple[FlowSchemaCondition, ...], merged_by("type")] = ()


class FlowSchema(Struct):
    """Says which requests get which priority level.

    metadata: what every object carries.
    spec: which requests, which level.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: FlowSchemaSpec = FlowSchemaSpec()
    status: FlowSchemaStatus = FlowSchemaStatus()


class QueuingConfiguration(Struct):
    """How requests wait.

    queues: number of queues.
    hand_size: how many of them a flow may use.
    queue_length_limit: how many requests wait in one.
    """

    queues: Int32 = 0
    hand_size: Int32 = 0
    queue_length_limit: Int32 = 0


class LimitResponse(Struct):
    """What becomes of requests beyond the limit.

    type: Queue or Reject.
    queuing: how they wait.
    """

    type: Annotated[Required[str], one_of("Queue", "Reject")] = ""
    queuing: QueuingConfiguration | None = None


class LimitedPriorityLevelConfiguration(Struct):
    """A level that has a limit.

    nominal_concurrency_shares: its share of what the server does at once.
    limit_response: what becomes of requests beyond the limit.
    lendable_percent: how much of its share others may use.
    borrowing_limit_percent: how much it may use of others'.
    """

    nominal_concurrency_shares: Int32 | None = None
    limit_response: LimitResponse = LimitResponse()
    lendable_percent: Int32 | None = None
    borrowing_limit_percent: Int32 | None = None


class ExemptPriorityLevelConfiguration(Struct):
    """A level that has no limit.

    nominal_concurrency_shares: its share of what the server does at once.
    lendable_percent: how much of its share others may use.
    """

    nominal_concurrency_shares: Int32 | None = None
    lendable_percent: Int32 | None = None


class PriorityLevelConfigurationSpec(Struct):
    """How much of the server a level gets.

    type: Limited or Exempt.
    limited: with a limit.
    exempt: without a limit.
    """

    type: Annotated[Required[str], one_of("Exempt", "Limited")] = ""
    limited: LimitedPriorityLevelConfiguration | None = None
    exempt: ExemptPriorityLevelConfiguration | None = None


class PriorityLevelConfigurationCondition(PlainCondition):
    """One observed aspect of a priority level.

    type: what it is about.
    """

    type: str = ""
    status: str = ""


class PriorityLevelConfigurationStatus(Struct):
    """What was observed of a priority level.

    conditions: observed aspects.
    """

    conditions: Annotated[tuple[PriorityLevelConfigurationCondition, ...], merged_by("type")] = ()


class PriorityLevelConfiguration(Struct):
    """Says how much of the server some requests get.

    metadata: what every object carries.
    spec: how much.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: PriorityLevelConfigurationSpec = PriorityLevelConfigurationSpec()
    status: PriorityLevelConfigurationStatus = PriorityLevelConfigurationStatus()


_GROUP = "flowcontrol.apiserver.k8s.io"
FLOW_SCHEMA = Kind(_GROUP, "v1", "FlowSchema", "flowschemas", FlowSchema, namespaced=False)
PRIORITY_LEVEL_CONFIGURATION = Kind(
    _GROUP,
    "v1",
    "PriorityLevelConfiguration",
    "prioritylevelconfigurations",
    PriorityLevelConfiguration,
    namespaced=False,
)
