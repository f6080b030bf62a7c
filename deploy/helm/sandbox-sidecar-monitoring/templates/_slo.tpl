{{/* The service level indicators: the share of launches that went wrong, and of those that were slow, by window. */}}

{{- define "monitoring.windows" -}}5m 30m 1h 2h 6h 1d 3d{{- end }}

{{- define "monitoring.counted" -}}sidecar_launches_total{outcome!~"caller_error|policy_refused"}{{- end }}

{{- define "monitoring.records" -}}
{{- $slow := .Values.slo.launchLatency.thresholdSeconds }}
{{- range splitList " " (include "monitoring.windows" .) }}
- record: sidecar:launch_errors:ratio_rate{{ . }}
  expr: |-
    sum(rate(sidecar_launches_total{outcome=~"limit|server_error"}[{{ . }}]))
    / (sum(rate({{ include "monitoring.counted" $ }}[{{ . }}])) > 0)
- record: sidecar:launch_slow:ratio_rate{{ . }}
  expr: |-
    1 - sum(rate(sidecar_launch_duration_seconds_bucket{le="{{ $slow }}"}[{{ . }}]))
    / (sum(rate(sidecar_launch_duration_seconds_count[{{ . }}])) > 0)
{{- end }}
- record: namespace_pod:sidecar_launches:rate5m
  expr: sum by (namespace, pod, tty, outcome) (rate(sidecar_launches_total[5m]))
- record: namespace_pod:sidecar_workspace:used_ratio
  expr: 1 - sidecar_workspace_free_bytes / (sidecar_workspace_size_bytes > 0)
{{- end }}

{{/* In an alert's text: the pods where most launches went wrong, or were slow. The objective is that of all; a person looks at one. */}}
{{- define "monitoring.worst" -}}
{{- $by := "sum by (namespace, pod) " }}
{{- $failed := printf "%s(increase(sidecar_launches_total{outcome=~'limit|server_error'}[%s]))" $by .long }}
{{- $slow := printf "%s(increase(sidecar_launch_duration_seconds_count[%s])) - %s(increase(sidecar_launch_duration_seconds_bucket{le='%s'}[%s]))" $by .long $by .slow .long }}
{{- $query := printf "sort_desc(topk(3, (%s) > 0))" (ternary $failed $slow (eq .indicator "launch_errors")) }}
{{- printf "{{ range $i, $worst := query %q }}{{ if $i }}, {{ end }}{{ $worst.Labels.namespace }}/{{ $worst.Labels.pod }} ({{ $worst.Value | humanize }}){{ end }}" $query }}
{{- end }}

{{/* One burn-rate alert: how fast the budget of a month is spent, over a long window and still over a short one. */}}
{{- define "monitoring.burn" -}}
- alert: {{ .alert }}
  expr: |-
    sidecar:{{ .indicator }}:ratio_rate{{ .long }} > ({{ .factor }} * {{ .budget }})
    and sidecar:{{ .indicator }}:ratio_rate{{ .short }} > ({{ .factor }} * {{ .budget }})
    and sum(increase({{ include "monitoring.counted" . }}[{{ .long }}])) >= {{ .minimum }}
{{- end }}
