{{/* `sandbox-sidecar check`, confined as the workspace's own container is. */}}
{{- define "sandbox-sidecar.container.check" -}}
- name: check
  image: {{ include "sandbox-sidecar.image" . | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [{{ include "sandbox-sidecar.installed" . }}/sandbox-sidecar]
  {{- /* The config is not there yet where this runs before the release, so of the profiles it knows those that are built in. */}}
  {{- $args := list "check" "--workspace-root" .Values.workspace.path }}
  {{- range $flag, $name := dict "--ceiling" .Values.sidecar.config.ceiling "--profile" .Values.sidecar.config.profile }}
  {{- if and $name (has $name (list "readOnly" "workspaceWriteNoNetwork" "workspaceWrite" "none")) }}{{ $args = concat $args (list $flag $name) }}{{ end }}
  {{- end }}
  args: [{{ join ", " $args }}]
  workingDir: {{ .Values.workspace.path }}
  resources:
    requests: { cpu: 10m, memory: 32Mi }
    limits: { memory: 128Mi }
  securityContext:
    {{- toYaml .Values.securityContext | nindent 4 }}
  volumeMounts:
    - { name: workspace, mountPath: {{ .Values.workspace.path | quote }} }
    - { name: tmp, mountPath: /tmp }
{{- end }}

{{- define "sandbox-sidecar.checkVolumes" -}}
- { name: workspace, emptyDir: { sizeLimit: 16Mi } }
- { name: tmp, emptyDir: { sizeLimit: 16Mi } }
{{- end }}
