//go:build unix

package encode

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/internal/testtools"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
)

// extended is the output of a text of JSON of some rows; the last one of several is null.
func extended(t *testing.T, c OutputConfig, text string, rows int, opens bool) (string, error) {
	t.Helper()
	w := &Whitened{K: 2, Features: []string{"payload.a", "b"}}
	for i := range rows {
		w.Y, w.Score, w.P = append(w.Y, float32(i)+.5, -1), append(w.Score, 2.25), append(w.P, .125)
		w.Why = append(w.Why, lca.Gain{Column: 1, Nats: 1.5})
		w.Invalid = append(w.Invalid, minibatch.ReasonNone)
		w.Models = append(w.Models, Origin{ID: "m", Version: 7})
	}
	if rows > 1 {
		w.Invalid[rows-1] = minibatch.ReasonNull
	}
	rec := array.NewRecord(arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Float64}}, nil), []arrow.Array{fixtures.NumbersColumn(rows)}, int64(rows))
	out, err := NewJSONOutput(c).Extend(nil, []byte(text), rec, w, opens)
	return string(out), err
}

// A § is where our keys go, a ¶ where what they are goes; a % before one says that nothing is before it.
var enveloped = []struct {
	name, text string
	rows       int
}{
	{"Connect", `{"schema":{"type":"struct","fields":[{"type":"int32","optional":false,"field":"id"}¶],"optional":false,"name":"r"},"payload":{"id": 1§}}`, 1},
	{"payload first, with space", " \n{ \"payload\" : { \"id\" : 1.50 §} , \"schema\" : { \"fields\" : [ {\"type\":\"double\",\"field\":\"id\"} ¶] , \"type\" : \"struct\" } }\r\n", 1},
	{"nothing in it", `{"schema":{"type":"struct","fields":[ %¶]},"payload":{ %§}}`, 1},
	{"null", `{"schema":{"type":"struct","optional":true,"fields":[{"type":"int32","field":"id"}¶]},"payload":null}`, 1},
	{"without a schema", `{"schema":null,"payload":{"id":1§}}`, 1},
	{"without anything", `{"schema":null,"payload":null}`, 1},
	{"an array", `[{"schema":{"type":"struct","fields":[{"type":"string","field":"}]"}¶]},"payload":{"}]":"{[\"\\"§}}, {"schema":null,"payload":{"a":[{}],"b":{"c":[]}§}} ]`, 2},
	{"lines, of which one is none", "{\"schema\":null,\"payload\":{%§}}\n{\"a\":1§}\n", 2},
	{"Debezium", `{"schema":{"type":"struct","fields":[{"type":"struct","fields":[{"type":"double","optional":true,"field":"t"}],"optional":true,"name":"d.Value","field":"before"},` +
		`{"type":"struct","fields":[{"type":"double","optional":true,"field":"t"}],"optional":true,"name":"d.Value","field":"after"},{"type":"string","optional":false,"field":"op"}¶],` +
		`"optional":false,"name":"d.Envelope","version":1},"payload":{"before":null,"after":{"t":20.5},"op":"c"§}}`, 1},
	{"CloudEvents", `{"specversion":"1.0","type":"t","source":"/s","id":"1","datacontenttype":"application/json","data":{"t":20.5§}}`, 1},
	{"CloudEvents, data first", `{"data":{"t":NaN,"u":[1,{}],"v":-Infinity§},"id":"1","source":"/s","type":"t","specversion":"1.0"}`, 1},
	{"CloudEvents without data", `{"specversion":"1.0","type":"t","source":"/s","id":"1","data":null}`, 1},
	{"Debezium in CloudEvents", `{"id":"1","source":"/s","specversion":"1.0","type":"t","data":{"schema":{"type":"struct","fields":[{"type":"string","optional":false,"field":"op"}¶]},"payload":{"op":"c"§}}}`, 1},
	{"Connect, escaped", `[{"sch\u0065ma":{"typ\u0065":"struc\u0074","fi\u0065lds":[{"type":"int32","field":"id"}¶]},"p\u0061yload":{"id":1§}},` +
		`{"\u0070ayload":{"id":1§},"\u0073chema":null},{"schema":null,"pay\u006coad":{"id":1§}}]`, 3},
	{"CloudEvents, escaped", `{"sp\u0065cversion":"1.0","typ\u0065":"t","sourc\u0065":"/s","\u0069d":"1","d\u0061ta":{"t":20.5§}}`, 1},
	{"a payload of an event", `{"payload":1,"specversion":"1.0","type":"t","source":"/s","id":"1","data":{"t":20.5§}}`, 1},
	{"escaped, and none", `[{"sch\u0065m\u00e4":null,"payload":{}§},{"\u0073\"":1,"payload":{}§},{"p\u0061yload":{},"a":"\u0061"§}]`, 3},
	{"rows that are no envelope", `[{"schema":1,"payload":{"id":1}§},{"schema":{"type":"struct","fields":[]},"payload":[1,2]§},{"schema":{"type":"struct"},"payload":{}§},` +
		`{"schema":{"type":"map","fields":[]},"payload":{}§},{"schema":{"type":"struct","fields":[1]},"payload":{}§},{"payload":{},"a":1§},{"payload":{"x":1}§},` +
		`{"schema":null,"payload":{},"a":1§},{"specversion":"1.0","type":"t","source":"/s","data":{}§},{"specversion":"1.0","type":"t","source":"/s","id":"1","data_base64":"AA=="§},` +
		`{"specversion":"1.0","type":"t","source":"/s","id":"1","data":"{}"§},{"a":{"schema":null,"payload":{}}§},{"a":"\"specversion\""§},{%§}]`, 14},
}

// Our keys go to where the row is, what they are to the schema, and every other byte stays.
func TestEnvelopes(t *testing.T) {
	for _, config := range []OutputConfig{
		{Passthrough: true, Score: true, P: true, Why: 1, Imputed: true, Models: true},
		{Passthrough: true, Layout: LayoutColumns, Column: "w\""},
	} {
		for _, c := range enveloped {
			plain := strings.NewReplacer("%", "", "§", "", "¶", "").Replace(c.text)
			got, err := extended(t, config, plain, c.rows, true)
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			alone := config
			alone.Passthrough = false
			keys, err := extended(t, alone, "["+plain, c.rows, true)
			if err != nil {
				t.Fatal(err)
			}
			if want := filled(c.text, config, keys); got != want {
				t.Errorf("%s: %s", c.name, cmp.Diff(want, got))
			}
		}
	}
	const text = `{"schema":null,"payload":{"a":1}}`
	if got, err := extended(t, OutputConfig{Passthrough: true}, text, 1, false); err != nil || got != text[:len(text)-1]+`,"lca":[0.5,-1]}` {
		t.Errorf("where a schema of a registry says what is at the top: %s, %v", got, err)
	}
}

// filled is a text with our keys, which are those of an array of rows that have no others.
func filled(text string, config OutputConfig, keys string) string {
	var rows []json.RawMessage
	if err := json.Unmarshal([]byte(keys), &rows); err != nil {
		panic(err)
	}
	config = config.withDefaults()
	schemas := string(connectSchemas(config.fields(2)))
	var b strings.Builder
	for i, row := range strings.SplitAfter(text, "§") {
		ours := ""
		if i < len(rows) {
			ours = "," + string(rows[i][1:len(rows[i])-1])
		}
		b.WriteString(strings.NewReplacer("%§", ours[min(1, len(ours)):], "§", ours, "%¶", schemas[1:], "¶", schemas).Replace(row))
	}
	return b.String()
}

// A row that has our keys already is set aside, as it is without an envelope.
func TestEnvelopesWithOurKeys(t *testing.T) {
	for text, column := range map[string]string{
		`{"schema":null,"payload":{"a":1,"lca_p":1}}`:                                                        "payload.lca_p",
		`{"schema":null,"payload":{"l\u0063a":1}}`:                                                           "payload.lca",
		`{"schema":{"type":"struct","fields":[{"type":"float","field":"lca"}]},"payload":{}}`:                "schema.fields: lca",
		`{"schema":{"type":"struct","fields":[{"type":"float","fi\u0065ld":"lc\u0061"}]},"payload":{}}`:      "schema.fields: lca",
		`{"specversion":"1.0","type":"t","source":"/s","id":"1","data":{"lca":null}}`:                        "data.lca",
		`{"specversion":"1.0","type":"t","source":"/s","id":"1","data":{"schema":null,"payload":{"lca":1}}}`: "payload.lca",
		`[{"schema":null,"payload":{"a":1}},{"schema":null,"payload":{"lca":1}}]`:                            "payload.lca",
	} {
		out, err := extended(t, OutputConfig{Passthrough: true, P: true}, text, 1+strings.Count(text, "},{"), true)
		var bad *OutputError
		if !errors.As(err, &bad) || bad.Code != reject.CodeOutputColumnExists || bad.Column != column || out != "" {
			t.Errorf("%s: %q, %v, want column %s", text, out, err, column)
		}
	}
}

// What came from Kafka Connect goes back to it: its own converter, whose default is that each value has its schema, reads what we make of each row.
func TestKafkaConnectReadsOutput(t *testing.T) {
	const in = `{"schema": {"type": "struct", "fields": [{"type": "int32", "optional": false, "field": "id"}, {"type": "double", "field": "temp"}, ` +
		`{"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "version": 1, "parameters": {"scale": "3"}, "field": "flow"}], "optional": OPTIONAL, "name": "r"}, ` +
		`"payload": PAYLOAD}`
	row := func(optional, payload string) string {
		return strings.NewReplacer("OPTIONAL", optional, "PAYLOAD", payload).Replace(in)
	}
	const all = `{"id": 1, "temp": 19.46, "flow": "D7E="}`
	debezium := enveloped[8].text
	config := OutputConfig{Passthrough: true, Score: true, P: true, Why: 1, Imputed: true, Models: true}
	columns := OutputConfig{Passthrough: true, Layout: LayoutColumns, Score: true}
	var lines, want []string
	for _, c := range []struct {
		config     OutputConfig
		text, want string
		null       bool
	}{
		{config, row("false", all), `Struct{id=1,temp=19.46,flow=4.017,lca=[0.5, -1.0],lca_score=2.25,lca_p=0.125,lca_why=[Struct{feature=b,nats=1.5}],lca_imputed=0,lca_model=m,lca_version=7}`, false},
		{config, row("false", all), `Struct{id=1,temp=19.46,flow=4.017,lca_model=m,lca_version=7}`, true},
		{config, row("true", "null"), `null`, true},
		{columns, row("false", all), `Struct{id=1,temp=19.46,flow=4.017,lca_0=0.5,lca_1=-1.0,lca_score=2.25}`, false},
		{columns, row("false", all), `Struct{id=1,temp=19.46,flow=4.017}`, true},
		{columns, strings.NewReplacer("§", "", "¶", "").Replace(debezium), `Struct{after=Struct{t=20.5},op=c,lca_0=0.5,lca_1=-1.0,lca_score=2.25}`, false},
		{columns, `{"schema":null,"payload":{"id":1}}`, `{id=1, lca_0=0.5, lca_1=-1, lca_score=2.25}`, false},
	} {
		text, rows := c.text, 1
		if c.null { // the last of two
			text, rows = c.text+"\n"+c.text, 2
		}
		out, err := extended(t, c.config, text, rows, true)
		if err != nil {
			t.Fatal(err)
		}
		lines, want = append(lines, out[strings.LastIndexByte(out, '\n')+1:]), append(want, c.want)
	}
	testtools.Tool(t, "javac", "to run testdata/ReadConnect.java", "apt-get install default-jdk-headless", "brew install openjdk")
	path := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("java", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(kafkatest.ConnectJars(t), "*"), "testdata/ReadConnect.java", path)
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s%s", err, out, &log)
	}
	if d := cmp.Diff(want, strings.Split(strings.TrimSpace(string(out)), "\n")); d != "" {
		t.Error(d)
	}
}
