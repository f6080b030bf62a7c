{{- define "sandbox-sidecar.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Short enough for what is put behind it, and for the -0 of the pod and the hash of its revision. */}}
{{- define "sandbox-sidecar.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "sandbox-sidecar.name" .) .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "sandbox-sidecar.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* A selector cannot be changed: nothing in it may change with an upgrade. */}}
{{- define "sandbox-sidecar.selectorLabels" -}}
app.kubernetes.io/name: {{ include "sandbox-sidecar.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* part-of is the same whatever the release is called: the monitoring chart finds pods by it. */}}
{{- define "sandbox-sidecar.commonLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: sandbox-sidecar
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "sandbox-sidecar.labels" -}}
{{ include "sandbox-sidecar.selectorLabels" . }}
{{ include "sandbox-sidecar.commonLabels" . }}
{{- end }}

{{/* Pods of hooks: not selected as the workspace, but let in by its NetworkPolicy. */}}
{{- define "sandbox-sidecar.hookSelectorLabels" -}}
app.kubernetes.io/name: {{ include "sandbox-sidecar.name" . | trunc 58 }}-hook
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sandbox-sidecar.image" -}}
{{- $image := .Values.image }}
{{- $repository := required "image.repository is not set: build the image with `make images`, push it to your registry, and set image.repository to it (--set image.repository=registry.example.com/sandbox-sidecar)" $image.repository }}
{{- if $image.digest }}
{{- printf "%s@%s" $repository $image.digest }}
{{- else }}
{{- printf "%s:%s" $repository (default .Chart.AppVersion $image.tag) }}
{{- end }}
{{- end }}

{{/* The programs where the image has them, and where they are copied to. */}}
{{- define "sandbox-sidecar.installed" -}}/usr/local/bin{{- end }}

{{- define "sandbox-sidecar.binDir" -}}
{{- if .Values.tools.image }}{{ .Values.tools.path }}{{ else }}{{ include "sandbox-sidecar.installed" . }}{{ end }}
{{- end }}

{{- define "sandbox-sidecar.needsInstall" -}}
{{- if or .Values.tools.image (and .Values.agent.image .Values.agent.installClient) }}true{{ end }}
{{- end }}

{{- define "sandbox-sidecar.stateDir" -}}/run/sandbox-sidecar{{- end }}
{{- define "sandbox-sidecar.socket" -}}{{ include "sandbox-sidecar.stateDir" . }}/api.sock{{- end }}

{{/* Below /run, which no launch gets: a Secret's files change their real place when they are updated. */}}
{{- define "sandbox-sidecar.secretDir" -}}/run/sandbox-sidecar-auth{{- end }}

{{- define "sandbox-sidecar.tokenFile" -}}
{{- if eq .Values.auth.mode "existingSecret" }}{{ include "sandbox-sidecar.secretDir" . }}{{ else }}{{ include "sandbox-sidecar.stateDir" . }}{{ end }}/token
{{- end }}

{{/* The flags by which a client in the sidecar's container reaches its API. */}}
{{- define "sandbox-sidecar.toOwnApi" -}}
{{- if .Values.sidecar.unixSocket -}}
--sidecar-url unix://{{ include "sandbox-sidecar.socket" . }}
{{- else -}}
--sidecar-url ws://{{ include "sandbox-sidecar.at" (dict "address" (include "sandbox-sidecar.loopback" .) "port" .Values.sidecar.port) }} --token-file {{ include "sandbox-sidecar.tokenFile" . }}
{{- end }}
{{- end }}

{{- define "sandbox-sidecar.claim" -}}
{{- default (include "sandbox-sidecar.fullname" .) .Values.workspace.persistentVolumeClaim.existingClaim }}
{{- end }}

{{/* A quantity of Kubernetes, in MiB. Numbers of values files are floats. */}}
{{- define "sandbox-sidecar.mebibytes" -}}
{{- $text := ternary (int64 .) . (kindIs "float64" .) | toString }}
{{- $number := regexFind "^[0-9.]+([eE][-+]?[0-9]+)?" $text }}
{{- $units := dict "" 1 "m" 1e-3 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 }}
{{- $units = merge $units (dict "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 "Ei" 1152921504606846976) }}
{{- divf (mulf $number (default 0 (get $units (trimPrefix $number $text)))) 1048576 }}
{{- end }}

{{/* An address with a port, IPv6 in brackets. */}}
{{- define "sandbox-sidecar.at" -}}
{{- if contains ":" .address }}[{{ .address }}]{{ else }}{{ .address }}{{ end }}:{{ .port }}
{{- end }}

{{/* The admin port is for the kubelet and Prometheus; the API leaves loopback for a service alone. */}}
{{- define "sandbox-sidecar.loopback" -}}
{{- if contains ":" .Values.service.bindAddress }}::1{{ else }}127.0.0.1{{ end }}
{{- end }}

{{/* Kubernetes from 1.29 on takes restartPolicy in an init container. */}}
{{- define "sandbox-sidecar.isNative" -}}
{{- if and .Values.agent.image .Values.sidecar.native }}true{{ end }}
{{- end }}
