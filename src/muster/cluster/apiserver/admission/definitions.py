"""What there is to say of definitions of kinds that the server has by itself."""

from muster.api.server.apiextensions import CUSTOM_RESOURCE_DEFINITION
from muster.cluster.apiserver.admission.chain import Attempt, Remark
from muster.cluster.apiserver.registry.resources import Registry


def definition_of_our_own(registry: Registry) -> Remark:
    """Tells who makes a definition of Kueue's kinds, of JobSets or of PodGroups that those are here without it."""

    def remark(attempt: Attempt) -> str:
        if attempt.resource.key != CUSTOM_RESOURCE_DEFINITION.resource or attempt.operation != "CREATE":
            return ""
        spec = attempt.document["spec"]
        if not registry.is_builtin(spec["group"], spec["names"]["plural"]):
            return ""
        return f"this cluster serves {attempt.name} by itself: the definition is kept, and changes nothing"

    return remark
