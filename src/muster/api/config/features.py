"""Feature gates: their names and defaults as of Kueue 0.20, and what a map of settings makes of them.

A file written for Kueue works unchanged: gates that Muster does not implement are accepted.
`FeatureGates.without_effect` names the settings of such gates that have no effect.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct, field

_BETA_ON: Final = frozenset({
    "AdmissionFairSharing", "AdmissionGatedBy", "AssignQueueLabelsForPods", "CleanupProvisioningRequestsOnEviction",
    "DeferRayServiceFinalizationForRedisCleanup", "ElasticJobsViaWorkloadSlices", "FairSharingPreemptWithinNominal",
    "FairSharingPrioritizeNonBorrowing", "FinishOrphanedWorkloads", "FlavorFungibility",
    "FlavorFungibilityPreserveScanProgress", "KueueDRAIntegration", "KueueDRAIntegrationExtendedResource",
    "KueueDRAIntegrationPartitionableDevices", "KueueDRARejectWorkloadsWhenDRADisabled", "LWSImmutableGroupSize",
    "LocalQueueMetrics", "MetricForWorkloadCreationLatency", "MetricsForCohorts", "MultiKueue",
    "MultiKueueAdaptersForCustomJobs", "MultiKueueIncrementalDispatcherConfig",
    "MultiKueueIncrementalDispatcherRespectConfigOrder", "MultiKueueKubeConfigPathValidation",
    "MultiKueueRemoteSpecSync", "PartialAdmission", "PodIntegrationValidateGroupOwner",
    "PrioritySortingWithinCohort", "QuotaCheckStrategy", "ReclaimablePods",
    "RecomputeAssignmentUponPreemptionTargetsOverlap", "RemoveFinalizersWithStrictPatch",
    "SchedulingEquivalenceHashing", "SkipAncestorCheckForDeletedWorkloads", "SkipReassignmentForPodOwnedWorkloads",
    "TASAssignmentsEncodingByHostnamePrefix", "TASCacheNodeMatchResults", "TASCacheTopologyTree",
    "TASCachingRemainingResources", "TASFailedNodeReplacement", "TASFailedNodeReplacementFailFast",
    "TASHandleOverlappingFlavors", "TASMultiLayerTopology", "TASProfileMixed",
    "TASRecomputeAssignmentWithinSchedulingCycle", "TASReplaceNodeOnNodeTaints", "TASReplaceNodeOnPodTermination",
    "TASValidateWorkloadSliceSize", "TopologyAwareScheduling", "UnadmittedWorkloadsObservability",
    "ValidateRayAndSparkJobUpdates", "VectorizedResourceRequests", "VisibilityOnDemand",
    "WorkloadIdentifierAnnotations", "WorkloadPriorityClassDefaulting", "WorkloadValidateResourcesAreNonNegative",
    "WorkloadValidationForPodSetMetadata",
})  # fmt: skip
_BETA_OFF: Final = frozenset({"UnadmittedWorkloadsExplicitStatus"})
_ALPHA: Final = frozenset({
    "ConcurrentAdmission", "CustomMetricLabels", "DisableWaitForPodsReady", "ElasticJobsViaWorkloadSlicesWithTAS",
    "FailureRecoveryPolicy", "FastQuotaReleaseInPodIntegration", "KueueDRAIntegrationConsumableCapacity",
    "MultiKueueClusterProfile", "MultiKueueManagerQuotaAutomation", "MultiKueueOrchestratedPreemption",
    "PriorityBoost", "RejectUpdatesToCQWithInvalidOnFlavors",
    "SchedulerLibraryIntegration", "ShortWorkloadNames", "SparkApplicationIntegration", "TASBalancedPlacement",
    "TASRespectNodeAffinityPreferred", "WorkloadRequestUseMergePatch",
})  # fmt: skip
_DEPRECATED: Final = frozenset({"TASReplaceNodeDueToNotReadyOverFixedTime"})
# The last one is off by default in Kueue. Muster always keeps the quota that victims release for their preemptor.
_LOCKED_ON: Final = frozenset({
    "ManagedJobsNamespaceSelectorAlwaysRespected", "TLSOptions", "PrioritizePreemptorWorkloads",
})  # fmt: skip

# Gates without effect: Muster always has these features.
ALWAYS_ON: Final = frozenset({
    "AdmissionGatedBy", "ElasticJobsViaWorkloadSlices", "FinishOrphanedWorkloads", "FlavorFungibility",
    "FlavorFungibilityPreserveScanProgress", "MultiKueueAdaptersForCustomJobs",
    "MultiKueueIncrementalDispatcherConfig", "MultiKueueIncrementalDispatcherRespectConfigOrder",
    "PodIntegrationValidateGroupOwner", "PrioritySortingWithinCohort", "QuotaCheckStrategy",
    "RecomputeAssignmentUponPreemptionTargetsOverlap", "RejectUpdatesToCQWithInvalidOnFlavors",
    "RemoveFinalizersWithStrictPatch", "SchedulingEquivalenceHashing", "SkipAncestorCheckForDeletedWorkloads",
    "SkipReassignmentForPodOwnedWorkloads", "TASAssignmentsEncodingByHostnamePrefix", "TASCacheNodeMatchResults",
    "TASCacheTopologyTree", "TASCachingRemainingResources",
    "TASHandleOverlappingFlavors", "TASMultiLayerTopology", "TASProfileMixed",
    "TASRecomputeAssignmentWithinSchedulingCycle", "TASValidateWorkloadSliceSize",
    "UnadmittedWorkloadsObservability", "VectorizedResourceRequests", "WorkloadIdentifierAnnotations",
    "WorkloadRequestUseMergePatch", "WorkloadValidateResourcesAreNonNegative",
    "WorkloadValidationForPodSetMetadata",
})  # fmt: skip
# Gates without effect: Muster never has these features.
ALWAYS_OFF: Final = frozenset({
    "DeferRayServiceFinalizationForRedisCleanup",
    "ElasticJobsViaWorkloadSlicesWithTAS", "FailureRecoveryPolicy", "FastQuotaReleaseInPodIntegration",
    "LWSImmutableGroupSize", "MultiKueueOrchestratedPreemption", "MultiKueueRemoteSpecSync",
    "SchedulerLibraryIntegration", "ShortWorkloadNames", "SparkApplicationIntegration", "TASBalancedPlacement",
    "TASReplaceNodeDueToNotReadyOverFixedTime", "TASRespectNodeAffinityPreferred",
    "UnadmittedWorkloadsExplicitStatus", "ValidateRayAndSparkJobUpdates",
})  # fmt: skip
# Missing features whose absence a user would not notice, so a file that enables one of these gates is refused.
_REFUSED: Final = frozenset({"MultiKueueOrchestratedPreemption"})

# These two set all gates of a stage that the file does not set.
_STAGES: Final = {"AllAlpha": _ALPHA, "AllBeta": _BETA_ON | _BETA_OFF}
_DEFAULTS: Final = dict.fromkeys(_BETA_ON | _LOCKED_ON, True) | dict.fromkeys(_BETA_OFF | _ALPHA | _DEPRECATED, False)

_TAS: Final = "TopologyAwareScheduling"
_TAS_REPLACEMENT: Final = (_TAS, "TASFailedNodeReplacement")
_NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "TASFailedNodeReplacement": (_TAS,),
    "TASFailedNodeReplacementFailFast": _TAS_REPLACEMENT,
    "TASReplaceNodeOnPodTermination": _TAS_REPLACEMENT,
    "TASReplaceNodeDueToNotReadyOverFixedTime": _TAS_REPLACEMENT,
    "TASBalancedPlacement": (_TAS,),
    "TASReplaceNodeOnNodeTaints": (_TAS,),
    "TASMultiLayerTopology": (_TAS,),
    "TASRespectNodeAffinityPreferred": (_TAS,),
    "TASHandleOverlappingFlavors": (_TAS,),
    "TASProfileMixed": (_TAS,),
    "TASRecomputeAssignmentWithinSchedulingCycle": (_TAS,),
    "ElasticJobsViaWorkloadSlicesWithTAS": ("ElasticJobsViaWorkloadSlices", _TAS),
    "UnadmittedWorkloadsExplicitStatus": ("UnadmittedWorkloadsObservability",),
    "KueueDRAIntegrationExtendedResource": ("KueueDRAIntegration",),
    "KueueDRAIntegrationPartitionableDevices": ("KueueDRAIntegration",),
    "KueueDRAIntegrationConsumableCapacity": ("KueueDRAIntegration",),
    "FlavorFungibilityPreserveScanProgress": ("FlavorFungibility",),
}


class FeatureGates(Struct, frozen=True):
    """The feature gates under given settings. Settings of unknown gates are ignored; `problems` names them."""

    settings: Mapping[str, bool] = field(default_factory=dict)

    def is_enabled(self, gate: str) -> bool:
        """Return whether a gate is on: by its own setting, else by its stage's setting, else by default.

        The gate must exist.
        """
        default = _DEFAULTS[gate]
        if gate in self.settings:
            return self.settings[gate]
        for stage, gates in _STAGES.items():
            if gate in gates and stage in self.settings:
                return self.settings[stage]
        return default

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield the gates with invalid settings, each with upstream's message."""
        for gate, on in sorted(self.settings.items()):
            if gate not in _DEFAULTS and gate not in _STAGES:
                yield gate, f"unrecognized feature gate: {gate}"
            elif gate in _LOCKED_ON and not on:
                yield gate, f"cannot set feature gate {gate} to false, feature is locked to true"
            elif gate in _REFUSED and on:
                yield gate, f"cannot set feature gate {gate} to true, this engine does not have the feature"
        for gate, needs in sorted(_NEEDS.items()):
            missing = [need for need in needs if not self.is_enabled(need)]
            if missing and self.is_enabled(gate):
                yield gate, f"{gate} is enabled, but depends on features that are disabled: [{' '.join(missing)}]"

    def without_effect(self) -> Iterator[tuple[str, bool]]:
        """Yield the gates whose setting has no effect in Muster, each with its setting.

        A gate that is off because it needs another gate that is off is not among them.
        """
        stages = [gates for stage, gates in _STAGES.items() if stage in self.settings]
        for gate in sorted(ALWAYS_ON | ALWAYS_OFF):
            is_set = gate in self.settings or any(gate in gates for gates in stages)
            is_moot = not all(map(self.is_enabled, _NEEDS.get(gate, ())))
            if is_set and not is_moot and self.is_enabled(gate) != (gate in ALWAYS_ON):
                yield gate, self.is_enabled(gate)
