package transform

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/twmb/avro"

	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// Rows of a message whose models are named by a column become what each becomes under its model alone, in their places, and say
// which model that was.
func TestRowsOfAColumnAreThoseOfTheirModels(t *testing.T) {
	models := modelsOf(t, 12)
	by := modelkey.By{Place: modelkey.Column, Name: "machine"}
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 2))
			topic := newKeyedTopic(t, 2)
			config := keyedConfig(encode.OutputConfig{Format: []encode.Format{encode.FormatInput, encode.FormatArrow}[r.IntN(2)], Passthrough: r.IntN(3) > 0, Score: r.IntN(3) > 0, P: r.IntN(3) > 0, Why: r.IntN(3), Layout: encode.Layout(r.IntN(2))},
				[]reject.OnInvalid{reject.NullRow, reject.RejectRow, reject.ImputeRow}[r.IntN(3)], []UntilModel{PassThrough, Drop}[r.IntN(2)])
			config.Output.Imputed, config.Output.Models = config.OnInvalid == reject.ImputeRow, true
			if r.IntN(3) == 0 {
				config.Columns = nil // all columns of numbers but that of the machine
			}
			fleet := keyedModels(t, topic, by, []int{1, 60 << 10, 1 << 20}[r.IntN(3)])
			stage := keyedStage(fleet, config)
			newest := map[string]*snapshot.Snapshot{}
			for batch := range 5 {
				for range r.IntN(5) {
					key := fmt.Sprint(r.IntN(9))
					s := snapshotOf(models[r.IntN(len(models))], key, uint64(batch*10+1+r.IntN(5)))
					if was := newest[key]; was == nil || was.Version < s.Version {
						topic.publish(s)
						newest[key] = s
					}
				}
				if err := fleet.CatchUp(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
				var all []source.Message
				for i := range r.IntN(9) {
					m := source.Message{Partition: fixtures.Events, Offset: int64(batch*100 + i), Key: []byte("x"), Time: time.Unix(1000, 0)}
					switch r.IntN(10) {
					case 0:
					case 1:
						m.Value = []byte("garbage")
					case 2:
						m.Value = []byte(`[{"a":1,"b":2,"c":3,"machine":[1]}]`)
					default:
						m.Value = machineRows(r, r.IntN(40), r.IntN(4) == 0)
					}
					all = append(all, decodedAs(t, m))
				}
				work, err := stage.Do(context.Background(), source.Batch{Messages: all})
				if err != nil {
					t.Fatal(err)
				}
				checkColumn(t, config, newest, all, work)
				stage.Kept()
			}
		})
	}
}

// machineRows is a message whose rows are of different machines, some of no machine.
func machineRows(r *rand.Rand, rows int, one bool) []byte {
	text := []byte{'['}
	machine := fmt.Sprint(r.IntN(11)) // two have no model
	for i := range rows {
		if i > 0 {
			text = append(text, ',')
		}
		if !one && r.IntN(3) > 0 {
			machine = fmt.Sprint(r.IntN(11))
			if r.IntN(15) == 0 {
				machine = "null"
			}
		}
		a := fmt.Sprint(r.NormFloat64() * 4)
		if r.IntN(15) == 0 {
			a = "null"
		}
		text = fmt.Appendf(text, `{"a":%s,"b":%v,"c":%v,"machine":%s}`, a, r.NormFloat64()*5, r.NormFloat64()*6, machine)
	}
	return append(text, ']')
}

// rowsIn reads the rows of an output.
func rowsIn(t *testing.T, m sink.Message) (rows []map[string]any) {
	t.Helper()
	text := m.Whole()
	if source.LastHeader(m.Headers, "content-type") != "application/json" {
		rec := fixtures.ReadStream(t, text)
		var err error
		if text, err = rec.MarshalJSON(); err != nil {
			t.Fatal(err)
		}
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&rows); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return rows
}

// checkColumn compares each row with what becomes of it in a message that is whitened with its model alone.
func checkColumn(t *testing.T, c TransformConfig, newest map[string]*snapshot.Snapshot, all []source.Message, work pipeline.Work) {
	t.Helper()
	got := map[string][]sink.Message{}
	for _, m := range work.Messages {
		if m.Topic == "alarms" {
			var event Alarm
			if err := json.Unmarshal(m.Value, &event); err != nil || event.ModelID != string(m.Key) {
				t.Fatalf("alarm %s of key %s: %v", m.Value, m.Key, err)
			}
			got[fmt.Sprint("alarms ", event.Source.Offset)] = append(got[fmt.Sprint("alarms ", event.Source.Offset)], m)
			continue
		}
		at := source.LastHeader(m.Headers, "lca-source-offset")
		got[at] = append(got[at], m)
		if v := source.LastHeader(m.Headers, "lca-model-version"); m.Topic == "out" && m.Value != nil && (v != "0" || source.LastHeader(m.Headers, "lca-model-id") != "m") {
			t.Fatalf("headers of model %s, version %s", source.LastHeader(m.Headers, "lca-model-id"), v)
		}
	}
	for i := range all {
		m := &all[i]
		out := got[fmt.Sprint(m.Offset)]
		alarms := got[fmt.Sprint("alarms ", m.Offset)]
		if m.Value == nil || m.Err != nil {
			if len(out) != 1 || (m.Err != nil) != (out[0].Topic == "dead") {
				t.Fatalf("offset %d became %v", m.Offset, out)
			}
			continue
		}
		var rows []map[string]any
		d := json.NewDecoder(bytes.NewReader(m.Value))
		d.UseNumber()
		if err := d.Decode(&rows); err != nil {
			t.Fatal(err)
		}
		keyless, modelless, invalid, wrong := 0, 0, false, false
		want := make([]map[string]any, len(rows))
		var told []string
		for k, row := range rows {
			machine, ok := row["machine"].(json.Number)
			if _, list := row["machine"].([]any); list {
				wrong = true
			}
			s := newest[string(machine)]
			if !ok {
				keyless++
			} else if s == nil {
				modelless++
			}
			if !ok || s == nil {
				s = nil
			} else if row["a"] == nil {
				invalid = true
			}
			want[k] = rowAlone(t, c, s, *m, k, &told)
		}
		dead := wrong || c.OnInvalid == reject.RejectRow && (invalid || keyless > 0)
		switch {
		case len(rows) == 0:
			if len(out) != 0 {
				t.Fatalf("offset %d has no rows and becomes %d messages", m.Offset, len(out))
			}
			continue
		case dead:
			if len(out) != 1 || out[0].Topic != "dead" || len(alarms) != 0 {
				t.Fatalf("offset %d: %d outputs, want a dead letter", m.Offset, len(out))
			}
			continue
		case modelless == len(rows) && c.UntilModel == Drop:
			if len(out) != 0 {
				t.Fatalf("offset %d is not dropped: %s", m.Offset, out[0].Headers)
			}
			continue
		}
		if len(out) != 1 || out[0].Topic != "out" {
			t.Fatalf("offset %d: %d outputs, to %s: %s", m.Offset, len(out), out[0].Topic, source.LastHeader(out[0].Headers, "lca-error"))
		}
		is := rowsIn(t, out[0])
		if len(is) != len(rows) {
			t.Fatalf("offset %d: %d rows of %d", m.Offset, len(is), len(rows))
		}
		for k := range is {
			if !reflect.DeepEqual(is[k], want[k]) {
				t.Fatalf("offset %d row %d of %s:\n%v\nwant\n%v", m.Offset, k, m.Value, is[k], want[k])
			}
		}
		if len(told) != len(alarms) {
			t.Fatalf("offset %d: %d alarms, want %d", m.Offset, len(alarms), len(told))
		}
		for k := range told {
			if told[k] != string(alarms[k].Value) {
				t.Fatalf("alarm %s, want %s", alarms[k].Value, told[k])
			}
		}
	}
}

// rowAlone is a row of an output that is whitened with one model, and that model; told: its alarm is added.
func rowAlone(t *testing.T, c TransformConfig, s *snapshot.Snapshot, m source.Message, row int, told *[]string) map[string]any {
	t.Helper()
	c.Columns, c.Output.Models, c.UntilModel = []string{"a", "b", "c"}, false, PassThrough
	if c.OnInvalid == reject.RejectRow {
		c.OnInvalid = reject.NullRow // of other rows
	}
	id := "m"
	if s != nil {
		id = s.ModelID
	}
	var reader *format.Decoder = fixtures.NewDecoder(t, format.Config{})
	var err error
	if m.Record, m.Format, err = reader.DecodeIn(t.Context(), nil, m.Value, ""); err != nil {
		t.Fatal(err)
	}
	work, err := transformAlone(c, s, id).Do(t.Context(), source.Batch{Messages: []source.Message{m}})
	if err != nil {
		t.Fatal(err)
	}
	one := rowsIn(t, work.Messages[0])[row]
	one["lca_model"], one["lca_version"] = any(nil), any(nil)
	if s != nil {
		one["lca_model"], one["lca_version"] = id, json.Number(fmt.Sprint(s.Version))
	}
	for _, out := range work.Messages[1:] {
		var event Alarm
		if err := json.Unmarshal(out.Value, &event); err != nil {
			t.Fatal(err)
		}
		if *event.Source.Row == row {
			*told = append(*told, string(out.Value))
		}
	}
	return one
}

// An output of Avro has the fields of the columns of an Arrow output, the model and its version among them.
func TestModelsInAvro(t *testing.T) {
	const schema = `{"type":"record","name":"Row","fields":[{"name":"machine","type":["null","string"]},{"name":"a","type":"double"},{"name":"b","type":"double"},{"name":"c","type":"double"}]}`
	topic := newKeyedTopic(t, 2)
	one := modelsOf(t, 1)[0]
	topic.publish(snapshotOf(one, "x", 3))
	topic.publish(snapshotOf(fixtures.Young(one), "young", 4))
	s := &schemaStore{schemas: map[int]*format.Schema{7: {ID: 7, Type: format.SchemaAvro, Text: schema}}}
	var inputs []source.Message
	for _, machine := range []any{"x", "y", nil, "young"} {
		inputs = append(inputs, s.named(t, 7, avroBody(t, schema, map[string]any{"machine": machine, "a": 1.5, "b": 2.5, "c": 3.5})))
	}
	for _, layout := range encode.Layouts() {
		whiten := func(f encode.Format) (out []sink.Message) {
			config := keyedConfig(encode.OutputConfig{Format: f, Passthrough: true, Score: true, P: true, Recent: true, Why: 1, Models: true, Layout: layout}, reject.NullRow, PassThrough)
			config.Registry = s
			models := keyedModels(t, topic, modelkey.By{Place: modelkey.Column, Name: "machine"}, 1<<20)
			if err := models.CatchUp(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			work, err := keyedStage(models, config).Do(t.Context(), source.Batch{Messages: inputs})
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range work.Messages {
				if m.Topic == "out" {
					out = append(out, fixtures.Stored(m))
				}
			}
			return out
		}
		arrows, avros := whiten(encode.FormatArrow), whiten(encode.FormatInput)
		for k := range inputs {
			id, body, _ := format.SchemaID(avros[k].Value)
			var row map[string]any
			if rest, err := avro.MustParse(s.schemas[id].Text).Decode(body, &row); err != nil || len(rest) > 0 {
				t.Fatalf("%v: %v, %d bytes left", layout, err, len(rest))
			}
			rec := fixtures.ReadStream(t, arrows[k].Value)
			if want := any("m/0/x"); k == 0 && (row["lca_model"] != want || row["lca_version"] != int64(3)) || (k == 1 || k == 2) && row["lca_model"] != nil || (k == 3) != (row["lca_score"] == nil && row["lca_recent_score"] != nil) || len(row) != int(rec.NumCols()) {
				t.Errorf("%v, row %d: %v", layout, k, row)
			}
			for j, f := range rec.Schema().Fields() {
				if !strings.HasPrefix(f.Name, "lca") || rec.Column(j).DataType().ID() == arrow.INT64 || rec.Column(j).DataType().ID() == arrow.STRING {
					continue
				}
				var want any
				if err := json.Unmarshal([]byte(cell(rec.Column(j), 0)), &want); err != nil {
					t.Fatal(err)
				}
				if got, err := json.Marshal(row[f.Name]); err != nil || !sameJSON(got, want) {
					t.Errorf("%v, row %d: %s is %s, want %v", layout, k, f.Name, got, want)
				}
			}
		}
	}
}
