package transform

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// probabilitiesOf reads lca_p of the rows that have one.
func probabilitiesOf(rec arrow.Record) (p []float32) {
	column := rec.Column(int(rec.Schema().FieldIndices("lca_p")[0])).(*array.Float32)
	for i := range column.Len() {
		if column.IsValid(i) {
			p = append(p, column.Value(i))
		}
	}
	return p
}

// alarmed is a transform with alarms for most rows.
func alarmed(t *testing.T, below float64) *Transform {
	t.Helper()
	tr := listTransform(t, reject.NullRow, fixtures.ListDim)
	tr.Alarms = Alarms{Topic: "alarms", Partition: 2, ModelID: "m", PBelow: below}
	return tr
}

// anomalies reads the alarms of a work by the row that they name, and checks that each follows what its input became.
func anomalies(t *testing.T, work pipeline.Work) map[string]Alarm {
	t.Helper()
	found, of := map[string]Alarm{}, ""
	for _, m := range work.Messages {
		if m.Topic != "alarms" {
			of = fixtures.Header(m, "lca-source-offset")
			continue
		}
		var a Alarm
		if err := json.Unmarshal(m.Value, &a); err != nil {
			t.Fatal(err)
		}
		if string(m.Key) != "m" || m.Partition != 2 || a.Type != AlarmAnomaly || a.Source.Topic != "events" || fmt.Sprint(a.Source.Offset) != of {
			t.Errorf("after the output of %s: key %s, partition %d, %s", of, m.Key, m.Partition, m.Value)
		}
		at := fmt.Sprintf("%d/%d", a.Source.Offset, *a.Source.Row)
		if _, twice := found[at]; twice {
			t.Errorf("two alarms of row %s", at)
		}
		found[at] = a
	}
	return found
}

// Each row of the output whose lca_p is below alarms.p_below has one record that says so, and no other row has any,
// whether alarms name the features of lca_why or their own.
func TestAnomalies(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	var values [][]byte
	for i := range 60 {
		values = append(values, fixtures.ListValue(t, r, []int{1, 3, 700}[i%3], []float32{0, 0, 9, 25}[i%4]))
	}
	d := fixtures.NewDecoder(t, format.Config{})
	for _, p := range []bool{true, false} {
		tr := alarmed(t, 0.9)
		tr.Output.P, tr.Output.Score = p, p
		work, err := tr.Do(t.Context(), batchOf(t, d, values))
		if err != nil {
			t.Fatal(err)
		}
		found := anomalies(t, work)
		if !p { // the same rows, though the output does not say so
			if len(found) == 0 || len(fixtures.ReadStream(t, work.Messages[0].Whole()).Schema().Fields()) != 2 {
				t.Errorf("%d alarms", len(found))
			}
			continue
		}
		rows := 0
		for _, m := range work.Messages {
			if m.Topic == "alarms" {
				continue
			}
			for row, p := range probabilitiesOf(fixtures.ReadStream(t, m.Whole())) {
				a, there := found[fmt.Sprintf("%s/%d", fixtures.Header(m, "lca-source-offset"), row)]
				if there != (p < 0.9) {
					t.Errorf("p = %g, an alarm: %v", p, there)
				}
				if there {
					rows++
					if *a.P != p || a.Version != 7 || a.ModelID != "m" || len(a.Why) != namedFeatures || a.Why[0].Nats < a.Why[1].Nats || a.Message == "" || a.Time.IsZero() {
						t.Errorf("p = %g: %+v", p, a)
					}
				}
			}
		}
		if rows != len(found) || rows < 30 {
			t.Errorf("%d alarms of %d rows", len(found), rows)
		}
		if tr.Kept(); tr.Stats.AnomalyRows.Load() != uint64(len(found)) {
			t.Errorf("%d rows are counted, %d alarms", tr.Stats.AnomalyRows.Load(), len(found))
		}
	}
}

// When all rows are anomalies, their alarms are put with the outputs that they belong to, however small the parts are;
// an output that its topic does not take leaves no alarm; and a message with more alarms than a message may whiten to is set aside.
func TestStormOfAnomalies(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	var values [][]byte
	for range 20 {
		values = append(values, fixtures.ListValue(t, r, 1+r.IntN(40), 0))
	}
	tr := alarmed(t, 2)
	batch := batchOf(t, fixtures.NewDecoder(t, format.Config{}), values)
	work, err := tr.Do(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	if found := anomalies(t, work); int64(len(found)) != batch.Rows() {
		t.Errorf("%d alarms of %d rows", len(found), batch.Rows())
	}
	for i := range work.Messages { // what is written is never longer than was reserved for it
		if m := &work.Messages[i]; m.Topic == "alarms" && int64(m.Size()) > tr.Alarms.bytes(tr.Follow.Current().Features) {
			t.Fatalf("an alarm of %d bytes, %d were reserved", m.Size(), tr.Alarms.bytes(tr.Follow.Current().Features))
		}
	}
	var parts []pipeline.Work
	for rest, n := work, (source.Offsets)(nil); ; {
		var first pipeline.Work
		if first, rest, n = tr.Split(rest, 1); n == nil {
			parts = append(parts, first)
			break
		}
		parts = append(parts, first)
		if next := n[fixtures.Events]; fmt.Sprint(next) != fixtures.Header(rest.Messages[0], "lca-source-offset") || rest.Messages[0].Topic != "out" {
			t.Fatalf("a part ends before offset %d, and the next begins with %s", next, rest.Messages[0].Topic)
		}
	}
	if len(parts) != len(values) {
		t.Errorf("%d parts of %d inputs", len(parts), len(values))
	}
	for i, part := range parts {
		if len(anomalies(t, part)) != len(part.Messages)-1 {
			t.Errorf("part %d has more than one output", i)
		}
	}
	left := parts[3]
	alone := len(left.Messages)
	if left, err = tr.Refuse(left, 0, &sink.TooLargeError{}); err != nil || len(left.Messages) != 1 || left.Messages[0].Topic != "dead" || alone < 2 {
		t.Errorf("%v, %d messages of %d are left", err, len(left.Messages), alone)
	}
	var stop *reject.Stop
	if _, err := tr.Refuse(parts[4], 1, &sink.TooLargeError{}); err == nil || !strings.Contains(fmt.Sprint(err), "takes 32768") {
		t.Errorf("an alarm that its topic does not take: %v, %v", err, stop)
	}
}

func TestTooManyAlarmsOfOneMessage(t *testing.T) {
	tr := alarmed(t, 2)
	tr.Follow.Current().Features = longNames()
	names := longNames()
	rows := encode.MostWhitened/(namedFeatures*2*nameBytes) + 1
	columns := int8Columns(rows, fixtures.ListDim)
	fields := columns.Schema().Fields()
	for j := range fields {
		fields[j].Name = names[j]
	}
	rec := array.NewRecord(arrow.NewSchema(fields, nil), columns.Columns(), int64(rows))
	work, err := tr.Do(t.Context(), source.Batch{Messages: []source.Message{{Partition: fixtures.Events, Offset: 3, Value: []byte("x"), Record: rec, Time: time.Now()}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(work.Messages) != 1 || source.LastHeader(work.Messages[0].Headers, "lca-error-code") != reject.CodeOutputTooLarge {
		t.Errorf("%d messages, the first %s", len(work.Messages), source.LastHeader(work.Messages[0].Headers, "lca-error"))
	}
}

// longNames are features whose names take twice as many bytes in JSON, and are longer than an alarm has room for.
func longNames() (names []string) {
	for j := range fixtures.ListDim {
		names = append(names, fmt.Sprintf("%d%s", j, strings.Repeat("\n", 2*nameBytes)))
	}
	return names
}
