{{/* Every setting as the environment variable that the program reads, always in one order, and then what users add. */}}
{{- define "karpenter.environment" -}}
{{- $settings := .Values.settings | default dict -}}
{{- $rights := .Values.optionalRights | default dict -}}
- name: KUBERNETES_MIN_VERSION
  value: 1.19.0-0
- name: KARPENTER_SERVICE
  value: {{ include "karpenter.fullname" . }}
- name: SYSTEM_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: CPU_REQUESTS
  valueFrom:
    resourceFieldRef:
      containerName: {{ (.Values.controller).containerName | default "controller" }}
      divisor: 1m
      resource: requests.cpu
- name: MEMORY_LIMIT
  valueFrom:
    resourceFieldRef:
      containerName: {{ (.Values.controller).containerName | default "controller" }}
      divisor: "1"
      resource: limits.memory
- name: METRICS_PORT
  value: {{ include "karpenter.metricsPort" . | quote }}
- name: HEALTH_PROBE_PORT
  value: {{ include "karpenter.healthPort" . | quote }}
{{- include "karpenter.variable" (dict "root" . "name" "LOG_LEVEL" "value" .Values.logLevel) }}
{{- include "karpenter.variable" (dict "root" . "name" "LOG_OUTPUT_PATHS" "value" (.Values.logOutputPaths | default list | join ",")) }}
{{- include "karpenter.variable" (dict "root" . "name" "LOG_ERROR_OUTPUT_PATHS" "value" (.Values.logErrorOutputPaths | default list | join ",")) }}
{{- range $pair := list
  (list "BATCH_MAX_DURATION" "batchMaxDuration")
  (list "BATCH_IDLE_DURATION" "batchIdleDuration")
  (list "PREFERENCE_POLICY" "preferencePolicy")
  (list "MIN_VALUES_POLICY" "minValuesPolicy")
  (list "CLUSTER_NAME" "clusterName")
  (list "CLUSTER_ENDPOINT" "clusterEndpoint")
  (list "CLUSTER_CA_BUNDLE" "clusterCABundle")
  (list "ISOLATED_VPC" "isolatedVPC")
  (list "EKS_CONTROL_PLANE" "eksControlPlane")
  (list "VM_MEMORY_OVERHEAD_PERCENT" "vmMemoryOverheadPercent")
  (list "INTERRUPTION_QUEUE" "interruptionQueue")
  (list "ENABLE_ZONAL_SHIFT" "enableZonalShift")
  (list "RESERVED_ENIS" "reservedENIs")
  (list "IGNORE_DRA_REQUESTS" "ignoreDRARequests")
  (list "DISABLE_CLUSTER_STATE_OBSERVABILITY" "disableClusterStateObservability")
  (list "DISABLE_DRY_RUN" "disableDryRun")
  (list "AMI_REFRESH_INTERVAL" "amiRefreshInterval")
  (list "SUBNET_REFRESH_INTERVAL" "subnetRefreshInterval")
  (list "CONSOLIDATION_HORIZON" "consolidationHorizon")
  (list "CONSOLIDATION_POD_COST" "consolidationPodCost")
  (list "CONSOLIDATION_MIN_SAVING" "consolidationMinSaving")
  (list "CONSOLIDATION_MIN_NODE_AGE" "consolidationMinNodeAge")
  (list "SPOT_POOL_SHARE" "spotPoolShare")
  (list "LEGACY_NODE_REPAIR" "legacyNodeRepair")
  (list "STRICT_COMPATIBILITY" "strictCompatibility")
  (list "LEDGER" "ledger")
  (list "SCHEDULER_CONFIG" "schedulerConfig")
}}
{{- include "karpenter.variable" (dict "root" $ "name" (first $pair) "value" (get $settings (last $pair))) }}
{{- end }}
- name: NOMINATE_PODS
  value: {{ get $rights "nominatePods" | default false | quote }}
{{- include "karpenter.variable" (dict "root" . "name" "FEATURE_GATES" "value" (include "karpenter.gates" (dict "root" . "gates" $settings.featureGates))) }}
{{- include "karpenter.variable" (dict "root" . "name" "AWS_FEATURE_GATES" "value" (include "karpenter.gates" (dict "root" . "gates" $settings.awsFeatureGates))) }}
{{- range (.Values.controller).env }}
{{- /* --set makes a number of what looks like one, and Kubernetes takes only text */}}
{{- $variable := hasKey . "value" | ternary (merge (dict "value" (include "karpenter.plain" .value)) .) . }}
- {{- toYaml $variable | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "karpenter.metricsPort" -}}
{{- dig "metrics" "port" 8080 (.Values.controller | default dict) | int -}}
{{- end -}}

{{- define "karpenter.healthPort" -}}
{{- dig "healthProbe" "port" 8081 (.Values.controller | default dict) | int -}}
{{- end -}}
