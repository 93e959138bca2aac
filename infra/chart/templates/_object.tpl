{{- define "capi-functions.labels" -}}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/instance: {{ .Release.Name }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* Not empty if a Cluster API core has brought its kinds; we have a Cluster, too, but no Machine. */ -}}
{{- define "capi-functions.core" -}}
{{- range .Capabilities.APIVersions }}{{ if regexMatch "^cluster[.]x-k8s[.]io/[^/]+/Machine$" . }}true{{ end }}{{ end }}
{{- end }}

{{- /* Sets the default of the value `profile`, which needs a look at the cluster, and returns nothing. */ -}}
{{- define "capi-functions.choose-profile" -}}
{{- if not .Values.profile }}
  {{- $_ := set .Values "profile" (ternary "addons-providers-kubeconfig" "all" (not (empty (include "capi-functions.core" .)))) }}
{{- end }}
{{- end }}

{{- define "capi-functions.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- /* A value as text: numbers and booleans as they are written. */ -}}
{{- define "capi-functions.text" -}}
{{ kindIs "string" . | ternary . (toJson .) }}
{{- end }}

{{- /* Not empty if the values name no store: then each pod of the mode `single` has a folder of its own. */ -}}
{{- define "capi-functions.folder" -}}
{{- $storage := .Values.settings.storage | default dict }}
{{- if not (or $storage.CAPI_FUNCTIONS_STORE $storage.S3_ENDPOINT_URL $storage.CAPI_FUNCTIONS_BUCKET) }}true{{ end }}
{{- end }}

{{- /* An object as the values want it, and the PodDisruptionBudget of a Deployment with several replicas. */ -}}
{{- define "capi-functions.object" -}}
{{- $object := .object }}
{{- $values := .root.Values }}
{{- $common := include "capi-functions.labels" .root | fromYaml }}
{{- $_ := set $object.metadata "labels" (merge (dict) ($object.metadata.labels | default dict) $common) }}
{{- if and (eq $object.kind "ServiceAccount") (ne $object.metadata.name "capi-functions-console") $values.serviceAccountAnnotations }}
  {{- $_ := set $object.metadata "annotations" $values.serviceAccountAnnotations }}
{{- end }}
{{- if eq $object.kind "Deployment" }}
  {{- include "capi-functions.deployment" . }}
{{- end }}
{{- if .serving }}
  {{- include "capi-functions.serving" . }}
{{- end }}
{{- with $values.broker }}
  {{- if eq $object.kind "Broker" }}
    {{- if .class }}{{ $_ := set $object.metadata.annotations "eventing.knative.dev/broker.class" .class }}{{ end }}
    {{- if .config }}{{ $_ := set $object.spec "config" .config }}{{ end }}
    {{- /* A sink is replaced as a whole, or left out by null: one with a reference and a URI is another one. */ -}}
    {{- if hasKey .delivery "deadLetterSink" }}{{ $_ := unset $object.spec.delivery "deadLetterSink" }}{{ end }}
    {{- $delivery := merge (dict) .delivery $object.spec.delivery }}
    {{- if not $delivery.deadLetterSink }}{{ $_ := unset $delivery "deadLetterSink" }}{{ end }}
    {{- $_ := set $object.spec "delivery" $delivery }}
  {{- end }}
  {{- if eq .class "NatsJetStreamBroker" }}
    {{- if eq $object.kind "Broker" }}
      {{- $_ := set $object.metadata.annotations "natsjetstream.eventing.knative.dev/config" (toJson .jetStream) }}
    {{- else if eq $object.kind "Trigger" }}
      {{- /* This class reads the delivery of Triggers only: without it an event that fails once is dropped. */ -}}
      {{- $_ := set $object.spec "delivery" $.broker.spec.delivery }}
    {{- else if and (eq $object.kind "NetworkPolicy") (eq $object.metadata.name "functions") }}
      {{- /* Its filter runs beside the Broker. */ -}}
      {{- $filter := dict "podSelector" (dict "matchLabels" (dict "eventing.knative.dev/broker" "capi-functions" "eventing.knative.dev/role" "filter")) }}
      {{- $rule := first $object.spec.ingress }}
      {{- $_ := set $rule "from" (append $rule.from $filter) }}
    {{- end }}
  {{- end }}
  {{- if and .ordered (eq $object.kind "Trigger") }}
    {{- $_ := set $object.metadata "annotations" (dict "kafka.eventing.knative.dev/delivery.order" "ordered") }}
  {{- end }}
{{- end }}
{{- toYaml $object }}
{{- if and (eq $object.kind "Deployment") $values.podDisruptionBudgets (gt (int ($object.spec.replicas | default 1)) 1) }}
---
{{ dict "metadata" (pick $object.metadata "name" "namespace" "labels") "spec" (pick $object.spec "selector") | merge (deepCopy .budget) | toYaml }}
{{- end }}
{{- end }}

{{- /* Changes a Deployment in its place, and returns nothing. */ -}}
{{- define "capi-functions.deployment" -}}
{{- $values := .root.Values }}
{{- $spec := .object.spec }}
{{- $pod := $spec.template.spec }}
{{- $name := .object.metadata.name }}
{{- /* The pod of the console has neither credentials nor traces: it handles the tokens of people. */ -}}
{{- $trusted := ne $name "capi-functions-console" }}
{{- $own := get $values.deployments (regexReplaceAll "^forwarder-[0-9]+$" $name "forwarder") | default dict }}
{{- $replicas := ternary $values.replicas nil (has $name .servers) }}
{{- if hasKey $own "replicas" }}{{ $replicas = $own.replicas }}{{ end }}
{{- if not (kindIs "invalid" $replicas) }}{{ $_ := set $spec "replicas" (int $replicas) }}{{ end }}
{{- $env := dict "LOG_LEVEL" $values.logLevel "LOG_FORMAT" $values.logFormat }}
{{- if has $name .servers }}{{ $env = merge $env .mode.env }}{{ end }}
{{- if eq $values.mode "single" }}
  {{- with get .parts $name }}{{ $_ := set $env "CAPI_FUNCTIONS_PROFILES" .setting }}{{ end }}
{{- end }}
{{- if and $values.namespaces (ne $name .providers) (hasKey $spec.selector.matchLabels "app.kubernetes.io/part-of") }}
  {{- $_ := set $env "CAPI_FUNCTIONS_NAMESPACES" (join "," $values.namespaces) }}
{{- end }}
{{- if and $values.watchFilter (hasKey $spec.selector.matchLabels "app.kubernetes.io/part-of") }}
  {{- $_ := set $env "CAPI_FUNCTIONS_WATCH_FILTER" $values.watchFilter }}
{{- end }}
{{- if and $trusted $values.webIdentity.roleARN }}
  {{- $folder := "/var/run/secrets/capi-functions" }}
  {{- $_ := set $env "AWS_ROLE_ARN" $values.webIdentity.roleARN }}
  {{- $_ := set $env "AWS_WEB_IDENTITY_TOKEN_FILE" (printf "%s/token" $folder) }}
  {{- $token := dict "serviceAccountToken" (dict "path" "token" "audience" $values.webIdentity.audience) }}
  {{- $volume := dict "name" "identity" "projected" (dict "sources" (list $token)) }}
  {{- $_ := set $pod "volumes" (append $pod.volumes $volume) }}
  {{- $mount := dict "name" "identity" "mountPath" $folder "readOnly" true }}
  {{- range $pod.containers }}{{ $_ := set . "volumeMounts" (append .volumeMounts $mount) }}{{ end }}
{{- end }}
{{- $headers := dict }}
{{- with $values.tracing }}
  {{- if and $trusted .endpoint }}
    {{- $_ := set $env "OTEL_EXPORTER_OTLP_ENDPOINT" .endpoint }}
    {{- $_ := set $env "OTEL_TRACES_SAMPLER" "parentbased_traceidratio" }}
    {{- $_ := set $env "OTEL_TRACES_SAMPLER_ARG" .ratio }}
    {{- with .secret }}{{ $headers = dict "name" . "key" "OTEL_EXPORTER_OTLP_HEADERS" }}{{ end }}
  {{- end }}
{{- end }}
{{- $env = mergeOverwrite $env $values.env }}
{{- range $pod.containers }}
  {{- $container := . }}
  {{- $_ := set . "image" (include "capi-functions.image" $.root) }}
  {{- with $values.image.pullPolicy }}{{ $_ := set $container "imagePullPolicy" . }}{{ end }}
  {{- $variables := list }}
  {{- range .env }}{{ if not (hasKey $env .name) }}{{ $variables = append $variables . }}{{ end }}{{ end }}
  {{- range $variable, $value := $env }}
    {{- $variables = append $variables (dict "name" $variable "value" (include "capi-functions.text" $value)) }}
  {{- end }}
  {{- with $headers }}
    {{- $variables = append $variables (dict "name" .key "valueFrom" (dict "secretKeyRef" .)) }}
  {{- end }}
  {{- $_ := set . "env" $variables }}
{{- end }}
{{- range $pod.containers }}
  {{- $container := . }}
  {{- if eq .name "forwarder" }}
    {{- $more := list }}
    {{- range $option := list "workers" "rate" "resync" }}
      {{- with get $values.forwarder $option }}{{ $more = append $more (printf "--%s=%d" $option (int .)) }}{{ end }}
    {{- end }}
    {{- with $more }}{{ $_ := set $container "args" (concat $container.args .) }}{{ end }}
    {{- with $values.forwarder.resources }}{{ $_ := set $container "resources" (merge (dict) . $container.resources) }}{{ end }}
  {{- end }}
{{- end }}
{{- with $own.resources }}
  {{- $first := first $pod.containers }}
  {{- $_ := set $first "resources" (merge (dict) . $first.resources) }}
{{- end }}
{{- with $values.image.pullSecrets }}{{ $_ := set $pod "imagePullSecrets" . }}{{ end }}
{{- with $values.priorityClassName }}{{ $_ := set $pod "priorityClassName" . }}{{ end }}
{{- with $values.nodeSelector }}{{ $_ := set $pod "nodeSelector" . }}{{ end }}
{{- with $values.tolerations }}{{ $_ := set $pod "tolerations" . }}{{ end }}
{{- with $values.affinity }}{{ $_ := set $pod "affinity" . }}{{ end }}
{{- $spread := list }}
{{- range $values.spreadOver }}
  {{- $constraint := dict "maxSkew" 1 "topologyKey" . "whenUnsatisfiable" "ScheduleAnyway" }}
  {{- $spread = append $spread (set $constraint "labelSelector" $spec.selector) }}
{{- end }}
{{- if and $spread (not (and .serving (has $name .servers))) }}
  {{- $_ := set $pod "topologySpreadConstraints" $spread }}
{{- end }}
{{- with $values.podAnnotations }}
  {{- $annotations := $spec.template.metadata.annotations | default dict }}
  {{- $_ := set $spec.template.metadata "annotations" (merge (dict) . $annotations) }}
{{- end }}
{{- end }}

{{- /* The Secret that cert-manager would write for the Certificate `wanted`: the one of the release, else a new one. */ -}}
{{- define "capi-functions.certificate" -}}
{{- $name := .wanted.spec.secretName }}
{{- $data := (lookup "v1" "Secret" .root.Release.Namespace $name).data }}
{{- if not (and (hasKey ($data | default dict) "ca.crt") (hasKey $data "tls.key")) }}
  {{- $names := .wanted.spec.dnsNames }}
  {{- $ca := genCA (printf "%s CA" $name) 3650 }}
  {{- $issued := genSignedCert (first $names) nil $names 3650 $ca }}
  {{- $data = dict "ca.crt" (b64enc $ca.Cert) "tls.crt" (b64enc $issued.Cert) "tls.key" (b64enc $issued.Key) }}
{{- end }}
{{- $metadata := dict "name" $name "namespace" .root.Release.Namespace }}
{{- dict "apiVersion" "v1" "kind" "Secret" "type" "kubernetes.io/tls" "metadata" $metadata "data" $data | toYaml }}
{{- end }}

{{- /* The Deployment or SinkBinding of the forwarder for one part of the namespaces: a list of object, part, parts. */ -}}
{{- define "capi-functions.shard" -}}
{{- $object := deepCopy (index . 0) }}
{{- $name := printf "forwarder-%d" (index . 1) }}
{{- $_ := set $object.metadata "name" $name }}
{{- $spec := $object.spec }}
{{- if eq $object.kind "SinkBinding" }}
  {{- $_ := set $spec.subject "name" $name }}
{{- else }}
  {{- $label := dict "capi-functions.dev/shard" (print (index . 1)) }}
  {{- range list $spec.selector.matchLabels $spec.template.metadata.labels }}{{ $_ := merge . $label }}{{ end }}
  {{- $container := first $spec.template.spec.containers }}
  {{- $_ := set $container "args" (append $container.args (printf "--shard=%d/%d" (index . 1) (index . 2))) }}
{{- end }}
{{- toYaml $object }}
{{- end }}

{{- /* Changes an object in its place for functions that are Knative Services, and returns nothing. */ -}}
{{- define "capi-functions.serving" -}}
{{- $object := .object }}
{{- $spec := $object.spec }}
{{- $serving := .serving }}
{{- $values := .root.Values }}
{{- if eq $object.kind "Trigger" }}
  {{- $_ := set $spec.subscriber.ref "apiVersion" $serving.service.apiVersion }}
{{- else if eq $object.kind "Broker" }}
  {{- $_ := set $spec.delivery.deadLetterSink.ref "apiVersion" $serving.service.apiVersion }}
{{- else if and (eq $object.kind "NetworkPolicy") (eq $object.metadata.name "functions") }}
  {{- $_ := set $spec "ingress" (concat $spec.ingress $serving.ingress) }}
{{- else if eq $object.kind "SinkBinding" }}
  {{- if has $spec.subject.name .servers }}{{ $_ := mergeOverwrite $spec.subject $serving.service }}{{ end }}
{{- else if and (eq $object.kind "Deployment") (has $object.metadata.name .servers) }}
  {{- $template := $spec.template }}
  {{- $scale := dict "autoscaling.knative.dev/max-scale" (print (int $values.serving.maxReplicas)) }}
  {{- with $spec.replicas }}{{ $_ := set $scale "autoscaling.knative.dev/min-scale" (print .) }}{{ end }}
  {{- $_ := mergeOverwrite $object $serving.service }}
  {{- $_ := unset $spec "selector" }}
  {{- $_ := unset $spec "replicas" }}
  {{- $_ := unset $template.spec "securityContext" }}
  {{- $_ := mergeOverwrite $object.metadata.labels $serving.labels }}
  {{- $_ := mergeOverwrite $template.metadata.annotations $serving.annotations $scale }}
  {{- $_ := mergeOverwrite $template.spec $serving.pod }}
  {{- with $values.env.THREADS }}{{ $_ := set $template.spec "containerConcurrency" (int .) }}{{ end }}
  {{- $container := first $template.spec.containers }}
  {{- range $field, $value := $serving.container }}{{ $_ := set $container $field $value }}{{ end }}
  {{- $env := list }}
  {{- range $container.env }}{{ if ne .name "METRICS_PORT" }}{{ $env = append $env . }}{{ end }}{{ end }}
  {{- $_ := set $container "env" $env }}
{{- end }}
{{- end }}
