package system

import (
	"maps"
	"regexp"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
)

// named derives the name of a process with such a configuration.
func named(t *testing.T, group string) instance {
	t.Helper()
	c := config.Default()
	name, err := newInstance(c, group)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(name.release)
	return name
}

// TestInstance: each process of a host has a name of its own, and a process that starts where one has ended
// has the name of that one.
func TestInstance(t *testing.T) {
	zero, one := named(t, t.Name()), named(t, t.Name())
	other := named(t, t.Name()+"-other")
	if !strings.HasSuffix(zero.id, "-0") || strings.TrimSuffix(one.id, "-1") != strings.TrimSuffix(zero.id, "-0") {
		t.Errorf("two processes are %q and %q", zero.id, one.id)
	}
	if !strings.HasSuffix(other.id, "-0") || other.id == zero.id {
		t.Errorf("a process of another group is %q, next to %q", other.id, zero.id)
	}
	zero.release()
	if again := named(t, t.Name()); again.id != zero.id {
		t.Errorf("in place of %q came %q", zero.id, again.id)
	}
}

// TestLegalName: the name of a host may have what Kafka does not take in the name of a member.
func TestLegalName(t *testing.T) {
	legal := regexp.MustCompile(`^[a-zA-Z0-9._-]{1,200}$`)
	for host, want := range map[string]string{"pod-0.lca": "pod-0.lca", "Rüdigers Rechner": "R_digers_Rechner", strings.Repeat("h", 300): strings.Repeat("h", 200)} {
		if got := legalName(host); got != want || !legal.MatchString(got) {
			t.Errorf("%q becomes %q, want %q", host, got, want)
		}
	}
}

// TestInstanceOfTwoGroups: `run` with model.by is a member of two groups. Whichever joins first, a process that is started again has the names of the one
// before.
func TestInstanceOfTwoGroups(t *testing.T) {
	names := func(groups ...string) map[string]string {
		all := map[string]string{}
		for _, group := range groups {
			name := named(t, group)
			defer name.release()
			all[group] = name.id
		}
		return all
	}
	one, other := t.Name(), t.Name()+".learn"
	if before, again := names(one, other), names(other, one); !maps.Equal(before, again) {
		t.Errorf("the names are %v, and then %v", before, again)
	}
}

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
			id, _ := TransformID(c, 0)
			take(group, id, "the transform of "+topic+" by "+group)
			for _, model := range models {
				id, _ := LearnID(c, model)
				take(group, id, "the learner of "+model+" from "+topic+" by "+group)
			}
		}
	}
}
