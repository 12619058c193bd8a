package config

import (
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/transform"
)

// With a model for each value other defaults hold, where the file and --set say nothing; what they say is obeyed.
func TestKeyedDefaults(t *testing.T) {
	load := func(doc string, set ...string) *Config {
		t.Helper()
		c, err := Load(Input{File: "-", Stdin: strings.NewReader(doc), Set: set, Getenv: func(string) (string, bool) { return "", false }})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, one := range []struct {
		doc    string
		set    []string
		every  time.Duration // of snapshots
		before transform.UntilModel
	}{
		{doc: "", every: 10 * time.Second, before: transform.Hold},
		{doc: "model: {by: none}", every: 10 * time.Second, before: transform.Hold},
		{doc: "model: {by: key}", every: time.Minute, before: transform.PassThrough},
		{doc: "", set: []string{"model.by=header:machine"}, every: time.Minute, before: transform.PassThrough},
		{doc: "model: {by: key}", set: []string{"model.by=none"}, every: 10 * time.Second, before: transform.Hold},
		{doc: "model: {by: key}\ntransform: {until_model: drop}", set: []string{"snapshot.every=0s"}, before: transform.Drop},
	} {
		c := load(one.doc, one.set...)
		if c.Snapshot.Every != one.every || c.UntilModel() != one.before {
			t.Errorf("%q %v: every %v, %v", one.doc, one.set, c.Snapshot.Every, c.UntilModel())
		}
		if again := load(Print(c)); again.Snapshot != c.Snapshot || again.UntilModel() != c.UntilModel() {
			t.Errorf("%q %v: what is printed is read as another configuration:\n%s", one.doc, one.set, Print(c))
		}
	}
}

// Each key that has another default with keys says so where the default is documented.
func TestKeyedDefaultsAreSaid(t *testing.T) {
	said := 0
	for _, k := range Keys(Default()) {
		if keyed, ok := keyedDefaults[k.Path]; ok {
			said++
			if want := "With model.by the default is " + keyed + "."; !strings.HasSuffix(k.Why, want) || keyed == k.Default {
				t.Errorf("%s: %q does not end with %q, or %s is no other default", k.Path, k.Why, want, keyed)
			}
		}
	}
	if said != len(keyedDefaults) {
		t.Errorf("%d of %d keys exist", said, len(keyedDefaults))
	}
}
