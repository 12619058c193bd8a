package main

import (
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
)

// No two pieces of work have one transactional id, whatever groups, topics and models are called, and each
// begins with its group, which rights are granted by.
func TestWorkIDsDiffer(t *testing.T) {
	seen := map[string]string{}
	take := func(group, id, what string) {
		if !strings.HasPrefix(id, group) {
			t.Errorf("%s has the id %q, which does not begin with its group", what, id)
		}
		if was, twice := seen[id]; twice {
			t.Errorf("%s and %s have the same id %q", was, what, id)
		}
		seen[id] = what
	}
	names := []string{"a", "a-b", "b", "b-c", "c", "m", "x", "x.learn", "a.learn", "learn", "transform", "0"}
	groups := append([]string{"a/b", "a/b/learn", "a/b/transform", "x/m/learn"}, names...)
	models := append([]string{"m-0", "a/b", "a%2Fb", "b/transform/0", "0"}, names[:11]...)
	for _, group := range groups {
		for _, topic := range names {
			c := config.Source{Group: group, Topic: topic}
			id, _ := transformID(c, 0)
			take(group, id, "the transform of "+topic+" by "+group)
			for _, model := range models {
				id, _ := learnID(c, model)
				take(group, id, "the learner of "+model+" from "+topic+" by "+group)
			}
		}
	}
}
