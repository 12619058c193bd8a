package config

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var infinity = math.Inf(1)

// document is a file with one key, and where its value begins.
func document(path, value string) (doc string, line, column int) {
	parts := strings.Split(path, ".")
	for i, part := range parts {
		doc += strings.Repeat("  ", i) + part + ":"
		if i < len(parts)-1 {
			doc += "\n"
		}
	}
	return doc + " " + value + "\n", len(parts), 2*(len(parts)-1) + len(parts[len(parts)-1]) + 3
}

// wrongValues are values that a key must refuse, by its type.
func wrongValues(k Key) []string {
	number := []string{"x1", "true", `""`, "1_000", "0x10", "${X"}
	switch v := k.value.(type) {
	case *wholeValue[int]:
		return append(number, fmt.Sprint(v.low-1), fmt.Sprint(v.high+1), "1.5", "99999999999999999999", "-2")
	case *wholeValue[uint64]:
		return append(number, "-1", "1.5", "99999999999999999999")
	case *realValue:
		return append(number[:3:3], "nan", ".inf", fmt.Sprint(v.low-1), "1e999")
	case *boolValue:
		return []string{"yes", "1", "True", `""`}
	case *spanValue:
		return []string{"5", "1.5", "x", "1 s", span(v.low - 1), span(v.high + 1)}
	case *sizeValue:
		return []string{"0", "-1", "1TiB", "1.5MiB", "999GiB", "99999999999999999999", "x"}
	case *oneOfValue:
		return []string{"nonsense", `""`, "AUTO"}
	case *nuValue:
		return []string{"x1", "-1", "[1, 2, 3]", "[]", "[0.1, x]", "[0.1, -2]"}
	case *metricValue:
		return []string{"nonsense", "low_rank", "low_rank:0", "low_rank:x", "full:3", "low_rank:65537", `""`}
	case *seriesValue:
		return []string{"none", `"header:"`, `"columns:machine"`, "keys", "partitions"}
	case *acceptValue:
		return []string{"off", "0 rows", "1000", "0h", "8761h", "1d", "4000000000 rows", `""`}
	case *budgetValue:
		return []string{"1", "0/day", "1/month", "2/1 rows", `""`}
	case *byValue:
		return []string{"nonsense", `""`, "Key", `"header: machine"`, `"header:"`, `"column:"`, `"column:` + strings.Repeat("a", longestName+1) + `"`}
	case *textValue:
		return []string{`"a\nb"`, `"` + strings.Repeat("a", v.r.max+1) + `"`}
	case *secretValue:
		return []string{strings.Repeat("a", 1025)}
	case *listValue:
		return []string{"[{a: 1}]", "[[a]]", "[a:1, a:1]", `["", "b:1"]`, "[~]"}
	case *partitionsValue:
		return []string{"[x]", "[3-1]", "[-1]", "[100000]", "[1, 0-2]", "[[1]]"}
	}
	return nil
}

func TestEveryKeyRefusesWrongValues(t *testing.T) {
	cases := 0
	for _, k := range Keys(Default()) {
		t.Run(k.Path, func(t *testing.T) {
			wrong := append(wrongValues(k), "{a: 1}")
			if len(wrong) < 2 {
				t.Fatalf("no wrong values known for %T", k.value)
			}
			if _, isList := k.value.(items); !isList {
				wrong = append(wrong, "[1]")
			}
			for _, value := range wrong {
				cases++
				doc, line, column := document(k.Path, value)
				faults := faultsOf(t, doc)
				f := faults[0]
				if len(faults) != 1 || f.Path != k.Path || f.Line != line || f.Column < column || f.Remedy == "" {
					t.Errorf("%s: %s\n%v\nwant one fault at %d:%d or further right", k.Path, value, faults, line, column)
				}
			}
		})
	}
	t.Logf("%d wrong values", cases)
	if cases < 300 {
		t.Errorf("%d wrong values: are keys left out?", cases)
	}
}

func TestEveryKeyRefusesNoValueAndTwoValues(t *testing.T) {
	for _, k := range Keys(Default()) {
		t.Run(k.Path, func(t *testing.T) {
			doc, line, _ := document(k.Path, "")
			faults := faultsOf(t, doc)
			if len(faults) != 1 || faults[0].Line != line || faults[0].Message != "has no value" {
				t.Errorf("without a value: %v", faults)
			}
			doc, line, _ = document(k.Path, k.Default)
			_, name := parent(k.Path)
			faults = faultsOf(t, doc+strings.Repeat("  ", line-1)+name+": "+k.Default+"\n")
			if len(faults) != 1 || faults[0].Line != line+1 || faults[0].Message != fmt.Sprintf("is there twice, first in line %d", line) {
				t.Errorf("with two values: %v", faults)
			}
		})
	}
}

// A swap of two letters is the commonest slip; the right name must be suggested, unless the slip hits another key.
func TestEveryKeyIsSuggestedForASlip(t *testing.T) {
	for _, k := range Keys(Default()) {
		section, name := parent(k.Path)
		slip := name[:len(name)-2] + string(name[len(name)-1]) + string(name[len(name)-2])
		if slip == name {
			slip = name + "x"
		}
		doc, line, _ := document(join(section, slip), k.Default)
		faults := faultsOf(t, doc)
		if want := fmt.Sprintf("did you mean %q?", name); len(faults) != 1 || faults[0].Line != line || faults[0].Remedy != want {
			t.Errorf("%s for %s: %v\nwant %s", slip, k.Path, faults, want)
		}
	}
}

// The ends of each range are allowed, one key at a time; faults between keys are another matter.
func TestEveryRangeIsClosedAtItsEnds(t *testing.T) {
	for _, k := range Keys(Default()) {
		var ends []string
		switch v := k.value.(type) {
		case *wholeValue[int]:
			ends = []string{fmt.Sprint(v.low), fmt.Sprint(v.high)}
			for _, w := range v.words {
				ends = append(ends, w.name)
			}
		case *wholeValue[uint64]:
			ends = []string{fmt.Sprint(v.low), fmt.Sprint(v.high)}
		case *spanValue:
			ends = []string{span(v.low), span(v.high)}
		case *sizeValue:
			ends = []string{size(v.low), size(v.high)}
		case *oneOfValue:
			ends = v.names
		}
		for _, end := range ends {
			if err := k.set(end); err != nil {
				t.Errorf("%s: %s: %v", k.Path, end, err)
			}
			if err := k.check(); err != nil {
				t.Errorf("%s: %s: %v", k.Path, end, err)
			}
			if got := k.String(); got != end && got != `"`+end+`"` {
				t.Errorf("%s: %s is written back as %s", k.Path, end, got)
			}
		}
	}
}

func TestPrintIsReadBack(t *testing.T) {
	c := mustLoad(t, "", nil, "kafka.brokers=a:1,b:2", "source.features=[x, a b, 1, null, 'q']", "source.partitions=0-3,7,9-9",
		"lca.pass_rows=6000", "lca.outlier_gate=off", "lca.nu=1e-3,auto", "memory.limit=150000kB", "snapshot.every=90m", "transform.column=no", "http.listen=")
	if diff := cmp.Diff(c, mustLoad(t, Print(c), nil)); diff != "" {
		t.Errorf("%s\n%s", diff, Print(c))
	}
}

func TestExampleIsTheDefaultAndTheFile(t *testing.T) {
	if diff := cmp.Diff(Default(), mustLoad(t, Example(), nil)); diff != "" {
		t.Error(diff)
	}
	const path = "../../../../configs/lca-stream.yaml"
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(file), Example()); diff != "" {
		t.Errorf("run `go run ./cmd/lca-stream config example > configs/lca-stream.yaml` (-file +code):\n%s", diff)
	}
}

// The schema must know every key with its default, and refuse all others.
func TestSchemaKnowsEveryKey(t *testing.T) {
	type object struct {
		Properties           map[string]json.RawMessage
		AdditionalProperties *bool
		Description          string
		Default              any
	}
	var root object
	if err := json.Unmarshal(Schema(), &root); err != nil {
		t.Fatal(err)
	}
	leaves := 0
	var count func(o object, path string)
	count = func(o object, path string) {
		if o.Properties == nil {
			leaves++
			if o.Description == "" || o.Default == nil {
				t.Errorf("%s lacks a description or a default", path)
			}
			return
		}
		if o.AdditionalProperties == nil || *o.AdditionalProperties {
			t.Errorf("%q allows unknown keys", path)
		}
		for name, raw := range o.Properties {
			var inner object
			if err := json.Unmarshal(raw, &inner); err != nil {
				t.Fatal(err)
			}
			count(inner, join(path, name))
		}
	}
	count(root, "")
	if want := len(Keys(Default())); leaves != want {
		t.Errorf("schema has %d keys, the table %d", leaves, want)
	}
}

// mostKeys bounds the settings: each is a question to a reader of the file. One more takes the place of another.
const mostKeys = 75

func TestSettingsAreFew(t *testing.T) {
	if n := len(Keys(Default())); n > mostKeys {
		t.Errorf("%d settings, at most %d: make one of them a constant, with a line in removed.go", n, mostKeys)
	}
}

// Every field of Config has a row in the table, and a comment that says what it is. Default and bound stand in the
// table alone: what a comment repeats is forgotten when the table changes.
func TestEveryFieldIsAKeyWithAComment(t *testing.T) {
	comments := fieldComments(t)
	fields := 0
	var count func(reflect.Type)
	count = func(s reflect.Type) {
		for i := range s.NumField() {
			if f := s.Field(i); f.Type.Kind() == reflect.Struct && f.Type.PkgPath() == s.PkgPath() && f.Type != reflect.TypeFor[Accept]() { // others are values
				count(f.Type)
			} else {
				fields++
			}
		}
	}
	count(reflect.TypeFor[Config]())
	keys := Keys(Default())
	if fields != len(keys) {
		t.Errorf("Config has %d fields, the table %d rows", fields, len(keys))
	}
	for _, k := range keys {
		section, name := parent(k.Path)
		_, owner := parent(section)
		switch comment := comments[fold(owner)+"."+fold(name)]; {
		case comment == "":
			t.Errorf("%s: no field with a comment", k.Path)
		case strings.Contains(comment, "default"), strings.Contains(comment, "…"):
			t.Errorf("%s: comment %q repeats what the table says", k.Path, comment)
		}
	}
}

// fold makes the Go name and the key of a setting alike: MaxModelAge and max_model_age.
func fold(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "")) }

// fieldComments is each field's comment, by folded type and name; the root's fields have no type.
func fieldComments(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	comments := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		s, ok := spec.Type.(*ast.StructType)
		if !ok {
			return true
		}
		owner := fold(spec.Name.Name)
		if owner == "config" {
			owner = ""
		}
		for _, f := range s.Fields.List {
			for _, name := range f.Names {
				comments[owner+"."+fold(name.Name)] = f.Comment.Text()
			}
		}
		return true
	})
	return comments
}
