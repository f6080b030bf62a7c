{{/* The alerts. Each has its runbook in docs/runbooks.md, and a test that makes it fire. */}}
{{- define "monitoring.alerts" -}}
{{- $a := .Values.alerts }}
{{- $success := divf (subf 100 .Values.slo.launchSuccess.objective) 100 }}
{{- $fast := divf (subf 100 .Values.slo.launchLatency.objective) 100 }}
{{- $minimum := .Values.slo.minimumLaunches }}
{{- range list
    (dict "alert" "SandboxLaunchErrorsFast" "indicator" "launch_errors" "budget" $success "factor" 14.4 "long" "1h" "short" "5m" "severity" "critical" "days" 2)
    (dict "alert" "SandboxLaunchErrorsSlow" "indicator" "launch_errors" "budget" $success "factor" 6 "long" "6h" "short" "30m" "severity" "critical" "days" 5)
    (dict "alert" "SandboxLaunchErrorsTicket" "indicator" "launch_errors" "budget" $success "factor" 3 "long" "1d" "short" "2h" "severity" "warning" "days" 10)
    (dict "alert" "SandboxLaunchErrorsTrend" "indicator" "launch_errors" "budget" $success "factor" 1 "long" "3d" "short" "6h" "severity" "warning" "days" 30)
    (dict "alert" "SandboxLaunchLatencyFast" "indicator" "launch_slow" "budget" $fast "factor" 14.4 "long" "1h" "short" "5m" "severity" "critical" "days" 2)
    (dict "alert" "SandboxLaunchLatencySlow" "indicator" "launch_slow" "budget" $fast "factor" 6 "long" "6h" "short" "30m" "severity" "warning" "days" 5)
}}
{{- $_ := set . "slow" $.Values.slo.launchLatency.thresholdSeconds }}
{{ include "monitoring.burn" (merge . (dict "minimum" $minimum)) }}
  for: 2m
  labels: { severity: {{ .severity }} }
  annotations:
    summary: {{ ternary "Launches fail" "Launches are slow to start" (eq .indicator "launch_errors") }}, counted over all workspaces
    description: >-
      {{`{{ $value | humanizePercentage }}`}} of the launches of all workspaces in the last {{ .long }}
      {{ ternary "failed through no fault of the caller" (printf "took longer than %s s to start" $.Values.slo.launchLatency.thresholdSeconds) (eq .indicator "launch_errors") }}.
      At this rate the error budget of 30 days is gone in {{ .days }} days.
      Most of them: {{ include "monitoring.worst" . }}.
{{- end }}
- alert: SandboxEnforcementDegraded
  # A server whose sandbox cannot be started at all tells no part of it.
  expr: |-
    sidecar_enforcement_part{state="full",part!~"{{ join "|" $a.enforcementIgnoredParts }}"} == 0
    or sidecar_build_info unless on (namespace, pod) sidecar_enforcement_part
  # It is so from the start or not at all. Where no launch can be confined, the startup probe ends the container after a minute, so it
  # is seen for a scrape or two at a time.
  keep_firing_for: 10m
  labels: { severity: critical }
  annotations:
    summary: A part of the sandbox is not enforced
    description: >-
      {{`{{ $labels.namespace }}/{{ $labels.pod }} {{ if $labels.part }}does not enforce {{ $labels.part }} in full{{ else }}has no
      sandbox, and starts no command{{ end }}`}}: its node's kernel, or its runtime class, lacks what is needed.
- alert: SandboxOomLoop
  expr: increase(sidecar_oom_kills_total[15m]) >= {{ $a.oomKills }}
  labels: { severity: warning }
  annotations:
    summary: Processes are ended for lack of memory again and again
    description: >-
      {{`{{ $labels.namespace }}/{{ $labels.pod }}`}}: {{`{{ $value | humanize }}`}} within 15 minutes.
- alert: SandboxWorkspaceFull
  expr: namespace_pod:sidecar_workspace:used_ratio > {{ divf $a.workspacePercent 100 }}
  for: 5m
  labels: { severity: warning }
  annotations:
    summary: A workspace is nearly full
    description: >-
      The workspace of {{`{{ $labels.namespace }}/{{ $labels.pod }}`}} is {{`{{ $value | humanizePercentage }}`}} full.
- alert: SandboxAuditLoss
  expr: sum by (namespace, pod, outcome) (increase(sidecar_audit_events_total{outcome=~"dropped|failed"}[10m])) > 0
  labels: { severity: critical }
  annotations:
    summary: Audit events are lost
    description: >-
      {{`{{ $labels.namespace }}/{{ $labels.pod }}`}}: {{`{{ $value | humanize }}`}} audit events
      {{`{{ $labels.outcome }}`}} within 10 minutes.
- alert: SandboxAuthFailures
  expr: sum by (namespace, pod) (increase(sidecar_auth_failures_total[5m])) >= {{ $a.authFailures }}
  labels: { severity: warning }
  annotations:
    summary: Clients are refused for their token
    description: >-
      {{`{{ $labels.namespace }}/{{ $labels.pod }}`}} refused {{`{{ $value | humanize }}`}} clients within 5 minutes.
- alert: SandboxAtLimit
  expr: sum by (namespace, pod, reason) (increase(sidecar_rejected_total{reason=~"connections|sessions|processes"}[10m])) > 0
  labels: { severity: warning }
  annotations:
    summary: A workspace is at its limit
    description: >-
      {{`{{ $labels.namespace }}/{{ $labels.pod }}`}} refuses more {{`{{ $labels.reason }}`}}.
- alert: SandboxTargetAbsent
  # Of the sidecars alone: an agent's client serves metrics only while it runs.
  expr: up{job="{{ include "monitoring.job" . }}",container="sidecar"} == 0 or absent(up{job="{{ include "monitoring.job" . }}",container="sidecar"})
  for: {{ $a.absentFor }}
  labels: { severity: critical }
  annotations:
    summary: A workspace cannot be scraped
    description: >-
      {{`{{ if $labels.pod }}{{ $labels.namespace }}/{{ $labels.pod }} does not answer{{ else }}No workspace at all answers{{ end }}`}}
      Prometheus.
{{- end }}
