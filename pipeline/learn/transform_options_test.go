package learn

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/models"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/source"
)

// situation is the state of the snapshot topic and of the clock.
type situation struct {
	name    string
	empty   bool   // no snapshot yet
	pin     uint64 // transform.pin_version
	version uint64 // whitens, 0: none
	age     time.Duration
}

// option is one way to set the section transform.
type option struct {
	situation
	comps       lca.Components
	layout      encode.Layout
	score, pass bool
	until       transform.UntilModel
}

func (o option) String() string {
	return fmt.Sprintf("%s, components %v, layout %d, score %v, passthrough %v, until_model %d",
		o.name, o.comps, o.layout, o.score, o.pass, o.until)
}

func everyOption() (all []option) {
	for _, s := range []situation{
		{name: "no model", empty: true},
		{name: "the newest", version: 400},
		{name: "pinned to an older one", pin: 300, version: 300},
		{name: "pinned to one that may still come", pin: 1 << 40},
		{name: "years old", version: 400, age: 30000 * time.Hour},
	} {
		for _, comps := range lca.AllComponents() {
			for _, layout := range []encode.Layout{encode.LayoutVector, encode.LayoutColumns} {
				for _, until := range []transform.UntilModel{transform.Hold, transform.PassThrough, transform.Drop} {
					for i := range 4 {
						all = append(all, option{s, comps, layout, i&1 > 0, i&2 > 0, until})
					}
				}
			}
		}
	}
	return all
}

// Every combination of the settings of section transform does what each of them says.
func TestEveryTransformOption(t *testing.T) {
	w := learnt(t)
	in := w.topics[fixtures.Events][0]
	rec := fixtures.Decoded(fixtures.Events, 0, in).Record
	follows := map[string]*models.Follow{}
	for _, o := range everyOption() {
		f, ok := follows[o.name]
		if !ok {
			f = w.followed(t, o.situation)
			follows[o.name] = f
		}
		tr := &transform.Transform{TransformConfig: transform.TransformConfig{
			Topic: "out", Columns: []string{"b", "a"}, Output: encode.OutputConfig{Layout: o.layout, Score: o.score, Passthrough: o.pass},
			Components: o.comps, UntilModel: o.until,
			Follow: f, Stats: stats.NewStats(), Log: fixtures.Quiet(),
			Now: func() time.Time { return published.Add(o.age) },
		}}
		held, cancel := context.WithCancel(context.Background())
		cancel()
		if err := f.AwaitModel(held); (err == nil) != (o.version > 0) {
			t.Errorf("%v: waiting for a model ends with %v", o, err)
		}
		if o.version == 0 && o.until == transform.Hold {
			continue // nothing is read before AwaitModel has ended
		}
		var got []arrow.Record
		for range 2 { // with what the first has made ready
			work, err := tr.Do(context.Background(), source.Batch{Messages: []source.Message{fixtures.Decoded(fixtures.Events, 0, in)}})
			if err != nil {
				t.Errorf("%v: ended with %v", o, err)
			}
			for _, m := range work.Messages {
				if v := fixtures.Header(m, "lca-model-version"); v != fmt.Sprint(o.version) {
					t.Errorf("%v: version %s, want %d", o, v, o.version)
				}
				got = append(got, fixtures.ReadStream(t, m.Whole()))
			}
		}
		o.check(t, rec, got, f.Current())
	}
}

// published is when the snapshots were.
var published = time.Unix(1_700_000_000, 0)

// followed reads the snapshot topic to its end.
func (w *world) followed(t *testing.T, s situation) *models.Follow {
	t.Helper()
	of := newWorld()
	if !s.empty {
		p := source.Partition{Topic: "snapshots"}
		of.topics[p] = append(of.topics[p], w.topics[p]...)
	}
	f := &models.Follow{Open: of.log("snapshots"), End: of.end("snapshots"), ModelID: "m", Pin: s.pin, Stats: stats.NewStats(), Log: fixtures.Quiet()}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- f.Run(ctx) }()
	err := f.CatchUp(ctx)
	cancel()
	if err := errors.Join(err, <-ran); err != nil {
		t.Fatal(err)
	}
	if now := f.Current(); now != nil {
		now.Time = published
	}
	return f
}

// check compares what came out with the settings, and with the model's own arithmetic.
func (o option) check(t *testing.T, in arrow.Record, got []arrow.Record, model *stats.PublishedModel) {
	t.Helper()
	if nothing := o.version == 0 && o.until == transform.Drop; nothing || len(got) != 2 {
		if len(got) > 0 || !nothing {
			t.Errorf("%v: %d messages", o, len(got))
		}
		return
	}
	width, n := 3, int(in.NumRows())
	if o.version == 0 {
		width = 2 // of source.features: a model would say better
	}
	var names []string
	if o.pass {
		names = append(names, "a", "b", "c")
	}
	if o.layout == encode.LayoutVector {
		names = append(names, "lca")
	}
	for i := range width {
		if o.layout == encode.LayoutColumns {
			names = append(names, fmt.Sprintf("lca_%d", i))
		}
	}
	if o.score {
		names = append(names, "lca_score")
	}
	rec := got[1]
	for i, f := range rec.Schema().Fields() {
		if i >= len(names) || f.Name != names[i] {
			t.Fatalf("%v: columns %v, want %v", o, rec.Schema(), names)
		}
		if o.pass && i < 3 && !array.Equal(rec.Column(i), in.Column(i)) {
			t.Errorf("%v: column %s has changed", o, f.Name)
		}
	}
	if len(rec.Schema().Fields()) != len(names) || int(rec.NumRows()) != n {
		t.Fatalf("%v: %d rows of %v, want %d of %v", o, rec.NumRows(), rec.Schema(), n, names)
	}
	y, score := o.values(rec, width, n)
	if o.version == 0 {
		if y != nil || score != nil {
			t.Errorf("%v: there are values without a model", o)
		}
		return
	}
	o.checkValues(t, in, model.Model, y, score)
}

func (o option) checkValues(t *testing.T, in arrow.Record, m *lca.Model, y [][]float32, score []float32) {
	t.Helper()
	view, err := m.View(lca.CoordinatesAligned, o.comps)
	if err != nil {
		t.Fatal(err)
	}
	n := int(in.NumRows())
	x, want := mat.NewDense(n, 3, nil), new(mat.Dense)
	for j := range 3 {
		for i, v := range in.Column(j).(*array.Float32).Float32Values() {
			x.Set(i, j, float64(v))
		}
	}
	view.Whiten(want, x)
	density := m.LogDensity(nil, x)
	if len(y) != n || (o.score && len(score) != n) {
		t.Fatalf("%v: values of %d rows, scores of %d", o, len(y), len(score))
	}
	for i := range n {
		for j := range 3 {
			if math.Abs(float64(y[i][j])-want.At(i, j)) > 1e-5*max(1, math.Abs(want.At(i, j))) {
				t.Fatalf("%v: y of row %d is %v, want %v", o, i, y[i], want.RawRowView(i))
			}
		}
		if o.score && math.Abs(float64(score[i])+density[i]) > 1e-4*max(1, math.Abs(density[i])) {
			t.Fatalf("%v: the score of row %d is %v, want %v", o, i, score[i], -density[i])
		}
	}
}

// values are y by row and the scores; nil where all are null.
func (o option) values(rec arrow.Record, width, n int) (y [][]float32, score []float32) {
	first := 0
	if o.pass {
		first = 3
	}
	column := func(i int) *array.Float32 { return rec.Column(i).(*array.Float32) }
	if o.score && column(int(rec.NumCols())-1).NullN() < n {
		score = column(int(rec.NumCols()) - 1).Float32Values()
	}
	if o.layout == encode.LayoutVector {
		list := rec.Column(first).(*array.FixedSizeList)
		if list.NullN() == n {
			return nil, score
		}
		all := list.ListValues().(*array.Float32).Float32Values()
		for i := range n {
			y = append(y, all[i*width:(i+1)*width])
		}
		return y, score
	}
	if column(first).NullN() == n {
		return nil, score
	}
	for i := range n {
		row := make([]float32, width)
		for j := range width {
			row[j] = column(first + j).Value(i)
		}
		y = append(y, row)
	}
	return y, score
}
