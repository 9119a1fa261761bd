"""Protobuf's numbers of the fields of kinds outside of the core group; see `numbers`."""

OTHERS = {
    "io.k8s.api.admissionregistration.v1.AuditAnnotation": "key valueExpression",
    "io.k8s.api.admissionregistration.v1.ExpressionWarning": "2:fieldRef warning",
    "io.k8s.api.admissionregistration.v1.MatchCondition": "name expression",
    "io.k8s.api.admissionregistration.v1.MatchResources": (
        "namespaceSelector objectSelector resourceRules excludeResourceRules 7:matchPolicy"
    ),
    "io.k8s.api.admissionregistration.v1.MutatingWebhook": (
        "name clientConfig rules failurePolicy namespaceSelector sideEffects timeoutSeconds "
        "admissionReviewVersions matchPolicy reinvocationPolicy objectSelector matchConditions"
    ),
    "io.k8s.api.admissionregistration.v1.MutatingWebhookConfiguration": "metadata webhooks",
    "io.k8s.api.admissionregistration.v1.NamedRuleWithOperations": "resourceNames *RuleWithOperations",
    "io.k8s.api.admissionregistration.v1.ParamKind": "apiVersion kind",
    "io.k8s.api.admissionregistration.v1.ParamRef": "name namespace selector parameterNotFoundAction",
    "io.k8s.api.admissionregistration.v1.Rule": "apiGroups apiVersions resources scope",
    "io.k8s.api.admissionregistration.v1.RuleWithOperations": "operations *Rule",
    "io.k8s.api.admissionregistration.v1.ServiceReference": "namespace name path port",
    "io.k8s.api.admissionregistration.v1.TypeChecking": "expressionWarnings",
    "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicy": "metadata spec status",
    "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBinding": "metadata spec",
    "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec": (
        "policyName paramRef matchResources validationActions"
    ),
    "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicySpec": (
        "paramKind matchConstraints validations failurePolicy auditAnnotations matchConditions variables"
    ),
    "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyStatus": "observedGeneration typeChecking conditions",
    "io.k8s.api.admissionregistration.v1.ValidatingWebhook": (
        "name clientConfig rules failurePolicy namespaceSelector sideEffects timeoutSeconds "
        "admissionReviewVersions matchPolicy objectSelector matchConditions"
    ),
    "io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration": "metadata webhooks",
    "io.k8s.api.admissionregistration.v1.Validation": "expression message reason messageExpression",
    "io.k8s.api.admissionregistration.v1.Variable": "name expression",
    "io.k8s.api.admissionregistration.v1.WebhookClientConfig": "service caBundle url",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceColumnDefinition": (
        "name type format description priority jsonPath"
    ),
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceConversion": "strategy webhook",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition": "metadata spec status",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionCondition": (
        "type status lastTransitionTime reason message"
    ),
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionNames": (
        "plural singular shortNames kind listKind categories"
    ),
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionSpec": (
        "group 3:names scope 7:versions 9:conversion preserveUnknownFields"
    ),
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionStatus": (
        "conditions acceptedNames storedVersions"
    ),
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionVersion": (
        "name served storage schema subresources additionalPrinterColumns deprecated deprecationWarning "
        "selectableFields"
    ),
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceSubresourceScale": (
        "specReplicasPath statusReplicasPath labelSelectorPath"
    ),
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceSubresources": "status scale",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceValidation": "openAPIV3Schema",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.SelectableField": "jsonPath",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.WebhookConversion": (
        "2:clientConfig conversionReviewVersions"
    ),
    "io.k8s.api.apps.v1.ControllerRevision": "metadata data revision",
    "io.k8s.api.apps.v1.DaemonSet": "metadata spec status",
    "io.k8s.api.apps.v1.DaemonSetCondition": "type status lastTransitionTime reason message",
    "io.k8s.api.apps.v1.DaemonSetSpec": "selector template updateStrategy minReadySeconds 6:revisionHistoryLimit",
    "io.k8s.api.apps.v1.DaemonSetStatus": (
        "currentNumberScheduled numberMisscheduled desiredNumberScheduled numberReady observedGeneration "
        "updatedNumberScheduled numberAvailable numberUnavailable collisionCount conditions"
    ),
    "io.k8s.api.apps.v1.DaemonSetUpdateStrategy": "type rollingUpdate",
    "io.k8s.api.apps.v1.Deployment": "metadata spec status",
    "io.k8s.api.apps.v1.DeploymentCondition": "type status 4:reason message lastUpdateTime lastTransitionTime",
    "io.k8s.api.apps.v1.DeploymentSpec": (
        "replicas selector template strategy minReadySeconds revisionHistoryLimit paused 9:progressDeadlineSeconds"
    ),
    "io.k8s.api.apps.v1.DeploymentStatus": (
        "observedGeneration replicas updatedReplicas availableReplicas unavailableReplicas conditions "
        "readyReplicas collisionCount terminatingReplicas"
    ),
    "io.k8s.api.apps.v1.DeploymentStrategy": "type rollingUpdate",
    "io.k8s.api.apps.v1.ReplicaSet": "metadata spec status",
    "io.k8s.api.apps.v1.ReplicaSetCondition": "type status lastTransitionTime reason message",
    "io.k8s.api.apps.v1.ReplicaSetSpec": "replicas selector template minReadySeconds",
    "io.k8s.api.apps.v1.ReplicaSetStatus": (
        "replicas fullyLabeledReplicas observedGeneration readyReplicas availableReplicas conditions "
        "terminatingReplicas"
    ),
    "io.k8s.api.apps.v1.RollingUpdateDaemonSet": "maxUnavailable maxSurge",
    "io.k8s.api.apps.v1.RollingUpdateDeployment": "maxUnavailable maxSurge",
    "io.k8s.api.apps.v1.RollingUpdateStatefulSetStrategy": "partition maxUnavailable",
    "io.k8s.api.apps.v1.StatefulSet": "metadata spec status",
    "io.k8s.api.apps.v1.StatefulSetCondition": "type status lastTransitionTime reason message",
    "io.k8s.api.apps.v1.StatefulSetOrdinals": "start",
    "io.k8s.api.apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy": "whenDeleted whenScaled",
    "io.k8s.api.apps.v1.StatefulSetSpec": (
        "replicas selector template volumeClaimTemplates serviceName podManagementPolicy updateStrategy "
        "revisionHistoryLimit minReadySeconds persistentVolumeClaimRetentionPolicy ordinals"
    ),
    "io.k8s.api.apps.v1.StatefulSetStatus": (
        "observedGeneration replicas readyReplicas currentReplicas updatedReplicas currentRevision updateRevision "
        "9:collisionCount conditions availableReplicas"
    ),
    "io.k8s.api.apps.v1.StatefulSetUpdateStrategy": "type rollingUpdate",
    "io.k8s.api.authentication.v1.BoundObjectReference": "kind apiVersion name uid",
    "io.k8s.api.authentication.v1.SelfSubjectReview": "metadata status",
    "io.k8s.api.authentication.v1.SelfSubjectReviewStatus": "userInfo",
    "io.k8s.api.authentication.v1.TokenRequest": "metadata spec status",
    "io.k8s.api.authentication.v1.TokenRequestSpec": "audiences 3:boundObjectRef expirationSeconds",
    "io.k8s.api.authentication.v1.TokenRequestStatus": "token expirationTimestamp",
    "io.k8s.api.authentication.v1.TokenReview": "metadata spec status",
    "io.k8s.api.authentication.v1.TokenReviewSpec": "token audiences",
    "io.k8s.api.authentication.v1.TokenReviewStatus": "authenticated user error audiences",
    "io.k8s.api.authentication.v1.UserInfo": "username uid groups extra",
    "io.k8s.api.authorization.v1.FieldSelectorAttributes": "rawSelector requirements",
    "io.k8s.api.authorization.v1.FieldSelectorRequirement": "key operator values",
    "io.k8s.api.authorization.v1.LabelSelectorAttributes": "rawSelector requirements",
    "io.k8s.api.authorization.v1.LocalSubjectAccessReview": "metadata spec status",
    "io.k8s.api.authorization.v1.NonResourceAttributes": "path verb",
    "io.k8s.api.authorization.v1.NonResourceRule": "verbs nonResourceURLs",
    "io.k8s.api.authorization.v1.ResourceAttributes": (
        "namespace verb group version resource subresource name fieldSelector labelSelector"
    ),
    "io.k8s.api.authorization.v1.ResourceRule": "verbs apiGroups resources resourceNames",
    "io.k8s.api.authorization.v1.SelfSubjectAccessReview": "metadata spec status",
    "io.k8s.api.authorization.v1.SelfSubjectAccessReviewSpec": "resourceAttributes nonResourceAttributes",
    "io.k8s.api.authorization.v1.SelfSubjectRulesReview": "metadata spec status",
    "io.k8s.api.authorization.v1.SelfSubjectRulesReviewSpec": "namespace",
    "io.k8s.api.authorization.v1.SubjectAccessReview": "metadata spec status",
    "io.k8s.api.authorization.v1.SubjectAccessReviewSpec": (
        "resourceAttributes nonResourceAttributes user groups extra uid"
    ),
    "io.k8s.api.authorization.v1.SubjectAccessReviewStatus": "allowed reason evaluationError denied",
    "io.k8s.api.authorization.v1.SubjectRulesReviewStatus": "resourceRules nonResourceRules incomplete evaluationError",
    "io.k8s.api.autoscaling.v1.CrossVersionObjectReference": "kind name apiVersion",
    "io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler": "metadata spec status",
    "io.k8s.api.autoscaling.v1.HorizontalPodAutoscalerSpec": (
        "scaleTargetRef minReplicas maxReplicas targetCPUUtilizationPercentage"
    ),
    "io.k8s.api.autoscaling.v1.HorizontalPodAutoscalerStatus": (
        "observedGeneration lastScaleTime currentReplicas desiredReplicas currentCPUUtilizationPercentage"
    ),
    "io.k8s.api.autoscaling.v2.ContainerResourceMetricSource": "name target container",
    "io.k8s.api.autoscaling.v2.ContainerResourceMetricStatus": "name current container",
    "io.k8s.api.autoscaling.v2.CrossVersionObjectReference": "kind name apiVersion",
    "io.k8s.api.autoscaling.v2.ExternalMetricSource": "metric target",
    "io.k8s.api.autoscaling.v2.ExternalMetricStatus": "metric current",
    "io.k8s.api.autoscaling.v2.HPAScalingPolicy": "type value periodSeconds",
    "io.k8s.api.autoscaling.v2.HPAScalingRules": "selectPolicy policies stabilizationWindowSeconds tolerance",
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler": "metadata spec status",
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerBehavior": "scaleUp scaleDown",
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerCondition": "type status lastTransitionTime reason message",
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerSpec": "scaleTargetRef minReplicas maxReplicas metrics behavior",
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerStatus": (
        "observedGeneration lastScaleTime currentReplicas desiredReplicas currentMetrics conditions"
    ),
    "io.k8s.api.autoscaling.v2.MetricIdentifier": "name selector",
    "io.k8s.api.autoscaling.v2.MetricSpec": "type object pods resource external 7:containerResource",
    "io.k8s.api.autoscaling.v2.MetricStatus": "type object pods resource external 7:containerResource",
    "io.k8s.api.autoscaling.v2.MetricTarget": "type value averageValue averageUtilization",
    "io.k8s.api.autoscaling.v2.MetricValueStatus": "value averageValue averageUtilization",
    "io.k8s.api.autoscaling.v2.ObjectMetricSource": "describedObject target metric",
    "io.k8s.api.autoscaling.v2.ObjectMetricStatus": "metric current describedObject",
    "io.k8s.api.autoscaling.v2.PodsMetricSource": "metric target",
    "io.k8s.api.autoscaling.v2.PodsMetricStatus": "metric current",
    "io.k8s.api.autoscaling.v2.ResourceMetricSource": "name target",
    "io.k8s.api.autoscaling.v2.ResourceMetricStatus": "name current",
    "io.k8s.api.batch.v1.CronJob": "metadata spec status",
    "io.k8s.api.batch.v1.CronJobSpec": (
        "schedule startingDeadlineSeconds concurrencyPolicy suspend jobTemplate successfulJobsHistoryLimit "
        "failedJobsHistoryLimit timeZone"
    ),
    "io.k8s.api.batch.v1.CronJobStatus": "active 4:lastScheduleTime lastSuccessfulTime",
    "io.k8s.api.batch.v1.JobTemplateSpec": "metadata spec",
    "io.k8s.api.certificates.v1.CertificateSigningRequest": "metadata spec status",
    "io.k8s.api.certificates.v1.CertificateSigningRequestCondition": (
        "type reason message lastUpdateTime lastTransitionTime status"
    ),
    "io.k8s.api.certificates.v1.CertificateSigningRequestSpec": (
        "request username uid groups usages extra signerName expirationSeconds"
    ),
    "io.k8s.api.certificates.v1.CertificateSigningRequestStatus": "conditions certificate",
    "io.k8s.api.discovery.v1.Endpoint": (
        "addresses conditions hostname targetRef deprecatedTopology nodeName zone hints"
    ),
    "io.k8s.api.discovery.v1.EndpointConditions": "ready serving terminating",
    "io.k8s.api.discovery.v1.EndpointHints": "forZones forNodes",
    "io.k8s.api.discovery.v1.EndpointPort": "name protocol port appProtocol",
    "io.k8s.api.discovery.v1.EndpointSlice": "metadata endpoints ports addressType",
    "io.k8s.api.discovery.v1.ForNode": "name",
    "io.k8s.api.discovery.v1.ForZone": "name",
    "io.k8s.api.flowcontrol.v1.ExemptPriorityLevelConfiguration": "nominalConcurrencyShares lendablePercent",
    "io.k8s.api.flowcontrol.v1.FlowDistinguisherMethod": "type",
    "io.k8s.api.flowcontrol.v1.FlowSchema": "metadata spec status",
    "io.k8s.api.flowcontrol.v1.FlowSchemaCondition": "type status lastTransitionTime reason message",
    "io.k8s.api.flowcontrol.v1.FlowSchemaSpec": (
        "priorityLevelConfiguration matchingPrecedence distinguisherMethod rules"
    ),
    "io.k8s.api.flowcontrol.v1.FlowSchemaStatus": "conditions",
    "io.k8s.api.flowcontrol.v1.GroupSubject": "name",
    "io.k8s.api.flowcontrol.v1.LimitResponse": "type queuing",
    "io.k8s.api.flowcontrol.v1.LimitedPriorityLevelConfiguration": (
        "nominalConcurrencyShares limitResponse lendablePercent borrowingLimitPercent"
    ),
    "io.k8s.api.flowcontrol.v1.NonResourcePolicyRule": "verbs 6:nonResourceURLs",
    "io.k8s.api.flowcontrol.v1.PolicyRulesWithSubjects": "subjects resourceRules nonResourceRules",
    "io.k8s.api.flowcontrol.v1.PriorityLevelConfiguration": "metadata spec status",
    "io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationCondition": "type status lastTransitionTime reason message",
    "io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationReference": "name",
    "io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationSpec": "type limited exempt",
    "io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationStatus": "conditions",
    "io.k8s.api.flowcontrol.v1.QueuingConfiguration": "queues handSize queueLengthLimit",
    "io.k8s.api.flowcontrol.v1.ResourcePolicyRule": "verbs apiGroups resources clusterScope namespaces",
    "io.k8s.api.flowcontrol.v1.ServiceAccountSubject": "namespace name",
    "io.k8s.api.flowcontrol.v1.Subject": "kind user group serviceAccount",
    "io.k8s.api.flowcontrol.v1.UserSubject": "name",
    "io.k8s.api.networking.v1.HTTPIngressPath": "path backend pathType",
    "io.k8s.api.networking.v1.HTTPIngressRuleValue": "paths",
    "io.k8s.api.networking.v1.IPAddress": "metadata spec",
    "io.k8s.api.networking.v1.IPAddressSpec": "parentRef",
    "io.k8s.api.networking.v1.IPBlock": "cidr except",
    "io.k8s.api.networking.v1.Ingress": "metadata spec status",
    "io.k8s.api.networking.v1.IngressBackend": "3:resource service",
    "io.k8s.api.networking.v1.IngressClass": "metadata spec",
    "io.k8s.api.networking.v1.IngressClassParametersReference": "apiGroup kind name scope namespace",
    "io.k8s.api.networking.v1.IngressClassSpec": "controller parameters",
    "io.k8s.api.networking.v1.IngressLoadBalancerIngress": "ip hostname 4:ports",
    "io.k8s.api.networking.v1.IngressLoadBalancerStatus": "ingress",
    "io.k8s.api.networking.v1.IngressPortStatus": "port protocol error",
    "io.k8s.api.networking.v1.IngressRule": "host *IngressRuleValue",
    "io.k8s.api.networking.v1.IngressRuleValue": "http",
    "io.k8s.api.networking.v1.IngressServiceBackend": "name port",
    "io.k8s.api.networking.v1.IngressSpec": "defaultBackend tls rules ingressClassName",
    "io.k8s.api.networking.v1.IngressStatus": "loadBalancer",
    "io.k8s.api.networking.v1.IngressTLS": "hosts secretName",
    "io.k8s.api.networking.v1.NetworkPolicy": "metadata spec",
    "io.k8s.api.networking.v1.NetworkPolicyEgressRule": "ports to",
    "io.k8s.api.networking.v1.NetworkPolicyIngressRule": "ports from",
    "io.k8s.api.networking.v1.NetworkPolicyPeer": "podSelector namespaceSelector ipBlock",
    "io.k8s.api.networking.v1.NetworkPolicyPort": "protocol port endPort",
    "io.k8s.api.networking.v1.NetworkPolicySpec": "podSelector ingress egress policyTypes",
    "io.k8s.api.networking.v1.ParentReference": "group resource namespace name",
    "io.k8s.api.networking.v1.ServiceBackendPort": "name number",
    "io.k8s.api.networking.v1.ServiceCIDR": "metadata spec status",
    "io.k8s.api.networking.v1.ServiceCIDRSpec": "cidrs",
    "io.k8s.api.networking.v1.ServiceCIDRStatus": "conditions",
    "io.k8s.api.node.v1.Overhead": "podFixed",
    "io.k8s.api.node.v1.RuntimeClass": "metadata handler overhead scheduling",
    "io.k8s.api.node.v1.Scheduling": "nodeSelector tolerations",
    "io.k8s.api.policy.v1.PodDisruptionBudget": "metadata spec status",
    "io.k8s.api.policy.v1.PodDisruptionBudgetSpec": "minAvailable selector maxUnavailable unhealthyPodEvictionPolicy",
    "io.k8s.api.policy.v1.PodDisruptionBudgetStatus": (
        "observedGeneration disruptedPods disruptionsAllowed currentHealthy desiredHealthy expectedPods conditions"
    ),
    "io.k8s.api.rbac.v1.AggregationRule": "clusterRoleSelectors",
    "io.k8s.api.rbac.v1.ClusterRole": "metadata rules aggregationRule",
    "io.k8s.api.rbac.v1.ClusterRoleBinding": "metadata subjects roleRef",
    "io.k8s.api.rbac.v1.PolicyRule": "verbs apiGroups resources resourceNames nonResourceURLs",
    "io.k8s.api.rbac.v1.Role": "metadata rules",
    "io.k8s.api.rbac.v1.RoleBinding": "metadata subjects roleRef",
    "io.k8s.api.rbac.v1.RoleRef": "apiGroup kind name",
    "io.k8s.api.rbac.v1.Subject": "kind apiGroup name namespace",
    "io.k8s.api.resource.v1.AllocatedDeviceStatus": "driver pool device conditions data networkData shareID",
    "io.k8s.api.resource.v1.AllocationResult": "devices 3:nodeSelector 5:allocationTimestamp",
    "io.k8s.api.resource.v1.CELDeviceSelector": "expression",
    "io.k8s.api.resource.v1.CapacityRequestPolicy": "default 3:validValues validRange",
    "io.k8s.api.resource.v1.CapacityRequestPolicyRange": "min max step",
    "io.k8s.api.resource.v1.CapacityRequirements": "requests",
    "io.k8s.api.resource.v1.Counter": "value",
    "io.k8s.api.resource.v1.CounterSet": "name counters",
    "io.k8s.api.resource.v1.Device": (
        "name attributes capacity consumesCounters nodeName nodeSelector allNodes taints bindsToNode "
        "bindingConditions bindingFailureConditions allowMultipleAllocations"
    ),
    "io.k8s.api.resource.v1.DeviceAllocationConfiguration": "source requests *DeviceConfiguration",
    "io.k8s.api.resource.v1.DeviceAllocationResult": "results config",
    "io.k8s.api.resource.v1.DeviceAttribute": "2:int bool string version",
    "io.k8s.api.resource.v1.DeviceCapacity": "value requestPolicy",
    "io.k8s.api.resource.v1.DeviceClaim": "requests constraints config",
    "io.k8s.api.resource.v1.DeviceClaimConfiguration": "requests *DeviceConfiguration",
    "io.k8s.api.resource.v1.DeviceClass": "metadata spec",
    "io.k8s.api.resource.v1.DeviceClassConfiguration": "*DeviceConfiguration",
    "io.k8s.api.resource.v1.DeviceClassSpec": "selectors config 4:extendedResourceName",
    "io.k8s.api.resource.v1.DeviceConfiguration": "opaque",
    "io.k8s.api.resource.v1.DeviceConstraint": "requests matchAttribute distinctAttribute",
    "io.k8s.api.resource.v1.DeviceCounterConsumption": "counterSet counters",
    "io.k8s.api.resource.v1.DeviceRequest": "name exactly firstAvailable",
    "io.k8s.api.resource.v1.DeviceRequestAllocationResult": (
        "request driver pool device adminAccess tolerations bindingConditions bindingFailureConditions shareID "
        "consumedCapacity"
    ),
    "io.k8s.api.resource.v1.DeviceSelector": "cel",
    "io.k8s.api.resource.v1.DeviceSubRequest": (
        "name deviceClassName selectors allocationMode count tolerations capacity"
    ),
    "io.k8s.api.resource.v1.DeviceTaint": "key value effect timeAdded",
    "io.k8s.api.resource.v1.DeviceToleration": "key operator value effect tolerationSeconds",
    "io.k8s.api.resource.v1.ExactDeviceRequest": (
        "deviceClassName selectors allocationMode count adminAccess tolerations capacity"
    ),
    "io.k8s.api.resource.v1.NetworkDeviceData": "interfaceName ips hardwareAddress",
    "io.k8s.api.resource.v1.OpaqueDeviceConfiguration": "driver parameters",
    "io.k8s.api.resource.v1.ResourceClaim": "metadata spec status",
    "io.k8s.api.resource.v1.ResourceClaimConsumerReference": "apiGroup 3:resource name uid",
    "io.k8s.api.resource.v1.ResourceClaimSpec": "devices",
    "io.k8s.api.resource.v1.ResourceClaimStatus": "allocation reservedFor 4:devices",
    "io.k8s.api.resource.v1.ResourceClaimTemplate": "metadata spec",
    "io.k8s.api.resource.v1.ResourceClaimTemplateSpec": "metadata spec",
    "io.k8s.api.resource.v1.ResourcePool": "name generation resourceSliceCount",
    "io.k8s.api.resource.v1.ResourceSlice": "metadata spec",
    "io.k8s.api.resource.v1.ResourceSliceSpec": (
        "driver pool nodeName nodeSelector allNodes devices perDeviceNodeSelection sharedCounters"
    ),
    "io.k8s.api.scheduling.v1alpha2.BasicSchedulingPolicy": "",
    "io.k8s.api.scheduling.v1alpha2.GangSchedulingPolicy": "minCount",
    "io.k8s.api.scheduling.v1alpha2.PodGroup": "metadata spec status",
    "io.k8s.api.scheduling.v1alpha2.PodGroupResourceClaim": "name resourceClaimName resourceClaimTemplateName",
    "io.k8s.api.scheduling.v1alpha2.PodGroupResourceClaimStatus": "name resourceClaimName",
    "io.k8s.api.scheduling.v1alpha2.PodGroupSchedulingConstraints": "topology",
    "io.k8s.api.scheduling.v1alpha2.PodGroupSchedulingPolicy": "basic gang",
    "io.k8s.api.scheduling.v1alpha2.PodGroupSpec": (
        "podGroupTemplateRef schedulingPolicy schedulingConstraints resourceClaims disruptionMode "
        "priorityClassName priority"
    ),
    "io.k8s.api.scheduling.v1alpha2.PodGroupStatus": "conditions resourceClaimStatuses",
    "io.k8s.api.scheduling.v1alpha2.PodGroupTemplate": (
        "name schedulingPolicy schedulingConstraints resourceClaims disruptionMode priorityClassName priority"
    ),
    "io.k8s.api.scheduling.v1alpha2.PodGroupTemplateReference": "workload",
    "io.k8s.api.scheduling.v1alpha2.TopologyConstraint": "key",
    "io.k8s.api.scheduling.v1alpha2.TypedLocalObjectReference": "apiGroup kind name",
    "io.k8s.api.scheduling.v1alpha2.Workload": "metadata spec",
    "io.k8s.api.scheduling.v1alpha2.WorkloadPodGroupTemplateReference": "workloadName podGroupTemplateName",
    "io.k8s.api.scheduling.v1alpha2.WorkloadSpec": "controllerRef podGroupTemplates",
    "io.k8s.api.storage.v1.CSIDriver": "metadata spec",
    "io.k8s.api.storage.v1.CSIDriverSpec": (
        "attachRequired podInfoOnMount volumeLifecycleModes storageCapacity fsGroupPolicy tokenRequests "
        "requiresRepublish seLinuxMount nodeAllocatableUpdatePeriodSeconds"
    ),
    "io.k8s.api.storage.v1.CSINode": "metadata spec",
    "io.k8s.api.storage.v1.CSINodeDriver": "name nodeID topologyKeys allocatable",
    "io.k8s.api.storage.v1.CSINodeSpec": "drivers",
    "io.k8s.api.storage.v1.CSIStorageCapacity": "metadata nodeTopology storageClassName capacity maximumVolumeSize",
    "io.k8s.api.storage.v1.StorageClass": (
        "metadata provisioner parameters reclaimPolicy mountOptions allowVolumeExpansion volumeBindingMode "
        "allowedTopologies"
    ),
    "io.k8s.api.storage.v1.TokenRequest": "audience expirationSeconds",
    "io.k8s.api.storage.v1.VolumeAttachment": "metadata spec status",
    "io.k8s.api.storage.v1.VolumeAttachmentSource": "persistentVolumeName inlineVolumeSpec",
    "io.k8s.api.storage.v1.VolumeAttachmentSpec": "attacher source nodeName",
    "io.k8s.api.storage.v1.VolumeAttachmentStatus": "attached attachmentMetadata attachError detachError",
    "io.k8s.api.storage.v1.VolumeAttributesClass": "metadata driverName parameters",
    "io.k8s.api.storage.v1.VolumeError": "time message errorCode",
    "io.k8s.api.storage.v1.VolumeNodeResources": "count",
    "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService": "metadata spec status",
    "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIServiceCondition": (
        "type status lastTransitionTime reason message"
    ),
    "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIServiceSpec": (
        "service group version insecureSkipTLSVerify caBundle 7:groupPriorityMinimum versionPriority"
    ),
    "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIServiceStatus": "conditions",
    "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.ServiceReference": "namespace name port",
}
