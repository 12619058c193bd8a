package config

import (
	"strings"
	"testing"
)

// A setting that was removed is a fault of its own, in a file and by --set, whatever it says: with its place, what holds now, and what to do.
func TestRemovedSettingsAreExplained(t *testing.T) {
	keys := newDecoder(Default(), nil)
	for path, was := range removed {
		if _, is := keys.byPath[path]; is || was.now == "" {
			t.Errorf("%s is a setting, or nothing is said of it", path)
		}
		for _, value := range []string{"1", "auto", "[a, b]", "{a: 1}", `""`} {
			doc, line, column := document(path, value)
			faults := faultsOf(t, doc)
			column -= len(path[strings.LastIndexByte(path, '.')+1:]) + 2 // of the key
			if f := faults[0]; len(faults) != 1 || f.Path != path || f.Line != line || f.Column != column || !strings.HasPrefix(f.Message, "was removed: ") || !strings.HasPrefix(f.Remedy, "remove this") {
				t.Errorf("%s: %s: %v, want one at %d:%d", path, value, faults, line, column)
			}
		}
		if faults := faultsOf(t, "", path+"=1"); len(faults) != 1 || !strings.Contains(faults[0].String(), "was removed: "+was.now) {
			t.Errorf("--set %s=1: %v", path, faults)
		}
	}
}
