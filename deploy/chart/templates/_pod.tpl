{{- /* Templates that the pods of score and report share. */ -}}
{{- define "gpuctl.name" -}}
{{ .Values.fullnameOverride | default "gpuctl" }}
{{- end -}}

{{- define "gpuctl.image" -}}
{{ if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}{{ else }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end -}}

{{- define "gpuctl.pod" -}}
serviceAccountName: {{ include "gpuctl.name" . }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  # Makes volumes writable for the user.
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "gpuctl.settings" -}}
- name: settings
  secret: {secretName: {{ .Values.configSecret | default (include "gpuctl.name" .) }}}
{{- end -}}

{{- define "gpuctl.container" -}}
image: {{ include "gpuctl.image" . }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}
