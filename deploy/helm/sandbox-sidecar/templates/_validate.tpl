{{/* Values that contradict each other, each with a sentence that says what to do. What a schema can say is in it. */}}
{{- define "sandbox-sidecar.validate" -}}
{{- $v := .Values }}
{{- if and (eq $v.auth.mode "existingSecret") (not $v.auth.existingSecret.name) }}
{{- fail "auth.mode is existingSecret, but auth.existingSecret.name is empty: name the Secret that holds the tokens" }}
{{- end }}
{{- if and (eq $v.auth.mode "podLocal") $v.auth.existingSecret.name }}
{{- fail "auth.existingSecret.name is set, but auth.mode is podLocal: set auth.mode to existingSecret, or leave the name out" }}
{{- end }}
{{- if and (eq $v.auth.mode "podLocal") $v.auth.existingSecret.agentKey }}
{{- fail "auth.existingSecret.agentKey is set, but auth.mode is podLocal, which has no Secret: set auth.mode to existingSecret, or leave the key out" }}
{{- end }}
{{- if and $v.service.enabled (ne $v.auth.mode "existingSecret") }}
{{- fail "service.enabled needs auth.mode=existingSecret: the token of podLocal never leaves the pod, so no peer could connect" }}
{{- end }}
{{- if and $v.networkPolicy.apiFrom (not $v.service.enabled) }}
{{- fail "networkPolicy.apiFrom is set, but the API listens on loopback alone: set service.enabled, or leave networkPolicy.apiFrom empty" }}
{{- end }}
{{- if and (not $v.networkPolicy.enabled) (or $v.networkPolicy.apiFrom $v.networkPolicy.extraEgress) }}
{{- fail "rules of networkPolicy are set, but networkPolicy.enabled is false, so nothing is restricted: enable it, or leave apiFrom and extraEgress out" }}
{{- end }}
{{- if and (not $v.agent.image) (or $v.agent.command $v.agent.args $v.agent.env $v.agent.envFrom $v.agent.extraVolumeMounts $v.agent.metricsPort) }}
{{- fail "values of agent are set, but agent.image is empty, so there is no agent: set agent.image, or leave them out" }}
{{- end }}
{{- if and $v.agent.image $v.agent.codex (not $v.agent.installClient) }}
{{- fail "agent.codex needs agent.installClient: environments.toml names the agent-client in tools.path; set agent.codex=false if the agent brings its own" }}
{{- end }}
{{- if and $v.workspace.git.url $v.networkPolicy.enabled (eq $v.networkPolicy.egress "none") (not $v.networkPolicy.extraEgress) }}
{{- fail "workspace.git.url cannot be cloned with networkPolicy.egress=none: allow the git server in networkPolicy.extraEgress, or leave the URL out" }}
{{- end }}
{{- if and (not $v.workspace.git.url) (or $v.workspace.git.ref $v.workspace.git.existingSecret $v.workspace.git.image $v.workspace.git.depth) }}
{{- fail "values of workspace.git are set, but workspace.git.url is empty, so nothing is cloned: set the URL, or leave them out" }}
{{- end }}
{{- if and (ne $v.workspace.type "persistentVolumeClaim") $v.workspace.persistentVolumeClaim.existingClaim }}
{{- fail "workspace.persistentVolumeClaim.existingClaim is set, but workspace.type is emptyDir: set workspace.type to persistentVolumeClaim" }}
{{- end }}
{{- $ports := list (int $v.sidecar.port) (int $v.sidecar.adminPort) }}
{{- if $v.agent.metricsPort }}{{ $ports = append $ports (int $v.agent.metricsPort) }}{{ end }}
{{- if ne (len $ports) (len (uniq $ports)) }}
{{- fail "sidecar.port, sidecar.adminPort and agent.metricsPort share the pod's network and must differ" }}
{{- end }}
{{- $limits := default dict $v.sidecar.config.limits }}
{{- /* What a shutdown takes at most: the grace, 10 s for what was killed to be gone, 2 s for the last frames. */}}
{{- $end := add (default 2 $limits.terminateGraceSeconds) 12 }}
{{- if le (int $v.terminationGracePeriodSeconds) (int $end) }}
{{- fail (printf "terminationGracePeriodSeconds is %d, but the sidecar may need %d seconds to end what runs (limits.terminateGraceSeconds and 12 seconds): raise it above that" (int $v.terminationGracePeriodSeconds) (int $end)) }}
{{- end }}
{{- $paths := list $v.workspace.path $v.home.path $v.tools.path $v.agent.home "/tmp" "/run" "/etc/sandbox-sidecar" "/etc/agent-client" }}
{{- range $i, $a := $paths }}{{ range $j, $b := $paths }}
{{- if and (ne $i $j) (or (eq $a $b) (hasPrefix (printf "%s/" $a) $b)) }}
{{- fail (printf "%s and %s lie in one another: workspace.path, home.path, tools.path and agent.home must be apart from each other, and from /tmp, /run and /etc" $a $b) }}
{{- end }}
{{- end }}{{ end }}
{{- /* By volume, a pod is evicted for the volume that is full, and its event names it; by the containers' limits, for the sum. */}}
{{- $use := 0.0 }}
{{- range include "sandbox-sidecar.volumes" . | fromYamlArray }}
{{- with .emptyDir }}
{{- /* What is in memory counts as memory. */}}
{{- if and .sizeLimit (ne (default "" .medium) "Memory") }}{{ $use = addf $use (include "sandbox-sidecar.mebibytes" .sizeLimit) }}{{ end }}
{{- end }}
{{- end }}
{{- $allowed := 0.0 }}
{{- $containers := concat (list $v.sidecar) (ternary (list $v.agent) list (ne $v.agent.image "")) $v.extraContainers }}
{{- /* An init container that ends has ended by the time the others run. */}}
{{- range $v.extraInitContainers }}{{ if eq (default "" .restartPolicy) "Always" }}{{ $containers = append $containers . }}{{ end }}{{ end }}
{{- range $containers }}
{{- with .resources }}{{ with .limits }}{{ with index . "ephemeral-storage" }}{{ $allowed = addf $allowed (include "sandbox-sidecar.mebibytes" .) }}{{ end }}{{ end }}{{ end }}
{{- end }}
{{- if and $allowed (gt $use $allowed) }}
{{- fail (printf "the emptyDirs of the pod may hold %.0f MiB in all, but its containers' limits of ephemeral-storage are %.0f MiB, by which it is evicted before: raise sidecar.resources.limits.ephemeral-storage (or the agent's), or lower workspace.sizeLimit, home.sizeLimit, tmp.sizeLimit and agent.homeSizeLimit" $use $allowed) }}
{{- end }}
{{- if and $v.passwd (not $v.podSecurityContext.runAsUser) }}
{{- fail "passwd needs podSecurityContext.runAsUser: its entry is for that uid; set passwd=false where the cluster picks the uid" }}
{{- end }}
{{- if and $v.preflight.nodeSelectors (not $v.preflight.enabled) }}
{{- fail "preflight.nodeSelectors is set, but preflight.enabled is false: enable it, or leave the selectors out" }}
{{- end }}
{{- end }}
