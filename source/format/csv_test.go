package format

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
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
		"points between thousands":      {"a;b\n1,5;2.5\n-1.234,25;3\n1.234;3\n", "a float64, b float64\n1.5|2.5\n-1234.25|3\n1234|3"},
		"spaces around values":          {" a , b\n 1 , 2.5 \n2,  \n", "a int64, b float64\n1|2.5\n2|(null)"},
		"decimal commas in quotes":      {"a,b\n\"1,5\",1\n\"2,25\",2\n", "a float64, b int64\n1.5|1\n2.25|2"},
		"commas between thousands":      {"a,b\n\"1,234\",\"1,234.5\"\n999,2\n", "a float64, b float64\n1234|1234.5\n999|2"},
		"the same, and semicolons":      {"a;b\n1,234.5;1,234\n2,345;1,5\n", "a float64, b float64\n1234.5|1.234\n2345|1.5"},
		"spaces between thousands":      {"a;b;c\n1 234,5;1 234;1\u202f234\n999,5;999.5;5\n", "a float64, b float64, c float64\n1234.5|1234|1234\n999.5|999.5|5"},
		"a point in a column of commas": {"a;b\n1,5;1\n2.5;2\n", "a float64, b int64\n1.5|1\n2.5|2"},
		"what stands for nothing":       {"a,b\nN/A,n/a\n1,None\n#N/A,2.5\n", "a int64, b float64\n(null)|(null)\n1|(null)\n(null)|2.5"},
		"the month first":               {"a,b\n1/31/2026 11:59:00 PM,01/31/26 23:59\n2/1/2026 12:01 AM,02/01/26 00:01\n", "a timestamp[us, tz=UTC], b timestamp[us, tz=UTC]\n2026-01-31 23:59:00Z|2026-01-31 23:59:00Z\n2026-02-01 00:01:00Z|2026-02-01 00:01:00Z"},
		"the day first":                 {"a,b\n31/01/2026 23:59,31-01-2026\n01/02/2026 00:01,01-02-2026\n", "a timestamp[us, tz=UTC], b timestamp[us, tz=UTC]\n2026-01-31 23:59:00Z|2026-01-31 00:00:00Z\n2026-02-01 00:01:00Z|2026-02-01 00:00:00Z"},
		"month or day, by which is near": {"a,b\n01/02/2026,01/02/2026\n02/02/2026,01/03/2026\n03/02/2026,01/04/2026\n",
			"a timestamp[us, tz=UTC], b timestamp[us, tz=UTC]\n2026-02-01 00:00:00Z|2026-01-02 00:00:00Z\n2026-02-02 00:00:00Z|2026-01-03 00:00:00Z\n2026-02-03 00:00:00Z|2026-01-04 00:00:00Z"},
		"times with zones": {"a,b\n2026-01-31 12:00:00+0100,20260131T120000Z\n2026-01-31 12:00:00 +0100,31-Jan-2026 12:00\n2026-01-31 12:00:00 UTC,2026-01-31\n",
			"a timestamp[us, tz=UTC], b timestamp[us, tz=UTC]\n2026-01-31 11:00:00Z|2026-01-31 12:00:00Z\n2026-01-31 11:00:00Z|2026-01-31 12:00:00Z\n2026-01-31 12:00:00Z|2026-01-31 00:00:00Z"},
		"bars":                         {"a|b\n1|2.5\n", "a int64, b float64\n1|2.5"},
		"decimal commas, no names":     {"1,5;2,5;3,5\n2,5;3,5;4,5\n", "column_1 float64, column_2 float64, column_3 float64\n1.5|2.5|3.5\n2.5|3.5|4.5"},
		"no names":                     {"1,2\n3,4\n", "column_1 int64, column_2 int64\n1|2\n3|4"},
		"no names, times":              {"2026-01-31 12:00,1\n2026-01-31 12:01,2\n", "column_1 timestamp[us, tz=UTC], column_2 int64\n2026-01-31 12:00:00Z|1\n2026-01-31 12:01:00Z|2"},
		"no names, a text":             {"2026-01-31,on,1.5\n2026-02-01,off,2\n2026-02-02,on,3\n", "column_1 timestamp[us, tz=UTC], column_2 utf8, column_3 float64\n2026-01-31 00:00:00Z|on|1.5\n2026-02-01 00:00:00Z|off|2\n2026-02-02 00:00:00Z|on|3"},
		"a year among the names":       {"name,2026\nx,1\nx,2\n", "name utf8, 2026 int64\nx|1\nx|2"},
		"Windows-1252":                 {"Kühlung;°C\nläuft – 5 €;1,5\n", "Kühlung utf8, °C float64\nläuft – 5 €|1.5"},
		"UTF-16":                       {"Kühlung;°C\nläuft – 5 €;1,5\n", "Kühlung utf8, °C float64\nläuft – 5 €|1.5"},
		"numbers as names":             {"0,1\n3,4\n", "0 int64, 1 int64\n3|4"},
		"times of other lands":         {"a;b\n31.01.2026 12:00;2026/01/31 12:00:01\n", "a timestamp[us, tz=UTC], b timestamp[us, tz=UTC]\n2026-01-31 12:00:00Z|2026-01-31 12:00:01Z"},
		"tabs":                         {"a\tb\n1\t2\n", "a int64, b int64\n1|2"},
		"the index of pandas":          {",a\n0,1.5\n1,2\n", "column_1 int64, a float64\n0|1.5\n1|2"},
		"no rows":                      {"a,b\n", "a float64, b float64"},
		"a number too large for int64": {"a\n9223372036854775808\n1\n", "a float64\n9.223372036854776e+18\n1"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := c.text, error(nil)
			switch name {
			case "Windows-1252":
				text, err = charmap.Windows1252.NewEncoder().String(text)
			case "UTF-16":
				text, err = unicode.UTF16(unicode.BigEndian, unicode.UseBOM).NewEncoder().String(text)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, most := range []int{0, 2, 1} {
				if diff := cmp.Diff(c.want, dumpCSV(t, text, FileConfig{MaxRows: most})); diff != "" {
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
		"a,b\r1,2\r3,4\r":   "its lines end with CR alone",
		"a\x00,\x00b\x00\n\x001\x00,\x002\x00\n\x00": "save it as UTF-8",
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

// A compressed file has the rows of a plain one, in whatever order its batches are read.
func TestCSVPacked(t *testing.T) {
	var text strings.Builder
	text.WriteString("a;b\n")
	for i := range 5000 {
		fmt.Fprintf(&text, "%d,5;%d\n", i, i%7)
	}
	path := filepath.Join(t.TempDir(), "rows.csv.gz")
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write([]byte(text.String()))
	if err := errors.Join(err, w.Close(), os.WriteFile(path, packed.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(path, FileConfig{MaxRows: 700})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for _, i := range []int{0, 1, 2, 7, 3, 4} {
		rec, err := f.Read(i)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := rec.Column(0).ValueStr(0), fmt.Sprintf("%d.5", 700*i); got != want {
			t.Errorf("batch %d begins with %s, want %s", i, got, want)
		}
		rec.Release()
	}
	if err := os.WriteFile(path, packed.Bytes()[:packed.Len()/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err := OpenFile(path, FileConfig{}); err == nil {
		_ = f.Close()
		t.Error("half of a file is read")
	}
}

// Where faults are asked for, lines that are no rows are passed over, and values that are none of their column's are null: each is named by its line.
func TestCSVBad(t *testing.T) {
	const text = "a,b,name\n1,2,x\n3,4\n5,ERR,y\n6,7,z\n8\"9,1,x\n8,9,1\n"
	for _, most := range []int{0, 2, 1} {
		var said []string
		got := dumpCSV(t, text, FileConfig{MaxRows: most, Bad: func(b Bad) {
			said = append(said, fmt.Sprintf("%d %s %s", b.Line, b.Column, b.What))
		}})
		if want := "a int64, b int64, name utf8\n1|2|x\n5|(null)|y\n6|7|z\n8|9|1"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		want := []string{"3  wrong number of fields", `6  bare " in non-quoted-field`, "4 b ERR"}
		if diff := cmp.Diff(want, said); diff != "" {
			t.Errorf("at most %d rows: %s", most, diff)
		}
	}
	// Titles, a line of a date, and lines that are as wide as the others and nearly empty come before the names.
	var said []int64
	got := dumpCSV(t, "Export,,\nmade 2026\n\nat,a,b\n2026-01-31,1,2\n2026-02-01,3,4\n2026-02-02,5,6\n", FileConfig{MaxRows: 2, Bad: func(b Bad) { said = append(said, b.Line) }})
	if want := "at timestamp[us, tz=UTC], a int64, b int64\n2026-01-31 00:00:00Z|1|2\n2026-02-01 00:00:00Z|3|4\n2026-02-02 00:00:00Z|5|6"; got != want || !slices.Equal(said, []int64{1, 2}) {
		t.Errorf("%s, %d; want %s", got, said, want)
	}
	for text, want := range map[string]string{
		"a,a,b\n1,2,3\n":             "a int64, a_2 int64, b int64\n1|2|3", // it is said which name it is
		"a,b\n1,2,\n3,4,\n":          "a int64, b int64, column_3 float64\n1|2|(null)\n3|4|(null)",
		"a, \"b\"\n1, \"2\"\n3, 4\n": "a int64, b int64\n1|2\n3|4",
		"a\tb\tc\n1\t\t2\n3\t\t\n":   "a int64, b float64, c int64\n1|(null)|2\n3|(null)|(null)",
	} {
		if got := dumpCSV(t, text, FileConfig{Bad: func(Bad) {}}); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
	for text, says := range map[string]string{
		"a,b\n1,2\n1,2,3\n1,2,3\n": "lines that are no rows: 2 of 3; the first: record on line 3",
		"a,b\n1,\"2\n3,4\n5,6\n":   "row 0: record on line 2; parse error on line 4", // what is behind an open quote may be anything
	} {
		f, err := OpenFile(csvOf(t, text), FileConfig{Bad: func(Bad) {}})
		if err == nil {
			_ = f.Close()
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v does not say %q", text, err, says)
		}
	}
}

// Numbers are times by their size.
func TestEpoch(t *testing.T) {
	at, _ := ParseTime("2026-05-03T10:14:00.5Z")
	want := at.UnixMicro()
	for _, v := range []float64{1777803240.5, 1777803240.5e3, 1777803240.5e6, 1777803240.5e9} {
		if got, ok := Epoch(v); !ok || got != want {
			t.Errorf("%v is %d, want %d", v, got, want)
		}
	}
	for _, v := range []float64{math.NaN(), math.Inf(1), 1e30} {
		if _, ok := Epoch(v); ok {
			t.Errorf("%v is a time", v)
		}
	}
}
