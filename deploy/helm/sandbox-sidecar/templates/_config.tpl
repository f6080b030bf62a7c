{{/* One TOML value. Numbers of values files are floats in templates: toToml would write 64 as 64.0. */}}
{{- define "sandbox-sidecar.tomlValue" -}}
{{- if kindIs "float64" . }}{{ int64 . }}{{ else }}{{ toJson . }}{{ end }}
{{- end }}

{{/* A map as lines of TOML, whose dotted keys stand for its tables. */}}
{{- define "sandbox-sidecar.tomlLines" -}}
{{- range $key, $value := .map }}
{{- if kindIs "map" $value }}
{{- include "sandbox-sidecar.tomlLines" (dict "prefix" (printf "%s%s." $.prefix $key) "map" $value) }}
{{- else }}
{{ $.prefix }}{{ $key }} = {{ include "sandbox-sidecar.tomlValue" $value }}
{{- end }}
{{- end }}
{{- end }}

{{- define "sandbox-sidecar.sidecarToml" -}}
{{- $api := ternary .Values.service.bindAddress (include "sandbox-sidecar.loopback" .) .Values.service.enabled -}}
{{- $listen := list (printf "ws://%s" (include "sandbox-sidecar.at" (dict "address" $api "port" .Values.sidecar.port))) -}}
{{- if .Values.sidecar.unixSocket }}
{{- $listen = append $listen (printf "unix://%s" (include "sandbox-sidecar.socket" .)) }}
{{- end -}}
{{- $config := deepCopy .Values.sidecar.config -}}
{{- $writeRoots := default list $config.writeRoots -}}
{{- if .Values.home.writable }}{{ $writeRoots = prepend $writeRoots .Values.home.path }}{{ end -}}
{{- if $writeRoots }}{{ $_ := set $config "writeRoots" $writeRoots }}{{ end -}}
listen = {{ toJson $listen }}
adminListen = {{ include "sandbox-sidecar.at" (dict "address" .Values.service.bindAddress "port" .Values.sidecar.adminPort) | quote }}
workspaceRoot = {{ .Values.workspace.path | quote }}
stateDir = {{ include "sandbox-sidecar.stateDir" . | quote }}
{{- if eq .Values.auth.mode "existingSecret" }}
tokenFile = {{ include "sandbox-sidecar.tokenFile" . | quote }}
{{- end }}
umask = {{ .Values.umask | quote }}
{{- include "sandbox-sidecar.tomlLines" (dict "prefix" "" "map" $config) }}
{{- end }}

{{- define "sandbox-sidecar.clientToml" -}}
sidecar_url = "ws://{{ include "sandbox-sidecar.at" (dict "address" (include "sandbox-sidecar.loopback" .) "port" .Values.sidecar.port) }}"
token_file = {{ include "sandbox-sidecar.tokenFile" . | quote }}
local_root = {{ .Values.workspace.path | quote }}
workspace_root = {{ .Values.workspace.path | quote }}
client_name = {{ .Release.Name | quote }}
{{- if and .Values.agent.metricsPort (not .Values.agent.codex) }}
metrics_listen = {{ include "sandbox-sidecar.agentMetrics" . | quote }}
{{- end }}
{{- end }}

{{- define "sandbox-sidecar.agentMetrics" -}}
{{- include "sandbox-sidecar.at" (dict "address" .Values.service.bindAddress "port" .Values.agent.metricsPort) }}
{{- end }}

{{/* The stock CLI starts the gateway itself and speaks to it over stdio: no port is open to launches. The gateway serves
     the metrics, and not each `agent-client exec` that the agent may run beside it: one port is for one process. */}}
{{- define "sandbox-sidecar.environmentsToml" -}}
default = "workspace"
include_local = false

[[environments]]
id = "workspace"
program = "{{ .Values.tools.path }}/agent-client"
args = ["gateway", "--config", "/etc/agent-client/agent-client.toml"{{ if .Values.agent.metricsPort }}, "--metrics-listen", {{ include "sandbox-sidecar.agentMetrics" . | quote }}{{ end }}]
{{- end }}

{{- define "sandbox-sidecar.cloneScript" -}}
set -eu
cd "$WORKSPACE"
if [ -e .git ]; then
    echo "there is a repository already; it is left as it is"
    exit 0
fi
# .git comes last, in one step: a clone that was interrupted is done again.
rm -rf .clone
set -- git
[ -z "$CREDENTIALS" ] || set -- "$@" -c "credential.helper=store --file=$CREDENTIALS"
set -- "$@" clone
[ -z "$REF" ] || set -- "$@" "--branch=$REF"
[ "$DEPTH" = 0 ] || set -- "$@" "--depth=$DEPTH"
"$@" -- "$URL" .clone
for entry in .clone/* .clone/.[!.]* .clone/..?*; do
    [ "$entry" != .clone/.git ] || continue
    if [ -e "$entry" ] || [ -L "$entry" ]; then
        cp -a "$entry" .
    fi
done
mv .clone/.git .git
rm -rf .clone
{{- end }}
