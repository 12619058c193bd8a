package format

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/google/go-cmp/cmp"
)

func csvOf(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rows.csv")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// dumpCSV is the types of a CSV file, and its rows, however it is cut into batches.
func dumpCSV(t *testing.T, text string, c FileConfig) string {
	t.Helper()
	f, err := OpenFile(csvOf(t, text), c)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var types []string
	for _, field := range f.Schema().Fields() {
		types = append(types, field.Name+" "+field.Type.String())
	}
	rows := int64(0)
	lines := []string{strings.Join(types, ", ")}
	for i := range f.Batches() {
		rec, err := f.Read(i)
		if err != nil {
			t.Fatal(err)
		}
		rows += rec.NumRows()
		for row := range int(rec.NumRows()) {
			var values []string
			for _, col := range rec.Columns() {
				values = append(values, col.ValueStr(row))
			}
			lines = append(lines, strings.Join(values, "|"))
		}
		rec.Release()
	}
	if rows != f.Rows() {
		t.Errorf("%d rows, %d announced", rows, f.Rows())
	}
	return strings.Join(lines, "\n")
}

func TestCSV(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"types": {
			"i,f,at,ok,name,e\n1,2,2026-01-31T12:00:00Z,true,x,\n-2,2.5e3,2026-01-31 13:00:00,FALSE,1,\n,NaN,NA,null,,\n",
			"i int64, f float64, at timestamp[us, tz=UTC], ok bool, name utf8, e float64\n" +
				"1|2|2026-01-31 12:00:00Z|true|x|(null)\n-2|2500|2026-01-31 13:00:00Z|false|1|(null)\n(null)|NaN|(null)|(null)|(null)|(null)",
		},
		"a text among numbers":          {"a,b\n1,NA\nx,1\n", "a utf8, b int64\n1|(null)\nx|1"},
		"quotes, and a line in a field": {"a,b\n\"x, \"\"y\"\"\nz\",1\n", "a utf8, b int64\nx, \"y\"\nz|1"},
		"a mark, and lines of Windows":  {"\ufeffa,b\r\n1,2\r\n", "a int64, b int64\n1|2"},
		"semicolons":                    {"a;b\n1,5;2\n", "a utf8, b int64\n1,5|2"},
		"tabs":                          {"a\tb\n1\t2\n", "a int64, b int64\n1|2"},
		"the index of pandas":           {",a\n0,1.5\n1,2\n", "column_1 int64, a float64\n0|1.5\n1|2"},
		"no rows":                       {"a,b\n", "a float64, b float64"},
		"a number too large for int64":  {"a\n9223372036854775808\n1\n", "a float64\n9.223372036854776e+18\n1"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, most := range []int{0, 2, 1} {
				if diff := cmp.Diff(c.want, dumpCSV(t, c.text, FileConfig{MaxRows: most})); diff != "" {
					t.Errorf("at most %d rows: %s", most, diff)
				}
			}
		})
	}
	unneeded := FileConfig{Need: func(f arrow.Field) bool { return f.Name == "b" }}
	if got, want := dumpCSV(t, "a,b\n1,2\n", unneeded), "a null, b int64\n(null)|2"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestCSVRefused(t *testing.T) {
	for text, says := range map[string]string{
		"a,b\n1,2\n3\n":     "row 1: record on line 3: wrong number of fields",
		"a,b\n1,\"2\n3,4\n": "row 0: record on line 2; parse error on line 3",
		"a,a\n1,2\n":        `two columns have the name "a"`,
		"1,2\n3,4\n":        "its first line has numbers alone: name the columns there",
		"a,b\r1,2\r3,4\r":   "its lines end with CR alone",
		"\xff\xfea\x00,\x00b\x00\n\x001\x00,\x002\x00\n\x00": "save it as UTF-8",
		"\n":                   "its first line, which names the columns",
		"a,b\n\"x\"y,2\n3,4\n": `extraneous or missing " in quoted-field`,
	} {
		f, err := OpenFile(csvOf(t, text), FileConfig{})
		if err == nil {
			_ = f.Close()
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v does not say %q", text, err, says)
		}
	}
	// A record takes no more than its share of a batch.
	f, err := OpenFile(csvOf(t, "a,b\n1,\""+strings.Repeat("x", 3<<20)+"\"\n"), FileConfig{MaxBytes: 16 << 20})
	if err == nil {
		_ = f.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "it has more than 2097152 bytes") {
		t.Error(err)
	}
}
