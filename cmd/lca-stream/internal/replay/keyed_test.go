package replay

import (
	"path/filepath"
	"strings"
	"testing"
)

// Where the table says that an NLL is unknown, the line below says why.
func TestTableSaysWhyNLLIsUnknown(t *testing.T) {
	nll := 1.5
	known, unknown, none := keyedResult{ID: "m/0/a", Result: Result{NLL: &nll, SingleNLL: &nll}}, keyedResult{ID: "m/0/b"}, keyedResult{ID: "m/0/c", Fault: "too few rows"}
	for want, models := range map[string][]keyedResult{"": {known, none}, "\nNLL of 1 model unknown, because too few rows are independent\n": {known, unknown, none}} {
		var b strings.Builder
		s := KeyedSummary{Models: models}
		if err := s.write(&b, "dir"); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); !strings.Contains(got, want) || strings.Contains(got, "too few rows are independent") != (want != "") {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
}

// On a file system that ignores case no model of a replay takes the file of another.
func TestFilesOfModelsDifferInMoreThanCase(t *testing.T) {
	k := &keyedReplay{replay: &replay{flags: replayFlags{output: "dir"}}}
	long := strings.Repeat("x", mostName)
	ids := map[string]string{}
	for _, value := range []string{"PRESS", "Press", "press", "pump", "", "%7E", long + "a", long + "A", strings.ToUpper(long) + "A"} {
		path := k.fileOf(3, "default/3/"+value)
		if other, taken := ids[strings.ToLower(path)]; taken {
			t.Errorf("%q and %q have the file %s", other, value, path)
		}
		ids[strings.ToLower(path)] = value
		if again := k.fileOf(3, "default/3/"+value); again != path {
			t.Errorf("%q has the files %s and %s", value, path, again)
		}
		if name := filepath.Base(path); len(name) > 255 {
			t.Errorf("%q has a name of %d bytes", value, len(name))
		}
	}
	for path, value := range map[string]string{"dir/3/pump.arrows": "pump", "dir/3/press.arrows": "PRESS", "dir/3/~.arrows": ""} {
		if ids[filepath.FromSlash(path)] != value {
			t.Errorf("%s is the file of %q, want that of %q", path, ids[path], value)
		}
	}
}
