{{/* What is wrong with the values, as far as the chart can know: every message names the value and what to write. All
     faults are reported together. */}}
{{- define "karpenter.check" -}}
{{- $faults := list -}}
{{- $settings := .Values.settings | default dict -}}
{{- $text := dict -}}
{{- range $key, $value := $settings -}}
{{- if not (or (kindIs "map" $value) (kindIs "slice" $value)) -}}
{{- $_ := set $text $key (include "karpenter.text" (dict "root" $ "value" $value)) -}}
{{- end -}}
{{- end -}}
{{- if not $text.clusterName -}}
{{- $faults = append $faults "settings.clusterName is empty; give the name of the EKS cluster, for example --set settings.clusterName=my-cluster" -}}
{{- end -}}
{{- with $text.clusterEndpoint -}}
{{- if not (regexMatch "^[a-z]+://[^/:]+" .) -}}
{{- $faults = append $faults (printf "settings.clusterEndpoint is %q; give an absolute URL, such as https://ABCDEF.gr7.eu-west-1.eks.amazonaws.com, or leave it empty: it is then read from EKS" .) -}}
{{- end -}}
{{- end -}}
{{- with $text.clusterCABundle -}}
{{- if not (regexMatch "^[A-Za-z0-9+/=\\s]+$" .) -}}
{{- $faults = append $faults "settings.clusterCABundle is not base64; give certificateAuthority.data as `aws eks describe-cluster` prints it, or leave it empty" -}}
{{- end -}}
{{- end -}}
{{- with $text.interruptionQueue -}}
{{- if not (regexMatch "^((arn:[^:]*:sqs:[^:]*:[^:]*:|[a-z]+://.+/))?[A-Za-z0-9_-]{1,80}(\\.fifo)?$" .) -}}
{{- $faults = append $faults (printf "settings.interruptionQueue is %q; give the name of an SQS queue (up to 80 letters, digits, - and _), or leave it empty to read none" .) -}}
{{- end -}}
{{- end -}}
{{- range $key := list "batchMaxDuration" "batchIdleDuration" "amiRefreshInterval" "subnetRefreshInterval" "consolidationHorizon" "consolidationMinNodeAge" -}}
{{- with get $text $key -}}
{{- if not (regexMatch "^(0|([0-9]+(\\.[0-9]*)?(ns|us|µs|ms|s|m|h))+)$" .) -}}
{{- $faults = append $faults (printf "settings.%s is %q; give a duration, such as 10s or 1m30s" $key .) -}}
{{- else if and (hasSuffix "RefreshInterval" $key) (not (regexMatch "[0-9][mh]([0-9]|$)" .)) (lt (trimSuffix "s" . | float64) 60.0) -}}
{{- $faults = append $faults (printf "settings.%s is %q; give 1m or more" $key .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $key, $words := dict "preferencePolicy" (list "Respect" "Ignore") "minValuesPolicy" (list "Strict" "BestEffort") -}}
{{- with get $text $key -}}
{{- if not (has . $words) -}}
{{- $faults = append $faults (printf "settings.%s is %q; give %s" $key . (join " or " $words)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $key := list "vmMemoryOverheadPercent" "consolidationPodCost" "consolidationMinSaving" "spotPoolShare" -}}
{{- with get $text $key -}}
{{- if not (regexMatch "^[0-9]*\\.?[0-9]+([eE][-+]?[0-9]+)?$" .) -}}
{{- $faults = append $faults (printf "settings.%s is %q; give a number of 0 or more, such as 0.075 for 7.5 %%" $key .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with $text.reservedENIs -}}
{{- if not (regexMatch "^[0-9]+$" .) -}}
{{- $faults = append $faults (printf "settings.reservedENIs is %q; give a whole number of 0 or more" .) -}}
{{- end -}}
{{- end -}}
{{- range $key := list "isolatedVPC" "eksControlPlane" "enableZonalShift" "ignoreDRARequests" "disableClusterStateObservability" "disableDryRun" "legacyNodeRepair" "strictCompatibility" "ledger" -}}
{{- with get $text $key -}}
{{- if not (has . (list "true" "false")) -}}
{{- $faults = append $faults (printf "settings.%s is %q; give true or false" $key .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $group := list "featureGates" "awsFeatureGates" -}}
{{- range $key, $value := get $settings $group | default dict -}}
{{- $given := include "karpenter.text" (dict "root" $ "value" $value) -}}
{{- if not (has $given (list "true" "false" "")) -}}
{{- $faults = append $faults (printf "settings.%s.%s is %q; give true or false" $group $key $given) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $key, $value := .Values.optionalRights | default dict -}}
{{- $faults = concat $faults (include "karpenter.checkBoolean" (list (printf "optionalRights.%s" $key) $value) | fromJsonArray) -}}
{{- end -}}
{{- $controller := .Values.controller | default dict -}}
{{- range $pair := list
  (list "hostNetwork" .Values.hostNetwork) (list "serviceAccount.create" (.Values.serviceAccount).create)
  (list "networkPolicy.enabled" (.Values.networkPolicy).enabled) (list "flowSchemas.enabled" (.Values.flowSchemas).enabled)
-}}
{{- $faults = concat $faults (include "karpenter.checkBoolean" $pair | fromJsonArray) -}}
{{- end -}}
{{- range $pair := list
  (list "imagePullPolicy" .Values.imagePullPolicy (list "Always" "IfNotPresent" "Never"))
  (list "dnsPolicy" .Values.dnsPolicy (list "ClusterFirst" "ClusterFirstWithHostNet" "Default" "None"))
-}}
{{- $given := include "karpenter.plain" (index $pair 1) -}}
{{- if and $given (not (has $given (last $pair))) -}}
{{- $faults = append $faults (printf "%s is %q; give %s" (first $pair) $given (join " or " (last $pair))) -}}
{{- end -}}
{{- end -}}
{{- if and (eq (toString .Values.dnsPolicy) "None") (not (.Values.dnsConfig).nameservers) -}}
{{- $faults = append $faults "dnsPolicy is None and dnsConfig.nameservers is empty; give the addresses of name servers, or another dnsPolicy" -}}
{{- end -}}
{{- range $key := list "revisionHistoryLimit" "terminationGracePeriodSeconds" -}}
{{- $given := include "karpenter.plain" (get $.Values $key) -}}
{{- if not (regexMatch "^[0-9]*$" $given) -}}
{{- $faults = append $faults (printf "%s is %q; give a whole number of 0 or more" $key $given) -}}
{{- end -}}
{{- end -}}
{{- $budget := include "karpenter.plain" (.Values.podDisruptionBudget).maxUnavailable -}}
{{- if not (regexMatch "^([0-9]+%?)?$" $budget) -}}
{{- $faults = append $faults (printf "podDisruptionBudget.maxUnavailable is %q; give a whole number or a percentage" $budget) -}}
{{- end -}}
{{- range $kind, $amounts := $controller.resources | default dict -}}
{{- if and (has $kind (list "requests" "limits")) (kindIs "map" $amounts) -}}
{{- range $name, $amount := $amounts -}}
{{- $given := include "karpenter.plain" $amount -}}
{{- if not (regexMatch "^([0-9]+\\.?[0-9]*|\\.[0-9]+)([eE][-+]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?$" $given) -}}
{{- $faults = append $faults (printf "controller.resources.%s.%s is %q; give a quantity, such as 500m or 1 for CPU and 512Mi or 1Gi for memory" $kind $name $given) -}}
{{- end -}}
{{- end -}}
{{- else if not (has $kind (list "requests" "limits" "claims")) -}}
{{- $faults = append $faults (printf "controller.resources.%s is unknown; give requests and limits" $kind) -}}
{{- end -}}
{{- end -}}
{{- $uninstall := .Values.uninstall | default dict -}}
{{- if not (has (toString (get $uninstall "enabled")) (list "true" "false" "<nil>" "")) -}}
{{- $faults = append $faults (printf "uninstall.enabled is %q; give true or false" (toString $uninstall.enabled)) -}}
{{- end -}}
{{- if not (has (get $uninstall "nodes" | default "Keep") (list "Keep" "Delete" "Release")) -}}
{{- $faults = append $faults (printf "uninstall.nodes is %q; give Keep, Delete or Release" (toString $uninstall.nodes)) -}}
{{- end -}}
{{- if not (regexMatch "^[1-9][0-9]*$" (get $uninstall "timeoutSeconds" | default 240 | toString)) -}}
{{- $faults = append $faults (printf "uninstall.timeoutSeconds is %q; give a whole number of seconds" (toString $uninstall.timeoutSeconds)) -}}
{{- end -}}
{{- $level := include "karpenter.text" (dict "root" . "value" .Values.logLevel) -}}
{{- if not (has $level (list "debug" "info" "error" "")) -}}
{{- $faults = append $faults (printf "logLevel is %q; give debug, info or error" $level) -}}
{{- end -}}
{{- $replicas := include "karpenter.plain" .Values.replicas -}}
{{- if not (regexMatch "^[0-9]*$" $replicas) -}}
{{- $faults = append $faults (printf "replicas is %q; give a whole number, 2 in production and 1 where there is one node" $replicas) -}}
{{- end -}}
{{- if eq (include "karpenter.metricsPort" .) (include "karpenter.healthPort" .) -}}
{{- $faults = append $faults (printf "controller.metrics.port and controller.healthProbe.port are both %s; give two ports" (include "karpenter.metricsPort" .)) -}}
{{- end -}}
{{- range $key := list "metrics" "healthProbe" -}}
{{- $given := include "karpenter.plain" (dig "port" "" (get $controller $key | default dict)) -}}
{{- if and $given (or (not (regexMatch "^[0-9]{1,5}$" $given)) (lt (int $given) 1) (gt (int $given) 65535)) -}}
{{- $faults = append $faults (printf "controller.%s.port is %s; give a port from 1 to 65535" $key $given) -}}
{{- end -}}
{{- end -}}
{{- $image := $controller.image | default dict -}}
{{- if regexMatch "(^|/)karpenter/controller$" (toString $image.repository) -}}
{{- $faults = append $faults (printf "controller.image.repository is %q, the image of Karpenter: --reuse-values has kept it, or a values file of Karpenter names it; upgrade with --reset-then-reuse-values and leave controller.image out of the values" $image.repository) -}}
{{- end -}}
{{- if regexMatch "(:[^/]*|@.*)$" (toString $image.repository) -}}
{{- $faults = append $faults (printf "controller.image.repository is %q; give the part before the tag and the digest, which have values of their own: controller.image.tag and controller.image.digest" $image.repository) -}}
{{- end -}}
{{- if not (regexMatch "^[A-Za-z0-9_]?[A-Za-z0-9_.-]{0,127}$" (include "karpenter.plain" $image.tag)) -}}
{{- $faults = append $faults (printf "controller.image.tag is %q; give letters, digits, dots, - and _, or leave it empty to use the version of the chart" (include "karpenter.plain" $image.tag)) -}}
{{- end -}}
{{- with $image.digest -}}
{{- if not (regexMatch "^sha256:[0-9a-f]{64}$" .) -}}
{{- $faults = append $faults (printf "controller.image.digest is %q; give sha256: and 64 hexadecimal digits, or leave it empty to use the tag" .) -}}
{{- end -}}
{{- end -}}
{{- with dig "annotations" "eks.amazonaws.com/role-arn" "" (.Values.serviceAccount | default dict) -}}
{{- if not (regexMatch "^arn:[^:]+:iam::[0-9]{12}:role/.+$" .) -}}
{{- $faults = append $faults (printf "serviceAccount.annotations has eks.amazonaws.com/role-arn %q; give the ARN of a role, such as arn:aws:iam::111122223333:role/KarpenterControllerRole-my-cluster" .) -}}
{{- end -}}
{{- end -}}
{{- with $faults -}}
{{- fail (printf "\n\n%d value%s cannot be used:\n  - %s\n" (len .) (ternary "" "s" (eq (len .) 1)) (join "\n  - " .)) -}}
{{- end -}}
{{- end -}}

{{/* A list, as JSON, of what is wrong with a value that is true or false. Takes its name and the value. */}}
{{- define "karpenter.checkBoolean" -}}
{{- $given := include "karpenter.plain" (last .) -}}
{{- if has $given (list "true" "false" "") -}}
[]
{{- else -}}
{{- list (printf "%s is %q; give true or false" (first .) $given) | toJson -}}
{{- end -}}
{{- end -}}

{{/* The given values that the chart does not know, at the top and in the two large groups. They are reported and not rejected: they may be
     those of another version. */}}
{{- define "karpenter.unknown" -}}
{{- $known := include "karpenter.known" . | splitList "\n" -}}
{{- $unknown := list -}}
{{- range $group, $values := dict "" .Values "controller." (.Values.controller | default dict) "settings." (.Values.settings | default dict) -}}
{{- range $key := keys $values -}}
{{- $name := printf "%s%s" $group $key -}}
{{- if not (has $name (append $known "global")) -}}
{{- $unknown = append $unknown $name -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- join ", " (sortAlpha $unknown) -}}
{{- end -}}
