"""Feature gates: their names and defaults as of Kueue 0.20, and what a map of settings makes of them.

A gate that no part of ours asks about is accepted all the same, so that a file written for Kueue can be used as it is.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

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
    "PrioritizePreemptorWorkloads", "PriorityBoost", "RejectUpdatesToCQWithInvalidOnFlavors",
    "SchedulerLibraryIntegration", "ShortWorkloadNames", "SparkApplicationIntegration", "TASBalancedPlacement",
    "TASRespectNodeAffinityPreferred", "WorkloadRequestUseMergePatch",
})  # fmt: skip
_DEPRECATED: Final = frozenset({"TASReplaceNodeDueToNotReadyOverFixedTime"})
_LOCKED_ON: Final = frozenset({"ManagedJobsNamespaceSelectorAlwaysRespected", "TLSOptions"})

# These two set all gates of a stage that are not set themselves.
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


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """The gates under some settings; settings of gates that do not exist mean nothing (`problems` names them)."""

    settings: Mapping[str, bool] = field(default_factory=dict)

    def enabled(self, gate: str) -> bool:
        """Whether a feature is on; the gate must be one that exists."""
        default = _DEFAULTS[gate]
        if gate in self.settings:
            return self.settings[gate]
        for stage, gates in _STAGES.items():
            if gate in gates and stage in self.settings:
                return self.settings[stage]
        return default

    def problems(self) -> Iterator[tuple[str, str]]:
        """The gates that are set wrongly, each with upstream's sentence."""
        for gate, on in sorted(self.settings.items()):
            if gate not in _DEFAULTS and gate not in _STAGES:
                yield gate, f"unrecognized feature gate: {gate}"
            elif gate in _LOCKED_ON and not on:
                yield gate, f"cannot set feature gate {gate} to false, feature is locked to true"
        for gate, needs in sorted(_NEEDS.items()):
            missing = [need for need in needs if not self.enabled(need)]
            if missing and self.enabled(gate):
                yield gate, f"{gate} is enabled, but depends on features that are disabled: [{' '.join(missing)}]"
