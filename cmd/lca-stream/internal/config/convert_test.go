package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/lca/online"
)

func TestDefaultLearnerIsTheLibrarysDefault(t *testing.T) {
	got, err := Default().Learner(8)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(online.DefaultConfig(8), got); diff != "" {
		t.Error(diff)
	}
}

func TestEveryChoiceReachesTheLearner(t *testing.T) {
	base, err := Default().Learner(8)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range Keys(Default()) {
		choice, ok := k.value.(*oneOfValue)
		if !ok || !strings.HasPrefix(k.Path, "lca.") && k.Path != "transform.components" {
			continue
		}
		seen := []online.Config{}
		for _, name := range choice.names {
			set := []string{k.Path + "=" + name}
			got, err := mustLoad(t, "", nil, set...).Learner(8)
			if err != nil {
				t.Fatalf("%v: %v", set, err)
			}
			for _, other := range seen {
				if cmp.Equal(other, got) {
					t.Errorf("%v changes nothing of %+v", set, base)
				}
			}
			seen = append(seen, got)
		}
	}
}

func TestRankNeedsTheFeatures(t *testing.T) {
	c := mustLoad(t, "lca: {metric: low_rank:8}", nil)
	if _, err := c.Learner(8); err == nil || !strings.Contains(err.Error(), "with 8 features") {
		t.Errorf("rank 8 of 8 features: %v", err)
	}
}
