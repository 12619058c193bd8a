package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	networking "k8s.io/api/networking/v1"
	sigs "sigs.k8s.io/yaml"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/internal/testtools"
)

const chart = "../../deploy/helm/lca-stream"

// kubeVersion is what charts are rendered and validated for.
const kubeVersion = "1.34.0"

// helm runs Helm and returns what it prints, on both streams.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(testtools.Helm(t), args...)
	cmd.Env = append(os.Environ(), "HELM_NO_PLUGINS=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func render(args ...string) []string {
	return append([]string{"template", "my", chart, "--namespace", "streams", "--kube-version", kubeVersion}, args...)
}

// object is a Kubernetes object, as far as these tests look into it.
type object struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct{ Name string }
	Data       map[string]string
	Spec       struct {
		Template struct{ Spec podSpec }
	}
}

type podSpec struct {
	AutomountServiceAccountToken *bool `yaml:"automountServiceAccountToken"`
	SecurityContext              struct {
		RunAsNonRoot   bool                  `yaml:"runAsNonRoot"`
		SeccompProfile struct{ Type string } `yaml:"seccompProfile"`
	} `yaml:"securityContext"`
	Containers []struct {
		Args            []string
		SecurityContext struct {
			AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
			ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
			Capabilities             struct{ Drop []string }
		} `yaml:"securityContext"`
		LivenessProbe  probe `yaml:"livenessProbe"`
		ReadinessProbe probe `yaml:"readinessProbe"`
	}
}

type probe struct {
	HTTPGet struct{ Path string } `yaml:"httpGet"`
}

// Every value set of ci/ passes Helm's linter, renders what its golden file says, is valid for
// Kubernetes to the last field, and holds a configuration that this program takes.
func TestChart(t *testing.T) {
	sets, err := filepath.Glob(chart + "/ci/*-values.yaml")
	if err != nil || len(sets) < 6 {
		t.Fatalf("%d value sets: %v", len(sets), err)
	}
	for _, values := range sets {
		name := strings.TrimSuffix(filepath.Base(values), "-values.yaml")
		t.Run(name, func(t *testing.T) {
			if out, err := helm(t, "lint", "--strict", "--kube-version", kubeVersion, chart, "-f", values); err != nil {
				t.Errorf("helm lint: %v\n%s", err, out)
			}
			rendered, err := helm(t, render("-f", values)...)
			if err != nil {
				t.Fatalf("helm template: %v\n%s", err, rendered)
			}
			compareGolden(t, "testdata/chart/"+name+".yaml", rendered)
			pods := 0
			for _, doc := range documents(rendered) {
				isTyped(t, doc)
				var o object
				if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
					t.Fatalf("%v\n%s", err, doc)
				}
				if text, ok := o.Data["lca-stream.yaml"]; ok {
					lintRendered(t, text)
				}
				if o.Kind == "NetworkPolicy" {
					portsAreNamed(t, doc)
				}
				if o.Kind == "Deployment" || o.Kind == "StatefulSet" || o.Kind == "Job" {
					pods++
					isHardened(t, o)
					takesArguments(t, o)
				}
			}
			if pods == 0 {
				t.Error("renders no pods")
			}
			validate(t, rendered)
		})
	}
}

func documents(rendered string) []string {
	var docs []string
	for doc := range strings.SplitSeq("\n"+rendered, "\n---\n") {
		if strings.Contains(doc, "\nkind: ") {
			docs = append(docs, doc)
		}
	}
	return docs
}

func compareGolden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; rewrite with -update):\n%s", path, diff)
	}
}

func lintRendered(t *testing.T, text string) {
	t.Helper()
	p, stdout, _ := inTest()
	p.Stdin = strings.NewReader(text)
	p.Getenv = func(name string) (string, bool) { return "my-pod-0", name == "HOSTNAME" } // which every container has
	if code := execute(t.Context(), p, []string{"lint", "-"}); code != app.ExitDone {
		t.Errorf("lint of the rendered configuration: exit code %d\n%s\n%s", code, stdout, text)
	}
}

// isHardened: what Kubernetes' restricted profile asks for, and no token in the pod.
func isHardened(t *testing.T, o object) {
	t.Helper()
	pod := o.Spec.Template.Spec
	ok := pod.AutomountServiceAccountToken != nil && !*pod.AutomountServiceAccountToken &&
		pod.SecurityContext.RunAsNonRoot && pod.SecurityContext.SeccompProfile.Type == "RuntimeDefault" && len(pod.Containers) == 1
	for _, c := range pod.Containers {
		s := c.SecurityContext
		ok = ok && s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation && s.ReadOnlyRootFilesystem &&
			cmp.Equal(s.Capabilities.Drop, []string{"ALL"})
		ok = ok && (o.Kind == "Job" || c.LivenessProbe.HTTPGet.Path == "/ping" && c.ReadinessProbe.HTTPGet.Path == "/ready")
	}
	if !ok {
		t.Errorf("%s %s is not hardened or not probed: %+v", o.Kind, o.Metadata.Name, pod)
	}
}

// takesArguments: the program knows the command and the flags that its containers are given.
func takesArguments(t *testing.T, o object) {
	t.Helper()
	for _, c := range o.Spec.Template.Spec.Containers {
		p, _, stderr := inTest()
		if code := execute(t.Context(), p, append(c.Args, "--help")); len(c.Args) == 0 || code != app.ExitDone {
			t.Errorf("%s %s has arguments %q: exit code %d\n%s", o.Kind, o.Metadata.Name, c.Args, code, stderr)
		}
	}
}

// portsAreNamed: an empty list of ports, or a port that is null, opens all of them.
func portsAreNamed(t *testing.T, doc string) {
	t.Helper()
	var p networking.NetworkPolicy
	if err := sigs.UnmarshalStrict([]byte(doc), &p); err != nil {
		t.Fatal(err)
	}
	var rules [][]networking.NetworkPolicyPort
	for _, r := range p.Spec.Ingress {
		rules = append(rules, r.Ports)
	}
	for _, r := range p.Spec.Egress {
		rules = append(rules, r.Ports)
	}
	for _, ports := range rules {
		if len(ports) == 0 {
			t.Errorf("%s opens every port", p.Name)
		}
		for _, port := range ports {
			if port.Port == nil || port.Port.IntValue() == 0 && port.Port.StrVal != "http" {
				t.Errorf("%s has a port %v", p.Name, port.Port)
			}
		}
	}
}

// validate holds the objects of Kubernetes itself against its strict schemas; those of operators have none there.
func validate(t *testing.T, rendered string) {
	t.Helper()
	var own []string
	for _, doc := range documents(rendered) {
		if !strings.Contains(doc, "apiVersion: monitoring.coreos.com/") && !strings.Contains(doc, "apiVersion: keda.sh/") {
			own = append(own, doc)
		}
	}
	file := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, []byte(strings.Join(own, "\n---\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	validator := filepath.Join(filepath.Dir(testtools.Python(t)), "kubernetes-validate")
	if out, err := exec.Command(validator, "--strict", "-k", kubeVersion, file).CombinedOutput(); err != nil {
		t.Errorf("kubernetes-validate: %v\n%s", err, out)
	}
}

// Values that would harm are refused, with a word that says which.
func TestChartRefuses(t *testing.T) {
	for _, c := range []struct{ name, set, want string }{
		{"a password in the ConfigMap", "config.kafka.sasl.password=secret", "auth.existingSecret"},
		{"a registry's password in the ConfigMap", "config.source.registry.password=secret", "registry.existingSecret"},
		{"a client's secret in the ConfigMap", "config.kafka.sasl.oauth.client_secret=secret", "auth.existingSecret"},
		{"the same partitions for several members", "config.source.partitions={0},transform.replicas=2", "config.source.partitions"},
		{"a grace period that kills", "terminationGracePeriodSeconds=30", "a stop may take 30 s"},
		{"more members at least than at most", "autoscaling.enabled=true,autoscaling.minReplicas=9,autoscaling.maxReplicas=6", "autoscaling.minReplicas"},
		{"more members at least than at most, by KEDA", "keda.enabled=true,keda.minReplicas=9,keda.maxReplicas=6", "keda.minReplicas"},
		{"a name that Kubernetes refuses", "fullnameOverride=UPPER_x", "fullnameOverride"},
		{"a share beyond all", "podDisruptionBudget.maxUnavailable=150%", "maxUnavailable"},
		{"a label that selects the pods", `learner.podLabels.app\.kubernetes\.io/name=other`, "podLabels"},
		{"no configuration", "config=null", "config"},
		{"two autoscalers", "autoscaling.enabled=true,keda.enabled=true", "choose one"},
		{"probes that cannot reach the pod", "config.http.listen=127.0.0.1:8095", "config.http.listen"},
		{"no server to probe", "config.http.listen=", "config.http.listen"},
		{"a slip in a value", "transform.replica=2", "replica"},
		{"a slip in the configuration", "config.lca.gama=0.5", "gama"},
		{"a configuration out of range", "config.lca.gamma=1.5", "gamma"},
		{"a digest that is none", "image.digest=latest", "digest"},
		{"a broker's port that only the pod knows", "networkPolicy.egress=true,config.kafka.brokers=${BROKERS:kafka:9092}", "networkPolicy.brokerPorts"},
		{"a broker with half a port", "networkPolicy.egress=true,config.kafka.brokers=kafka:${PORT}", "networkPolicy.brokerPorts"},
		{"a broker without a port", "networkPolicy.egress=true,config.kafka.brokers={kafka}", "networkPolicy.brokerPorts"},
		{"a port that is none", "networkPolicy.brokers[0].ipBlock.cidr=10.0.0.0/8,config.kafka.brokers={kafka:99999}", "networkPolicy.brokerPorts"},
		{"several learners of one model", "learner.replicas=2", "config.model.by"},
		{"scaled learners of one model", "learner.keda.enabled=true", "config.model.by"},
		{"learners with two autoscalers", "config.model.by=key,learner.keda.enabled=true,learner.autoscaling.enabled=true", "choose one"},
		{"learners that have the same partitions", "config.model.by=key,learner.replicas=2,config.source.partitions={0}", "config.source.partitions"},
		{"a history of many models", "config.model.by=key,learner.fromHistory=true", "learner.fromHistory"},
		{"more learners at least than at most", "config.model.by=key,learner.autoscaling.enabled=true,learner.autoscaling.minReplicas=9", "learner.autoscaling.minReplicas"},
		{"brokers of the learner's KEDA", "config.model.by=key,learner.keda.enabled=true,config.kafka.brokers=${BROKERS:kafka:9092}", "keda.bootstrapServers"},
		{"brokers that KEDA cannot know", "keda.enabled=true,config.kafka.brokers=${BROKERS:kafka:9092}", "keda.bootstrapServers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if out, err := helm(t, render("--set", c.set)...); err == nil || !strings.Contains(out, c.want) {
				t.Errorf("--set %s: %v, want a refusal that says %q\n%s", c.set, err, c.want, out)
			}
		})
	}
}

// A release may have names that a Service may not have.
func TestChartNamesServices(t *testing.T) {
	release := func(name string) []string {
		args := render()
		args[1] = name
		return args
	}
	out, err := helm(t, release("my.streams")...)
	if err != nil || !strings.Contains(out, "name: my-streams-lca-stream-learner") || strings.Contains(out, "name: my.streams-") {
		t.Errorf("a release with a dot: %v\n%s", err, out)
	}
	if out, err := helm(t, release("2nd")...); err == nil || !strings.Contains(out, "fullnameOverride") {
		t.Errorf("a release that begins with a digit: %v\n%s", err, out)
	}
	if out, err := helm(t, append(release("2nd"), "--set", "fullnameOverride=second")...); err != nil || !strings.Contains(out, "name: second-learner") {
		t.Errorf("a release that begins with a digit, renamed: %v\n%s", err, out)
	}
}

// The chart's schema holds the configuration's, word for word.
func TestChartSchemaIsTheConfigurations(t *testing.T) {
	const path = chart + "/values.schema.json"
	var whole map[string]any
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(file, &whole); err != nil {
		t.Fatal(err)
	}
	var ours map[string]any
	if err := json.Unmarshal(config.Schema(), &ours); err != nil {
		t.Fatal(err)
	}
	delete(ours, "$schema")
	properties := whole["properties"].(map[string]any)
	if *update {
		properties["config"] = ours
		var out bytes.Buffer
		encoder := json.NewEncoder(&out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(whole); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(ours, properties["config"]); diff != "" {
		t.Errorf("rewrite %s with -update (-configuration +chart):\n%s", path, diff)
	}
}

// Every value has a place in the schema, so that a slip is refused.
func TestChartValuesAreDescribed(t *testing.T) {
	file, err := os.ReadFile(chart + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(file, &values); err != nil {
		t.Fatal(err)
	}
	schema, err := os.ReadFile(chart + "/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var whole struct{ Properties map[string]any }
	if err := json.Unmarshal(schema, &whole); err != nil {
		t.Fatal(err)
	}
	for name := range values {
		if whole.Properties[name] == nil {
			t.Errorf("value %s is not in values.schema.json", name)
		}
	}
	for name := range whole.Properties {
		if _, ok := values[name]; !ok && name != "global" { // Helm's own
			t.Errorf("values.schema.json has %s, values.yaml does not", name)
		}
	}
}
