package main

import (
	"testing"

	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// kinds are the Go types of what the chart renders: Kubernetes' own, and of the two operators what the
// chart uses of theirs, by their API references.
func kinds() map[string]func() any {
	return map[string]func() any{
		"v1/ConfigMap":                            func() any { return new(core.ConfigMap) },
		"v1/Pod":                                  func() any { return new(core.Pod) },
		"v1/Service":                              func() any { return new(core.Service) },
		"v1/ServiceAccount":                       func() any { return new(core.ServiceAccount) },
		"apps/v1/Deployment":                      func() any { return new(apps.Deployment) },
		"apps/v1/StatefulSet":                     func() any { return new(apps.StatefulSet) },
		"batch/v1/Job":                            func() any { return new(batch.Job) },
		"autoscaling/v2/HorizontalPodAutoscaler":  func() any { return new(autoscaling.HorizontalPodAutoscaler) },
		"networking.k8s.io/v1/NetworkPolicy":      func() any { return new(networking.NetworkPolicy) },
		"policy/v1/PodDisruptionBudget":           func() any { return new(policy.PodDisruptionBudget) },
		"monitoring.coreos.com/v1/ServiceMonitor": func() any { return new(operators[serviceMonitor]) },
		"monitoring.coreos.com/v1/PrometheusRule": func() any { return new(operators[prometheusRule]) },
		"keda.sh/v1alpha1/ScaledObject":           func() any { return new(operators[scaledObject]) },
	}
}

// isTyped decodes an object into its Go type: a field that the type does not have, or one of another
// type, is a fault that a server would drop or refuse.
func isTyped(t *testing.T, doc string) {
	t.Helper()
	var o object
	if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
		t.Fatal(err)
	}
	name := o.APIVersion + "/" + o.Kind
	typed := kinds()[name]
	if typed == nil {
		t.Errorf("%s has no type in this test: add it", name)
		return
	}
	if err := yaml.UnmarshalStrict([]byte(doc), typed()); err != nil {
		t.Errorf("%s %s: %v", name, o.Metadata.Name, err)
	}
}

// operators is an object of an operator: its Spec is strict, too.
type operators[S any] struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec S `json:"spec"`
}

type serviceMonitor struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	TargetLabels []string `json:"targetLabels"`
	Endpoints    []struct {
		Port     string `json:"port"`
		Path     string `json:"path"`
		Interval string `json:"interval"`
	} `json:"endpoints"`
}

type prometheusRule struct {
	Groups []struct {
		Name     string `json:"name"`
		Interval string `json:"interval"`
		Rules    []struct {
			Alert       string            `json:"alert"`
			Expr        string            `json:"expr"`
			For         string            `json:"for"`
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"rules"`
	} `json:"groups"`
}

type scaledObject struct {
	ScaleTargetRef struct {
		Kind string `json:"kind"`
		Name string `json:"name"`
	} `json:"scaleTargetRef"`
	MinReplicaCount int32 `json:"minReplicaCount"`
	MaxReplicaCount int32 `json:"maxReplicaCount"`
	PollingInterval int32 `json:"pollingInterval"`
	CooldownPeriod  int32 `json:"cooldownPeriod"`
	Triggers        []struct {
		Type              string            `json:"type"`
		Metadata          map[string]string `json:"metadata"` // of strings: a number would be refused
		AuthenticationRef struct {
			Name string `json:"name"`
		} `json:"authenticationRef"`
	} `json:"triggers"`
}

// A decoder that takes everything would prove nothing.
func TestTypedDecodeIsStrict(t *testing.T) {
	for name, doc := range map[string]string{
		"unknown field": `{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replica":1}}`,
		"other type":    `{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":"1"}}`,
	} {
		if err := yaml.UnmarshalStrict([]byte(doc), new(apps.Deployment)); err == nil {
			t.Errorf("%s was taken: %s", name, doc)
		}
	}
}
