{{/* The base name is karpenter whatever the chart is called: selectors are immutable and documents name it. */}}
{{- define "karpenter.name" -}}
{{- .Values.nameOverride | default "karpenter" | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "karpenter.fullname" -}}
{{- $base := .Values.nameOverride | default "karpenter" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains $base .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $base | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "karpenter.serviceAccountName" -}}
{{- $account := .Values.serviceAccount | default dict -}}
{{- if eq (toString (get $account "create")) "false" -}}
{{- $account.name | default "default" -}}
{{- else -}}
{{- $account.name | default (include "karpenter.fullname" .) -}}
{{- end -}}
{{- end -}}

{{- define "karpenter.selectorLabels" -}}
app.kubernetes.io/name: {{ include "karpenter.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* The labels of every object. Takes root and labels, which may be given again. */}}
{{- define "karpenter.labels" -}}
{{- $root := .root -}}
{{- $labels := dict "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") -}}
{{- $_ := set $labels "app.kubernetes.io/version" $root.Chart.AppVersion -}}
{{- $_ := set $labels "app.kubernetes.io/managed-by" $root.Release.Service -}}
{{- $selector := include "karpenter.selectorLabels" $root | fromYaml -}}
{{- merge $selector (.labels | default dict) ($root.Values.additionalLabels | default dict) $labels | toYaml -}}
{{- end -}}

{{/* The metadata that every object has. Takes root, name, and where they are wanted namespace, labels and annotations. */}}
{{- define "karpenter.metadata" -}}
name: {{ .name }}
{{- with .namespace }}
namespace: {{ . }}
{{- end }}
labels:
  {{- include "karpenter.labels" . | nindent 2 }}
{{- with merge dict (.annotations | default dict) (.root.Values.additionalAnnotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "karpenter.image" -}}
{{- $image := (.Values.controller).image | default dict -}}
{{- $image.repository | default "ghcr.io/dovetail-sh/dovetail" }}:{{ $image.tag | default .Chart.AppVersion }}
{{- with $image.digest }}@{{ . }}{{ end -}}
{{- end -}}

{{/* The hardening that no value takes away. */}}
{{- define "karpenter.securityContext" -}}
privileged: false
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
capabilities:
  drop:
    - ALL
{{- $own := (.Values.controller).securityContext | default dict }}
{{- range $field := list "appArmorProfile" "seLinuxOptions" "seccompProfile" }}
{{- with get $own $field }}
{{ $field }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* An affinity whose terms for pods all have a selector. */}}
{{- define "karpenter.affinity" -}}
{{- $selector := dict "matchLabels" (include "karpenter.selectorLabels" . | fromYaml) -}}
{{- $affinity := deepCopy .Values.affinity -}}
{{- range $kind := list "podAffinity" "podAntiAffinity" -}}
{{- $terms := get $affinity $kind | default dict -}}
{{- range get $terms "requiredDuringSchedulingIgnoredDuringExecution" | default list -}}
{{- if not (hasKey . "labelSelector") }}{{ $_ := set . "labelSelector" $selector }}{{ end -}}
{{- end -}}
{{- range get $terms "preferredDuringSchedulingIgnoredDuringExecution" | default list -}}
{{- if not (hasKey .podAffinityTerm "labelSelector") }}{{ $_ := set .podAffinityTerm "labelSelector" $selector }}{{ end -}}
{{- end -}}
{{- end -}}
{{- toYaml $affinity -}}
{{- end -}}

{{- define "karpenter.topologySpreadConstraints" -}}
{{- $selector := dict "matchLabels" (include "karpenter.selectorLabels" . | fromYaml) -}}
{{- $constraints := deepCopy .Values.topologySpreadConstraints -}}
{{- range $constraints -}}
{{- if not (hasKey . "labelSelector") }}{{ $_ := set . "labelSelector" $selector }}{{ end -}}
{{- end -}}
{{- toYaml $constraints -}}
{{- end -}}

{{/* A value as it was written. Numbers of a values file are floating point, and large ones would become 1e+06. */}}
{{- define "karpenter.plain" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) -}}
{{- printf "%.0f" . -}}
{{- else if not (kindIs "invalid" .) -}}
{{- toString . -}}
{{- end -}}
{{- end -}}

{{/* A text of the values, templates in it resolved. Takes root and value. */}}
{{- define "karpenter.text" -}}
{{- tpl (include "karpenter.plain" .value) .root | trim -}}
{{- end -}}

{{/* Something if the value is true, also where it came as text, as with --set-string. */}}
{{- define "karpenter.isTrue" -}}
{{- if eq (toString .) "true" }}true{{ end -}}
{{- end -}}

{{/* One environment variable, or nothing if the value is empty: the program knows the default. false and 0 are not
     empty. Takes root, name and value. */}}
{{- define "karpenter.variable" -}}
{{- $text := include "karpenter.text" . -}}
{{- if ne $text "" }}
- name: {{ .name }}
  value: {{ $text | quote }}
{{- end -}}
{{- end -}}

{{/* A comma list of gates, in the order of their names. Takes root and gates. */}}
{{- define "karpenter.gates" -}}
{{- $list := list -}}
{{- range $key := keys (.gates | default dict) | sortAlpha -}}
{{- $value := include "karpenter.text" (dict "root" $.root "value" (get $.gates $key)) -}}
{{- if ne $value "" -}}
{{- $list = append $list (printf "%s%s=%s" (substr 0 1 $key | upper) (substr 1 -1 $key) $value) -}}
{{- end -}}
{{- end -}}
{{- join "," $list -}}
{{- end -}}
