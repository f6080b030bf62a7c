{{/* The containers of the workspace pod. One partial each, so that native and plain sidecars are the same text. */}}

{{- define "sandbox-sidecar.filesMounts" -}}
{{- if .Values.passwd }}
- { name: files, mountPath: /etc/passwd, subPath: passwd, readOnly: true }
- { name: files, mountPath: /etc/group, subPath: group, readOnly: true }
{{- end }}
{{- if .Values.gitSafeDirectory }}
- { name: files, mountPath: /etc/gitconfig, subPath: gitconfig, readOnly: true }
{{- end }}
{{- end }}

{{- define "sandbox-sidecar.probe" -}}
httpGet: { path: {{ .path }}, port: admin }
{{ toYaml .probe }}
{{- end }}

{{- define "sandbox-sidecar.container.sidecar" -}}
- name: sidecar
  {{- if include "sandbox-sidecar.isNative" . }}
  restartPolicy: Always
  {{- end }}
  image: {{ default (include "sandbox-sidecar.image" .) .Values.tools.image | quote }}
  imagePullPolicy: {{ ternary .Values.tools.pullPolicy .Values.image.pullPolicy (ne .Values.tools.image "") }}
  command: [{{ include "sandbox-sidecar.binDir" . }}/sandbox-sidecar]
  args: [serve]
  workingDir: {{ .Values.workspace.path }}
  env:
    - { name: HOME, value: {{ .Values.home.path | quote }} }
    # For whatever is run in this container by kubectl exec too.
    - { name: SANDBOX_SIDECAR_CONFIG, value: /etc/sandbox-sidecar/sidecar.toml }
    {{- with .Values.sidecar.extraEnv }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  ports:
    {{- if .Values.service.enabled }}
    - { name: api, containerPort: {{ .Values.sidecar.port }}, protocol: TCP }
    {{- end }}
    - { name: admin, containerPort: {{ .Values.sidecar.adminPort }}, protocol: TCP }
  startupProbe:
    {{- include "sandbox-sidecar.probe" (dict "path" "/readyz" "probe" .Values.sidecar.startupProbe) | nindent 4 }}
  livenessProbe:
    {{- include "sandbox-sidecar.probe" (dict "path" "/livez" "probe" .Values.sidecar.livenessProbe) | nindent 4 }}
  readinessProbe:
    {{- include "sandbox-sidecar.probe" (dict "path" "/readyz" "probe" .Values.sidecar.readinessProbe) | nindent 4 }}
  resources:
    {{- toYaml .Values.sidecar.resources | nindent 4 }}
  securityContext:
    {{- toYaml .Values.securityContext | nindent 4 }}
  volumeMounts:
    - { name: workspace, mountPath: {{ .Values.workspace.path | quote }} }
    - { name: home, mountPath: {{ .Values.home.path | quote }} }
    - { name: tmp, mountPath: /tmp }
    - { name: state, mountPath: {{ include "sandbox-sidecar.stateDir" . }} }
    - { name: config, mountPath: /etc/sandbox-sidecar, readOnly: true }
    {{- if eq .Values.auth.mode "existingSecret" }}
    - { name: auth, mountPath: {{ include "sandbox-sidecar.secretDir" . }}, readOnly: true }
    {{- end }}
    {{- if .Values.tools.image }}
    - { name: tools, mountPath: {{ .Values.tools.path | quote }}, readOnly: true }
    {{- end }}
    {{- include "sandbox-sidecar.filesMounts" . | nindent 4 }}
    {{- with .Values.sidecar.extraVolumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{- define "sandbox-sidecar.container.agent" -}}
- name: agent
  image: {{ .Values.agent.image | quote }}
  imagePullPolicy: {{ .Values.agent.pullPolicy }}
  {{- with .Values.agent.command }}
  command: {{ toJson . }}
  {{- end }}
  {{- with .Values.agent.args }}
  args: {{ toJson . }}
  {{- end }}
  workingDir: {{ .Values.workspace.path }}
  {{- if .Values.agent.tty }}
  stdin: true
  tty: true
  {{- end }}
  env:
    - { name: HOME, value: {{ .Values.agent.home | quote }} }
    - { name: AGENT_CLIENT_CONFIG, value: /etc/agent-client/agent-client.toml }
    {{- if .Values.agent.codex }}
    - { name: CODEX_HOME, value: "{{ .Values.agent.home }}/.codex" }
    {{- end }}
    {{- with .Values.agent.env }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.agent.envFrom }}
  envFrom:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if .Values.agent.metricsPort }}
  ports:
    - { name: agent-metrics, containerPort: {{ .Values.agent.metricsPort }}, protocol: TCP }
  {{- end }}
  resources:
    {{- toYaml .Values.agent.resources | nindent 4 }}
  securityContext:
    {{- toYaml (merge (deepCopy .Values.agent.securityContext) .Values.securityContext) | nindent 4 }}
  volumeMounts:
    - { name: workspace, mountPath: {{ .Values.workspace.path | quote }} }
    - { name: agent-home, mountPath: {{ .Values.agent.home | quote }} }
    - { name: agent-tmp, mountPath: /tmp }
    - { name: agent-config, mountPath: /etc/agent-client, readOnly: true }
    {{- if eq .Values.auth.mode "existingSecret" }}
    - { name: agent-auth, mountPath: {{ include "sandbox-sidecar.secretDir" . }}, readOnly: true }
    {{- else }}
    - { name: state, mountPath: {{ include "sandbox-sidecar.stateDir" . }}, readOnly: true }
    {{- end }}
    {{- if .Values.agent.codex }}
    - { name: agent-codex, mountPath: "{{ .Values.agent.home }}/.codex" }
    - { name: agent-config, mountPath: "{{ .Values.agent.home }}/.codex/environments.toml", subPath: environments.toml, readOnly: true }
    {{- end }}
    {{- if .Values.agent.installClient }}
    - { name: tools, mountPath: {{ .Values.tools.path | quote }}, readOnly: true }
    {{- end }}
    {{- include "sandbox-sidecar.filesMounts" . | nindent 4 }}
    {{- with .Values.agent.extraVolumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{- define "sandbox-sidecar.container.install" -}}
- name: install
  image: {{ include "sandbox-sidecar.image" . | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [{{ include "sandbox-sidecar.installed" . }}/sandbox-sidecar]
  args: [install, {{ .Values.tools.path }}/]
  resources:
    requests: { cpu: 10m, memory: 32Mi }
    limits: { memory: 128Mi }
  securityContext:
    {{- toYaml .Values.securityContext | nindent 4 }}
  volumeMounts:
    - { name: tools, mountPath: {{ .Values.tools.path | quote }} }
{{- end }}

{{- define "sandbox-sidecar.container.clone" -}}
- name: clone
  {{- $own := default (include "sandbox-sidecar.image" .) .Values.tools.image }}
  image: {{ default $own .Values.workspace.git.image | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [/bin/sh, -c]
  args:
    - |
      {{- include "sandbox-sidecar.cloneScript" . | nindent 6 }}
  env:
    - { name: HOME, value: /tmp }
    - { name: WORKSPACE, value: {{ .Values.workspace.path | quote }} }
    - { name: URL, value: {{ .Values.workspace.git.url | quote }} }
    - { name: REF, value: {{ .Values.workspace.git.ref | quote }} }
    - { name: DEPTH, value: {{ .Values.workspace.git.depth | quote }} }
    - { name: CREDENTIALS, value: {{ ternary "/run/git/credentials" "" (ne .Values.workspace.git.existingSecret "") | quote }} }
    - { name: GIT_TERMINAL_PROMPT, value: "0" }
  resources:
    {{- toYaml .Values.workspace.git.resources | nindent 4 }}
  securityContext:
    {{- toYaml .Values.securityContext | nindent 4 }}
  volumeMounts:
    - { name: workspace, mountPath: {{ .Values.workspace.path | quote }} }
    - { name: tmp, mountPath: /tmp }
    {{- if .Values.workspace.git.existingSecret }}
    - { name: git-credentials, mountPath: /run/git, readOnly: true }
    {{- end }}
    {{- include "sandbox-sidecar.filesMounts" . | nindent 4 }}
{{- end }}

{{/* What the pods of this chart have in common, hooks among them. */}}
{{- define "sandbox-sidecar.podBasics" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.serviceAccountName }}
serviceAccountName: {{ . }}
{{- end }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- end }}

{{/* The token that a client sends: not the others', where the Secret has it under a key of its own. */}}
{{- define "sandbox-sidecar.agentAuth" -}}
- name: agent-auth
  secret:
    secretName: {{ .Values.auth.existingSecret.name }}
    defaultMode: 0440
    items: [{ key: {{ default .Values.auth.existingSecret.key .Values.auth.existingSecret.agentKey | quote }}, path: token }]
{{- end }}

{{- define "sandbox-sidecar.volumes" -}}
- name: workspace
  {{- if eq .Values.workspace.type "persistentVolumeClaim" }}
  persistentVolumeClaim: { claimName: {{ include "sandbox-sidecar.claim" . }} }
  {{- else }}
  emptyDir: { sizeLimit: {{ .Values.workspace.sizeLimit }} }
  {{- end }}
- { name: home, emptyDir: { sizeLimit: {{ .Values.home.sizeLimit }} } }
- { name: tmp, emptyDir: { sizeLimit: {{ .Values.tmp.sizeLimit }} } }
- { name: state, emptyDir: { medium: Memory, sizeLimit: 1Mi } }
- name: config
  configMap:
    name: {{ include "sandbox-sidecar.fullname" . }}
    items: [{ key: sidecar.toml, path: sidecar.toml }]
{{- if or .Values.passwd .Values.gitSafeDirectory }}
- name: files
  configMap:
    name: {{ include "sandbox-sidecar.fullname" . }}
    items:
      {{- if .Values.passwd }}
      - { key: passwd, path: passwd }
      - { key: group, path: group }
      {{- end }}
      {{- if .Values.gitSafeDirectory }}
      - { key: gitconfig, path: gitconfig }
      {{- end }}
{{- end }}
{{- if eq .Values.auth.mode "existingSecret" }}
- name: auth
  secret:
    secretName: {{ .Values.auth.existingSecret.name }}
    defaultMode: 0440
    items: [{ key: {{ .Values.auth.existingSecret.key | quote }}, path: token }]
{{- end }}
{{- if include "sandbox-sidecar.needsInstall" . }}
- { name: tools, emptyDir: { sizeLimit: 256Mi } }
{{- end }}
{{- if .Values.workspace.git.existingSecret }}
- name: git-credentials
  secret:
    secretName: {{ .Values.workspace.git.existingSecret }}
    defaultMode: 0440
    items: [{ key: credentials, path: credentials }]
{{- end }}
{{- if .Values.agent.image }}
- { name: agent-home, emptyDir: { sizeLimit: {{ .Values.agent.homeSizeLimit }} } }
- { name: agent-tmp, emptyDir: { sizeLimit: {{ .Values.agent.homeSizeLimit }} } }
- name: agent-config
  configMap:
    name: {{ include "sandbox-sidecar.fullname" . }}
    items:
      - { key: agent-client.toml, path: agent-client.toml }
      {{- if .Values.agent.codex }}
      - { key: environments.toml, path: environments.toml }
      {{- end }}
{{- if eq .Values.auth.mode "existingSecret" }}
{{ include "sandbox-sidecar.agentAuth" . }}
{{- end }}
{{- if .Values.agent.codex }}
- { name: agent-codex, emptyDir: { sizeLimit: {{ .Values.agent.homeSizeLimit }} } }
{{- end }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
