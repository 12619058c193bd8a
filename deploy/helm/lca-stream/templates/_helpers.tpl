{{- define "lca-stream.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* Names of at most 52 characters: the longest of what is added is "-transform". They are names of Services too, and so
have no dots, which a release may have, and begin with a letter. */ -}}
{{- define "lca-stream.fullname" -}}
{{- $name := include "lca-stream.ownname" . | replace "." "-" }}
{{- if not (regexMatch "^[a-z]" $name) }}
{{- fail (printf "%q cannot be the name of a Service, which begins with a letter: set fullnameOverride" $name) }}
{{- end }}
{{- $name }}
{{- end }}

{{- define "lca-stream.ownname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "lca-stream.selectorLabels" -}}
app.kubernetes.io/name: {{ include "lca-stream.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "lca-stream.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "lca-stream.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "lca-stream.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "lca-stream.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "lca-stream.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end }}
{{- end }}

{{- /* The configuration of the pods: the values, and where the mounted secrets are. */ -}}
{{- define "lca-stream.config" -}}
{{- $config := deepCopy .Values.config }}
{{- if ((($config.kafka).sasl).password) }}
{{- fail "config.kafka.sasl.password would stand in a ConfigMap: put it into a Secret and set auth.existingSecret" }}
{{- end }}
{{- if (((($config.kafka).sasl).oauth).client_secret) }}
{{- fail "config.kafka.sasl.oauth.client_secret would stand in a ConfigMap: put it into a Secret and set auth.existingSecret" }}
{{- end }}
{{- if .Values.auth.existingSecret }}
{{- $file := printf "/etc/lca-stream/auth/%s" .Values.auth.passwordKey }}
{{- $login := dict "password_file" $file }}
{{- if eq "oauthbearer" ((($config.kafka).sasl).mechanism | default "") }}
{{- $login = dict "oauth" (dict "client_secret_file" $file) }}
{{- end }}
{{- $_ := set $config "kafka" (merge (dict "sasl" $login) (default dict $config.kafka)) }}
{{- end }}
{{- if (($config.source).registry).password }}
{{- fail "config.source.registry.password would stand in a ConfigMap: put it into a Secret and set registry.existingSecret" }}
{{- end }}
{{- if .Values.registry.existingSecret }}
{{- $registry := dict }}
{{- with .Values.registry.passwordKey }}
{{- $_ := set $registry "password_file" (printf "/etc/lca-stream/registry/%s" .) }}
{{- end }}
{{- with .Values.registry.caKey }}
{{- $_ := set $registry "ca_file" (printf "/etc/lca-stream/registry/%s" .) }}
{{- end }}
{{- $_ := set $config "source" (merge (dict "registry" $registry) (default dict $config.source)) }}
{{- end }}
{{- if .Values.tls.existingSecret }}
{{- $tls := dict "enabled" true "ca_file" "/etc/lca-stream/tls/ca.crt" }}
{{- if .Values.tls.client }}
{{- $_ := set $tls "cert_file" "/etc/lca-stream/tls/tls.crt" }}
{{- $_ := set $tls "key_file" "/etc/lca-stream/tls/tls.key" }}
{{- end }}
{{- $_ := set $config "kafka" (merge (dict "tls" $tls) (default dict $config.kafka)) }}
{{- end }}
{{- toYaml $config }}
{{- end }}

{{- /* The brokers of the configuration, as a JSON list: it may be a scalar there, split at commas. */ -}}
{{- define "lca-stream.brokers" -}}
{{- $brokers := (.Values.config.kafka).brokers | default (list "localhost:9092") }}
{{- if kindIs "string" $brokers }}
{{- $brokers = splitList "," $brokers }}
{{- end }}
{{- $trimmed := list }}
{{- range $brokers }}
{{- $trimmed = append $trimmed (trim .) }}
{{- end }}
{{- toJson $trimmed }}
{{- end }}

{{- /* The ports that brokers are reached at, as a JSON list. A port that is not known here would be null in a
   NetworkPolicy, which opens every port: it is refused. */ -}}
{{- define "lca-stream.brokerPorts" -}}
{{- $ports := list }}
{{- range .Values.networkPolicy.brokerPorts }}
{{- $ports = append $ports (int .) }}
{{- else }}
{{- range include "lca-stream.brokers" . | fromJsonArray }}
{{- $port := regexFind ":[0-9]{1,5}$" . | trimPrefix ":" }}
{{- if or (contains "${" .) (not $port) (lt (atoi $port) 1) (gt (atoi $port) 65535) }}
{{- fail (printf "networkPolicy: the port of broker %q is not known to the chart: set networkPolicy.brokerPorts" .) }}
{{- end }}
{{- $ports = append $ports (atoi $port) }}
{{- end }}
{{- end }}
{{- $ports | uniq | toJson }}
{{- end }}

{{- /* The port that the pods listen on. */ -}}
{{- define "lca-stream.port" -}}
{{- $listen := (.Values.config.http).listen | default "" }}
{{- $port := regexFind "[0-9]+$" $listen }}
{{- if or (not $port) (eq $port "0") (hasPrefix "127." $listen) (hasPrefix "localhost" $listen) }}
{{- fail (printf "config.http.listen is %q: the probes need an address that other hosts reach, such as 0.0.0.0:8095" $listen) }}
{{- end }}
{{- $port }}
{{- end }}

{{- /* What runs the transform. */ -}}
{{- define "lca-stream.transformKind" -}}
{{- $several := or (gt (int .Values.transform.replicas) 1) .Values.autoscaling.enabled .Values.keda.enabled }}
{{- if and ((.Values.config.source).partitions) $several }}
{{- fail "config.source.partitions is set, so each pod would take the same partitions from the others: use one replica without autoscaling, or leave it out" }}
{{- end }}
{{- .Values.transform.kind | default "Deployment" }}
{{- end }}

{{- /* "true" where there is a model for each value, so that several learners share the work. */ -}}
{{- define "lca-stream.keyed" -}}
{{- if ne "none" (((.Values.config).model).by | default "none") }}true{{ end }}
{{- end }}

{{- /* Learners of a model for all rows, or whose partitions are written down, are one. */ -}}
{{- define "lca-stream.checkLearners" -}}
{{- $l := .Values.learner }}
{{- $scaled := or $l.autoscaling.enabled $l.keda.enabled }}
{{- $several := or (gt (int $l.replicas) 1) $scaled }}
{{- if and $several (not (include "lca-stream.keyed" .)) }}
{{- fail "learner.replicas, learner.autoscaling and learner.keda need config.model.by: a second learner of a model for all rows would take over from the first" }}
{{- end }}
{{- if and $l.autoscaling.enabled $l.keda.enabled }}
{{- fail "learner.autoscaling.enabled and learner.keda.enabled would scale the same pods: choose one" }}
{{- end }}
{{- if and $several ((.Values.config.source).partitions) }}
{{- fail "config.source.partitions is set, so each learner would take the same partitions from the others: use one replica without autoscaling, or leave it out" }}
{{- end }}
{{- if and $l.fromHistory (include "lca-stream.keyed" .) }}
{{- fail "learner.fromHistory is for a model for all rows, and config.model.by is set: leave it out" }}
{{- end }}
{{- end }}

{{- /* The brokers as KEDA takes them. */ -}}
{{- define "lca-stream.kedaBrokers" -}}
{{- $brokers := .Values.keda.bootstrapServers | default (include "lca-stream.brokers" . | fromJsonArray | join ",") }}
{{- if contains "${" $brokers }}
{{- fail (printf "keda: brokers %q are not known to KEDA: set keda.bootstrapServers" $brokers) }}
{{- end }}
{{- $brokers }}
{{- end }}

{{- /* One pod of a role: (dict "root" . "role" "transform" "values" .Values.transform) */ -}}
{{- define "lca-stream.pod" -}}
{{- $root := .root }}
{{- $stays := ne .role "topics" }}
{{- range list "name" "instance" "component" }}
{{- if hasKey ($.values.podLabels | default dict) (printf "app.kubernetes.io/%s" .) }}
{{- fail (printf "podLabels has app.kubernetes.io/%s, which the chart sets: the selectors need it" .) }}
{{- end }}
{{- end }}
{{- if le (int $root.Values.terminationGracePeriodSeconds) 30 }}
{{- fail (printf "terminationGracePeriodSeconds is %v, and a stop may take 30 s: what is in flight would be killed" $root.Values.terminationGracePeriodSeconds) }}
{{- end }}
metadata:
  annotations:
    checksum/config: {{ include "lca-stream.config" $root | sha256sum }}
    {{- with .values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  labels:
    {{- include "lca-stream.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .role }}
    {{- with .values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- if $stays }}
  serviceAccountName: {{ include "lca-stream.serviceAccountName" $root }}
  terminationGracePeriodSeconds: {{ int64 $root.Values.terminationGracePeriodSeconds }}
  {{- else }}
  # It runs before the chart's own account exists, and asks nothing of Kubernetes.
  serviceAccountName: {{ ternary "default" (include "lca-stream.serviceAccountName" $root) $root.Values.serviceAccount.create }}
  restartPolicy: Never
  {{- end }}
  {{- with $root.Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with $root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- toYaml $root.Values.podSecurityContext | nindent 4 }}
  containers:
    - name: lca-stream
      image: {{ include "lca-stream.image" $root | quote }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      {{- if $stays }}
      args: [{{ .role | replace "learner" "learn" }}, -c, /etc/lca-stream/config/lca-stream.yaml{{ if .values.fromHistory }}, --from-history{{ end }}]
      {{- else }}
      args: [topics, init, -c, /etc/lca-stream/config/lca-stream.yaml, --replication, {{ .values.replication | quote }}]
      {{- end }}
      {{- with $root.Values.env }}
      env:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $root.Values.envFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if $stays }}
      ports:
        - name: http
          containerPort: {{ include "lca-stream.port" $root }}
      startupProbe:
        httpGet: {path: /ping, port: http}
        {{- toYaml $root.Values.probes.startup | nindent 8 }}
      livenessProbe:
        httpGet: {path: /ping, port: http}
        {{- toYaml $root.Values.probes.liveness | nindent 8 }}
      readinessProbe:
        httpGet: {path: /ready, port: http}
        {{- toYaml $root.Values.probes.readiness | nindent 8 }}
      {{- end }}
      resources:
        {{- toYaml .values.resources | nindent 8 }}
      securityContext:
        {{- toYaml $root.Values.securityContext | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/lca-stream/config, readOnly: true}
        {{- if $root.Values.auth.existingSecret }}
        - {name: auth, mountPath: /etc/lca-stream/auth, readOnly: true}
        {{- end }}
        {{- if $root.Values.registry.existingSecret }}
        - {name: registry, mountPath: /etc/lca-stream/registry, readOnly: true}
        {{- end }}
        {{- if $root.Values.tls.existingSecret }}
        - {name: tls, mountPath: /etc/lca-stream/tls, readOnly: true}
        {{- end }}
        {{- with $root.Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: config
      configMap: {name: {{ include "lca-stream.fullname" $root }}{{ if not $stays }}-topics{{ end }}}
    {{- with $root.Values.auth.existingSecret }}
    - name: auth
      secret: {secretName: {{ . }}, defaultMode: 0440}
    {{- end }}
    {{- with $root.Values.registry.existingSecret }}
    - name: registry
      secret: {secretName: {{ . }}, defaultMode: 0440}
    {{- end }}
    {{- with $root.Values.tls.existingSecret }}
    - name: tls
      secret: {secretName: {{ . }}, defaultMode: 0440}
    {{- end }}
    {{- with $root.Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
