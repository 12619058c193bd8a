package learn

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/lca/recent"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/models"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// seriesRow is a row of a test's stream, and the name of its series.
type seriesRow struct {
	x     [2]float64
	name  string
	aside *bool // a row of its message has a null
}

func (r *seriesRow) null() bool { return r.x[0] != r.x[0] || r.x[1] != r.x[1] }

// seriesStream makes messages of some rows each, of two partitions and some values, and of what series their rows are.
func seriesStream(by modelkey.By) (msgs []source.Message, rows []seriesRow) {
	r, offsets := rand.New(rand.NewPCG(9, 9)), [2]int64{}
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "a", Type: arrow.PrimitiveTypes.Float64, Nullable: true}, {Name: "b", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
		{Name: "of", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
	for range 900 {
		p := r.Int32N(2)
		m := source.Message{Partition: fixtures.Part(p), Offset: offsets[p]}
		offsets[p]++
		values := []string{"", "m1", "m2", "longer", "null"}
		of := values[r.IntN(len(values))]
		if of != "null" {
			m.Key, m.Headers = []byte(of), []source.Header{{Key: "of", Value: []byte(of)}}
		}
		b, aside := array.NewRecordBuilder(memory.DefaultAllocator, schema), false
		for range 1 + r.IntN(3) {
			if by.Place == modelkey.Column {
				of = values[r.IntN(len(values))]
			}
			row := seriesRow{name: fmt.Sprint(p, of), aside: &aside}
			if !by.Keyed() {
				row.name = fmt.Sprint(p)
			}
			for k := range row.x {
				row.x[k] = r.NormFloat64()
				if r.IntN(20) == 0 {
					row.x[k] = math.NaN()
					b.Field(k).AppendNull()
				} else {
					b.Field(k).(*array.Float64Builder).Append(row.x[k])
				}
			}
			if of == "null" {
				b.Field(2).AppendNull()
			} else {
				b.Field(2).(*array.StringBuilder).Append(of)
			}
			aside = aside || row.null()
			rows = append(rows, row)
		}
		m.Record = b.NewRecord()
		msgs = append(msgs, m)
	}
	return msgs, rows
}

// seriesLearner is a learner of the columns a and b that publishes nothing by itself.
func seriesLearner(by modelkey.By, minibatch int, invalid reject.OnInvalid) *Learn {
	c := online.DefaultConfig(1)
	c.Minibatch, c.Neighbours = minibatch, 300
	return &Learn{LearnConfig: LearnConfig{
		ModelID: "m", Columns: []string{"a", "b"}, Learner: c, Series: by, OnInvalid: invalid, Keep: 1, SnapshotRows: 1 << 62,
		Checkpoints: new(checkpoint.Checkpoints), Stats: stats.NewStats(), Log: fixtures.Quiet(), Now: time.Now,
	}}
}

// Minibatches that are skipped move their series on: the last rows of those that are learnt are the ones that were there.
func TestSkippedRowsMoveTheirSeries(t *testing.T) {
	t.Parallel()
	const minibatch = 50
	by := modelkey.By{Place: modelkey.Key}
	msgs, rows := seriesStream(by)
	l := seriesLearner(by, minibatch, reject.ImputeRow)
	l.LearnOneIn = 3
	l.reset(source.Offsets{})
	for i := range msgs {
		if err := l.message(t.Context(), &msgs[i]); err != nil {
			t.Fatal(err)
		}
		msgs[i].Record.Release()
	}
	m, err := l.learner.Model()
	if err != nil {
		t.Fatal(err)
	}
	direct, series := recent.NewLearner(2), map[string]*recent.Series{}
	var x []float64
	var turns []*recent.Series
	whole, minibatches := 0, 0
	for _, row := range rows {
		if series[row.name] == nil {
			series[row.name] = new(recent.Series)
		}
		if x, turns = append(x, row.x[:]...), append(turns, series[row.name]); !row.null() {
			whole++
		}
		if whole == minibatch {
			if minibatches%3 == 0 {
				direct.Learn(x, turns)
			} else {
				direct.Pass(x, turns)
			}
			x, turns, whole = nil, nil, 0
			minibatches++
		}
	}
	if got, want := m.Recent, direct.Evaluator(); got.Learnt < 300 || !reflect.DeepEqual(got, want) {
		t.Errorf("the evaluator has means %v after %d rows, want %v after %d", got.Charts.Mean, got.Learnt, want.Charts.Mean, want.Learnt)
	}
}

// A learner that is told that rows are normal has what scores the last rows learn them, however far they are from those before.
func TestNormalRowsAreLearnt(t *testing.T) {
	t.Parallel()
	const messages, per, minibatch = 220, 10, 40
	r := rand.New(rand.NewPCG(11, 9))
	var msgs []source.Message
	var x []float64
	for i := range messages {
		var value []byte
		for range per {
			a, b := r.NormFloat64(), r.NormFloat64()
			if i >= 150 {
				a += 40
			}
			x = append(x, a, b)
			value = fmt.Appendf(value, `{"a": %g, "b": %g}`+"\n", a, b)
		}
		msgs = append(msgs, fixtures.Decoded(fixtures.Part(0), int64(i), sink.Message{Value: value, Time: time.UnixMilli(int64(1000 * (i + 1)))}))
	}
	var evaluators []*recent.Evaluator
	for _, normal := range []bool{false, true} {
		l := seriesLearner(modelkey.By{}, minibatch, reject.NullRow)
		l.Normal = normal
		l.reset(source.Offsets{})
		for i := range msgs {
			if err := l.message(t.Context(), &msgs[i]); err != nil {
				t.Fatal(err)
			}
		}
		m, err := l.learner.Model()
		if err != nil {
			t.Fatal(err)
		}
		direct, series := recent.NewLearner(2), new(recent.Series)
		direct.Normal(normal)
		for at := 0; at < len(x); at += 2 * minibatch {
			direct.Learn(x[at:at+2*minibatch], slices.Repeat([]*recent.Series{series}, minibatch))
		}
		if got, want := m.Recent, direct.Evaluator(); !reflect.DeepEqual(got, want) {
			t.Errorf("normal %v: the evaluator has means %v, want %v", normal, got.Charts.Mean, want.Charts.Mean)
		}
		evaluators = append(evaluators, m.Recent)
	}
	if reflect.DeepEqual(evaluators[0], evaluators[1]) {
		t.Error("it makes no difference whether rows are known to be normal: this proves nothing")
	}
}

// A learner learns the series that the transform scores: of values, of those that have none, in each partition, with the rows that the transform fills. How
// messages come in batches, and restarts between them, change no byte.
func TestSeriesOfALearner(t *testing.T) {
	t.Parallel()
	const minibatch = 50
	for _, by := range []string{"none", "key", "header:of", "column:of"} {
		for _, invalid := range []reject.OnInvalid{reject.NullRow, reject.ImputeRow, reject.RejectRow} {
			by, err := modelkey.Parse(by)
			if err != nil {
				t.Fatal(err)
			}
			msgs, rows := seriesStream(by)
			stage := func() *Learn { return seriesLearner(by, minibatch, invalid) }
			learn := func(batch int, restarts bool) (*Learn, []byte) {
				l := stage()
				l.reset(source.Offsets{})
				for at := 0; at < len(msgs); at += batch {
					for i := at; i < min(at+batch, len(msgs)); i++ {
						if err := l.message(context.Background(), &msgs[i]); err != nil {
							t.Fatal(err)
						}
						if err := l.endSnapshot(); err != nil {
							t.Fatal(err)
						}
					}
					if restarts {
						c, err := l.saved()
						if err != nil {
							t.Fatal(err)
						}
						l = stage()
						l.reset(source.Offsets{})
						if err := l.restore(c); err != nil {
							t.Fatal(err)
						}
					}
				}
				c, err := l.saved()
				if err != nil {
					t.Fatal(err)
				}
				return l, append(c.Learner, c.Batcher...)
			}
			what := fmt.Sprintf("%v, %v", by, invalid)
			l, want := learn(len(msgs), false)
			if _, got := learn(7, true); !bytes.Equal(want, got) {
				t.Errorf("%s: restarts change what is learnt", what)
			}
			m, err := l.learner.Model()
			if err != nil {
				t.Fatal(err)
			}
			direct, series := recent.NewLearner(2), map[string]*recent.Series{}
			var x []float64
			var turns []*recent.Series
			whole := 0
			for _, row := range rows {
				null := row.null()
				if null && invalid != reject.ImputeRow || *row.aside && invalid == reject.RejectRow {
					continue
				}
				if series[row.name] == nil {
					series[row.name] = new(recent.Series)
				}
				x, turns = append(x, row.x[:]...), append(turns, series[row.name])
				if !null {
					whole++
				}
				if whole == minibatch {
					direct.Learn(x, turns)
					x, turns, whole = nil, nil, 0
				}
			}
			if got, want := m.Recent, direct.Evaluator(); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: the evaluator has means %v after %d rows, want %v after %d", what, got.Charts.Mean, got.Learnt, want.Charts.Mean, want.Learnt)
			}
			for i := range msgs {
				msgs[i].Record.Release()
			}
		}
	}
}

// A message that is set aside whole for one of its rows moves no series on, neither the learner's nor the transform's.
func TestSeriesOfMessagesSetAside(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"none", "column:of"} {
		by, err := modelkey.Parse(place)
		if err != nil {
			t.Fatal(err)
		}
		stage := func() *Learn {
			l := seriesLearner(by, 1, reject.RejectRow) // every row is learnt at once
			l.reset(source.Offsets{})
			return l
		}
		msgs, _ := seriesStream(by)
		msgs = slices.DeleteFunc(msgs, func(m source.Message) bool { return m.Partition.ID != 0 })
		first := stage()
		for i := range msgs {
			if err := first.message(t.Context(), &msgs[i]); err != nil {
				t.Fatal(err)
			}
		}
		m, err := first.learner.Model()
		if err != nil {
			t.Fatal(err)
		}
		states := map[string]*recent.Series{}
		tr := &transform.Transform{TransformConfig: transform.TransformConfig{
			Group: "g", Topic: "out", Columns: []string{"a", "b"}, Components: lca.ComponentsAll, Series: by, OnInvalid: reject.RejectRow, DeadLetter: reject.DeadLetter{Topic: "dead", MaxRejects: 1000},
			Output: encode.OutputConfig{Column: "lca", Score: true, Recent: true}, States: &transform.StateTopic{Name: "states"},
			Follow: &models.Follow{ModelID: "m"}, Stats: stats.NewStats(), Log: fixtures.Quiet(), Now: time.Now,
		}}
		tr.Follow.Adopt(&stats.PublishedModel{Snapshot: &snapshot.Snapshot{ModelID: "m", Version: 1, Model: m, Features: []string{"a", "b"}}})
		aside := 0
		for from := 0; from < len(msgs); from += 7 {
			work, err := tr.Do(t.Context(), source.Batch{Messages: msgs[from:min(from+7, len(msgs))]})
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range work.Messages {
				switch w.Topic {
				case "dead":
					aside++
				case "states":
					s, _, err := recent.ReadSeries(bytes.Clone(w.Value))
					if err != nil {
						t.Fatal(err)
					}
					states[string(w.Key)] = s
				}
			}
			tr.Kept()
		}
		if aside < 50 || len(states) == 0 {
			t.Fatalf("%d messages are set aside, %d series: this proves too little", aside, len(states))
		}
		for key, want := range states {
			name := key[len("g/events/0/"):]
			value := []byte(name)
			if name == "~" {
				value = nil
			}
			if got := first.SeriesState(0, value); got.Rows != want.Rows || got.Rows == 0 {
				t.Errorf("%v: series %s has %d rows where it is learnt, and %d where it is scored", by, name, got.Rows, want.Rows)
			}
		}
	}
}

// A misspelt transform.series is said once, where rows are learnt: no row has a value, and all are one series.
func TestSeriesThatNoRowBelongsTo(t *testing.T) {
	for _, c := range []struct {
		by       string
		messages int
		says     bool
	}{{"column:off", neverThere, true}, {"header:off", neverThere, true}, {"column:off", neverThere - 1, false}, {"column:of", neverThere, false}, {"key", neverThere, false}, {"none", neverThere, false}} {
		by, err := modelkey.Parse(c.by)
		if err != nil {
			t.Fatal(err)
		}
		msgs, _ := seriesStream(by)
		var log bytes.Buffer
		l := &Learn{LearnConfig: LearnConfig{ModelID: "m", Keep: 1, Columns: []string{"a", "b"}, Learner: online.DefaultConfig(1), Series: by, Stats: stats.NewStats(), Log: fixtures.SaidLog(&log), Now: time.Now}}
		l.reset(source.Offsets{})
		for i := range c.messages {
			if err := l.message(t.Context(), &msgs[i]); err != nil {
				t.Fatal(err)
			}
		}
		if n := strings.Count(log.String(), "no row has a value of transform.series"); n != map[bool]int{true: 1}[c.says] {
			t.Errorf("%s: said %d times of %d messages", c.by, n, c.messages)
		}
	}
}

// A column of numbers that says of which series a row is, is no feature where source.features is empty: for the learner, for a sample of a range and for a
// transform that has no model yet.
func TestTheColumnOfSeriesIsNoFeature(t *testing.T) {
	by, want := modelkey.By{Place: modelkey.Column, Name: "unit"}, []string{"a", "b"}
	d := fixtures.NewDecoder(t, format.Config{})
	rec, err := d.Decode(t.Context(), []byte(`[{"unit":1,"a":0.5,"b":2},{"unit":2,"a":1.5,"b":-2}]`), "application/json")
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Release()
	m := source.Message{Partition: fixtures.Part(0), Record: rec}
	l := &Learn{LearnConfig: LearnConfig{ModelID: "m", Learner: online.DefaultConfig(1), Series: by, Stats: stats.NewStats(), Log: fixtures.Quiet(), Now: time.Now}}
	l.reset(source.Offsets{})
	if err := l.message(t.Context(), &m); err != nil || !slices.Equal(l.features.Names, want) {
		t.Errorf("a learner learns %q: %v", l.features.Names, err)
	}
	s := &Sample{Series: by, Rows: 10, Stats: stats.NewStats(), Log: fixtures.Quiet()}
	if err := s.take(&m); err != nil || !slices.Equal(s.features.Names, want) {
		t.Errorf("a sample has %q: %v", s.features.Names, err)
	}
	tr := &transform.Transform{TransformConfig: transform.TransformConfig{
		Topic: "out", Series: by, UntilModel: transform.PassThrough, Output: encode.OutputConfig{Column: "lca", Passthrough: true},
		Follow: &models.Follow{ModelID: "m"}, Stats: stats.NewStats(), Log: fixtures.Quiet(), Now: time.Now,
	}}
	work, err := tr.Do(t.Context(), source.Batch{Messages: []source.Message{m}})
	if err != nil {
		t.Fatal(err)
	}
	out := fixtures.ReadStream(t, work.Messages[0].Whole())
	if list := out.Column(out.Schema().FieldIndices("lca")[0]).DataType().(*arrow.FixedSizeListType); list.Len() != 2 {
		t.Errorf("without a model there are %d coordinates", list.Len())
	}
}

// The identities of series are in checkpoints.
func TestSeriesIDs(t *testing.T) {
	seen := map[uint64]bool{}
	for _, p := range []int32{0, 1, 256} {
		for _, value := range []string{"", "0", "a", "\x00a"} {
			seen[modelkey.SeriesID(p, value, true)] = true
		}
		seen[modelkey.SeriesID(p, "", false)] = true
	}
	if len(seen) != 15 {
		t.Errorf("%d identities of 15 series", len(seen))
	}
	if got := modelkey.SeriesID(7, "press 3", true); got != 0x27c9987c6bbdbd1 { // FNV-1a, from another program
		t.Errorf("%#x", got)
	}
}
