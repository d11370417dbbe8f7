{{- /* The release's name, with the chart's name in it. */ -}}
{{- define "device-plugin.name" -}}
{{- $name := .Release.Name -}}
{{- if not (contains .Chart.Name $name) }}{{ $name = printf "%s-%s" $name .Chart.Name }}{{ end -}}
{{- $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "device-plugin.serviceAccount" -}}
{{- if .Values.serviceAccount.name -}}
{{- .Values.serviceAccount.name -}}
{{- else if .Values.serviceAccount.create -}}
{{- include "device-plugin.name" . -}}
{{- else -}}
default
{{- end -}}
{{- end -}}

{{- define "device-plugin.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "device-plugin.labels" -}}
{{ include "device-plugin.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- /* The driver's name if resources go by claims, and a refusal where that is said by half. */ -}}
{{- define "device-plugin.driver" -}}
{{- if .Values.dra.enabled -}}
{{- required "dra.enabled needs config.dra.driver" (dig "dra" "driver" "" .Values.config) -}}
{{- else -}}
{{- range .Values.config.resources -}}
{{- if eq (default "" .api) "dra" }}{{ fail (printf "%s has api: dra, which needs dra.enabled" .name) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* What has no namespace is called by both. */ -}}
{{- define "device-plugin.clusterName" -}}
{{- printf "%s.%s" (include "device-plugin.name" .) .Release.Namespace -}}
{{- end -}}
