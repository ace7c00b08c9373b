{{- /* Templates that the pods of score and report share. */ -}}
{{- define "gpuctl.image" -}}
{{ if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}{{ else }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end -}}

{{- define "gpuctl.pod" -}}
serviceAccountName: gpuctl
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  seccompProfile: {type: RuntimeDefault}
volumes:
  - name: settings
    secret: {secretName: {{ .Values.configSecret | default "gpuctl" }}}
{{- end -}}

{{- define "gpuctl.container" -}}
image: {{ include "gpuctl.image" . }}
envFrom:
  - secretRef: {name: {{ .Values.prometheusSecret }}, optional: true}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: settings, mountPath: /etc/gpuctl, readOnly: true}
{{- end -}}
