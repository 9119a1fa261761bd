{{- /* The Configuration: what values say, the namespace of the release, and who makes the certificates. */ -}}
{{- define "muster.configuration" -}}
{{- $config := fromYaml .Values.managerConfig.controllerManagerConfigYaml -}}
{{ trim .Values.managerConfig.controllerManagerConfigYaml }}
{{ if not (hasKey $config "namespace") }}namespace: {{ .Release.Namespace }}
{{ end }}{{ if and .Values.enableCertManager (not (hasKey $config "internalCertManagement")) }}internalCertManagement:
  enable: false
{{ end }}
{{- end }}

{{- /* Ends with one sentence where `muster manifests` would refuse, too. */ -}}
{{- define "muster.check" -}}
{{- $config := fromYaml .Values.managerConfig.controllerManagerConfigYaml -}}
{{- if hasKey $config "Error" }}{{ fail (printf "managerConfig.controllerManagerConfigYaml is not YAML: %s" $config.Error) }}{{ end -}}
{{- if has .Release.Namespace (list "default" "kube-node-lease" "kube-public" "kube-system") }}{{ fail (printf "namespace %s will not do: the engine needs a namespace of its own" .Release.Namespace) }}{{ end -}}
{{- if ne (dig "namespace" .Release.Namespace $config) .Release.Namespace }}{{ fail (printf "the Configuration says another namespace than that of the release, %s" .Release.Namespace) }}{{ end -}}
{{- if and .Values.enableCertManager (dig "internalCertManagement" "enable" (not .Values.enableCertManager) $config) }}{{ fail "enableCertManager wants internalCertManagement.enable: false in the Configuration, or two programs make the certificates" }}{{ end -}}
{{- if and (not (dig "leaderElection" "leaderElect" true $config)) (gt (int .Values.controllerManager.replicas) 1) }}{{ fail "leaderElection.leaderElect is false: more than one replica would all work at the same time" }}{{ end -}}
{{- if eq (dig "health" "healthProbeBindAddress" ":8081" $config) "0" }}{{ fail "health.healthProbeBindAddress is 0: the probes of the chart need it" }}{{ end -}}
{{- end }}
