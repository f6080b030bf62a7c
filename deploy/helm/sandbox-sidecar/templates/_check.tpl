{{/* `sandbox-sidecar check`, confined as the workspace's own container is. */}}
{{- define "sandbox-sidecar.container.check" -}}
- name: check
  image: {{ include "sandbox-sidecar.image" . | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [{{ include "sandbox-sidecar.installed" . }}/sandbox-sidecar]
  args: [check, --workspace-root, {{ .Values.workspace.path }}{{ with .Values.sidecar.config.ceiling }}, --ceiling, {{ . }}{{ end }}{{ with .Values.sidecar.config.profile }}, --profile, {{ . }}{{ end }}]
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
