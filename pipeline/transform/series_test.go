package transform

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/lca/recent"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// seriesWorld is an input, and the topics that a transform writes to.
type seriesWorld struct {
	t      *testing.T
	by     modelkey.By
	keyed  bool // there is a model for each value
	off    bool // transform.recent
	most   int  // series
	input  []source.Message
	models []*stats.PublishedModel // of the first half of the input, and of the second
	topic  *keyedTopic             // of snapshots, where keyed

	written []sink.Message  // committed
	states  []source.Record // committed
	next    int64           // committed
}

// seriesOffsets is how far apart messages are: a block has few of them.
const seriesOffsets = seriesBlock / 5

func newSeriesWorld(t *testing.T, by modelkey.By, keyed bool, invalid reject.OnInvalid) *seriesWorld {
	w := &seriesWorld{t: t, by: by, keyed: keyed, most: 3}
	r := rand.New(rand.NewPCG(3, 9))
	decoder := fixtures.Decoded
	values := []string{"pump 1", "pump/2", "é", "", strings.Repeat("long", 60), "pump 3", "pump 4"}
	for i := range 400 {
		scale := 0.3
		if i%80 >= 70 { // a fault
			scale = 1
		}
		value := jsonRowsOf(r, 1+r.IntN(6), invalid != reject.NullRow && r.IntN(9) == 0, scale)
		of := values[r.IntN(2+i*len(values)/400)%len(values)]
		if i > 90 && of == values[1] { // it falls silent
			of = values[0]
		}
		if by.Place == modelkey.Column {
			value = nil
			for j := range 1 + r.IntN(6) {
				value = fmt.Appendf(value, `,{"a":%v,"b":%v,"c":%v,"of":%q}`, r.NormFloat64()*4*scale, r.NormFloat64()*5*scale, r.NormFloat64()*6*scale, values[(i+j*r.IntN(2))%(2+i*(len(values)-1)/400)])
			}
			value[0] = '['
			value = append(value, ']')
		}
		m := sink.Message{Topic: "events", Key: []byte(of), Value: value, Headers: []source.Header{reject.Text("of", of), reject.Text("content-type", "application/json")}, Time: time.UnixMilli(int64(1000 + i*600_000))}
		if i%37 == 5 {
			m.Time = time.UnixMilli(fixtures.WildStamps[i/37%len(fixtures.WildStamps)])
		}
		if i%17 == 0 {
			m.Key, m.Headers = nil, m.Headers[1:]
		}
		if i%23 == 0 {
			m.Value = []byte("no JSON")
		}
		w.input = append(w.input, decoder(fixtures.Events, int64(i)*seriesOffsets, m))
	}
	all := modelsOf(t, len(values)+1)
	if keyed {
		w.topic = newKeyedTopic(t, 2)
		for i, value := range values[:len(values)-2] {
			w.topic.publish(snapshotOf(all[i], value, 1))
		}
		return w
	}
	for i := range 2 {
		w.models = append(w.models, &stats.PublishedModel{Snapshot: snapshotOf(all[i], "one", uint64(i+1))})
	}
	e := w.models[1].Model.Recent // it knows that what the series show is normal
	e.Turn = 1
	for _, value := range values {
		e.Accepted = append(e.Accepted, recent.Acceptance{Series: by.Series(fixtures.Events.ID, []byte(value)), Turn: e.Turn, Reason: recent.Aged})
	}
	return w
}

// half is the number of the first message that the second model scores: it comes in a fault.
func (w *seriesWorld) half() int { return 235 }

// stage takes the partition over; pace is that of its link.
func (w *seriesWorld) stage(invalid reject.OnInvalid, pace int) (pipeline.Stage, *Transform) {
	c := keyedConfig(encode.OutputConfig{Column: "lca", Score: true, Recent: true, Episode: true, Format: encode.FormatJSON}, invalid, PassThrough)
	c.Alarms.To = func(string) int32 { return 0 }
	c.Budget, c.Shares = episode.Budget{Episodes: 12, Per: time.Hour}, 2
	c.States = &StateTopic{Name: "states", Read: func(_ context.Context, _ source.Partition, each func(*source.Fetched) error) error {
		return each(&source.Fetched{Records: slices.Clone(w.states)})
	}}
	c.Series = w.by
	if w.off {
		c.Output.Recent, c.Output.Episode = false, false
		c.States.Read = func(context.Context, source.Partition, func(*source.Fetched) error) error {
			return errors.New("states of series are read")
		}
	}
	one := &Transform{TransformConfig: c}
	var stage pipeline.Stage = one
	if w.keyed {
		k := keyedStage(keyedModels(w.t, w.topic, w.by, 1), c)
		if err := k.Models.CatchUp(w.t.Context(), 0); err != nil {
			w.t.Fatal(err)
		}
		stage, one = k, &k.Transform
	} else {
		one = transformAlone(c, nil, "m")
		stage = one
	}
	one.series.most = w.most
	one.Committed = func(context.Context) (source.Offsets, error) { return source.Offsets{fixtures.Events: w.next}, nil }
	one.Pace = func() int { return pace }
	if at, err := stage.Rewind(w.t.Context()); err != nil || at[fixtures.Events] != w.next {
		w.t.Fatal(at, err)
	}
	return stage, one
}

// batch is messages of the input that one model scores.
func (w *seriesWorld) batch(from, n int) source.Batch {
	to := min(from+n, len(w.input))
	if from < w.half() {
		to = min(to, w.half())
	}
	return source.Batch{Messages: slices.Clone(w.input[from:to])}
}

func (w *seriesWorld) adopt(t *Transform, from int) {
	if !w.keyed {
		t.Follow.Adopt(w.models[from/w.half()%2])
	}
}

// commit makes messages visible.
func (w *seriesWorld) commit(work pipeline.Work, next int64) {
	for _, m := range work.Messages {
		if m.Topic == "states" {
			w.states = append(w.states, source.Record{Offset: int64(len(w.states)), Key: slices.Clone(m.Key), Value: slices.Clone(m.Value), Headers: headersOf(m)})
		} else {
			w.written = append(w.written, sink.Message{Topic: m.Topic, Key: slices.Clone(m.Key), Value: slices.Clone(m.Whole()), Headers: headersOf(m)})
		}
	}
	w.next = next
}

func headersOf(m sink.Message) (all []source.Header) {
	for _, h := range m.Headers {
		all = append(all, source.Header{Key: h.Key, Value: slices.Clone(h.Value)})
	}
	return all
}

// compact keeps the last record of each key, as brokers do at any time.
func (w *seriesWorld) compact() {
	last := map[string]int64{}
	for _, r := range w.states {
		last[string(r.Key)] = r.Offset
	}
	w.states = slices.DeleteFunc(slices.Clone(w.states), func(r source.Record) bool { return last[string(r.Key)] != r.Offset })
	for i := range w.states {
		w.states[i].Offset = int64(i)
	}
}

// inOrder is what is written as far as its order is promised: episodes of a series follow each other, and those of others come at any time.
func (w *seriesWorld) inOrder() []sink.Message {
	return slices.SortedStableFunc(slices.Values(w.written), func(a, b sink.Message) int {
		key := func(m sink.Message) string {
			if m.Topic == "alarms" {
				return string(m.Key)
			}
			return ""
		}
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(key(a), key(b)))
	})
}

// newest are the states that are there in the end.
func (w *seriesWorld) newest() map[string]string {
	all := map[string]string{}
	for _, r := range w.states {
		if delete(all, string(r.Key)); r.Value != nil {
			all[string(r.Key)] = fmt.Sprintf("%x %s", r.Value, r.Headers)
		}
	}
	return all
}

// calm scores the input a message at a time, without a fault.
func (w *seriesWorld) calm(invalid reject.OnInvalid) {
	stage, t := w.stage(invalid, 0)
	for from := range w.input {
		w.adopt(t, from)
		work, err := stage.Do(w.t.Context(), w.batch(from, 1))
		if err != nil {
			w.t.Fatal(err)
		}
		w.commit(work, int64(from)*seriesOffsets+1)
		stage.Kept()
	}
}

// wild scores it in batches of any size, with links of any speed, transactions that fail before and in between parts, and take-overs.
func (w *seriesWorld) wild(invalid reject.OnInvalid, r *rand.Rand) {
	stage, t := w.stage(invalid, 0)
	for from := 0; from < len(w.input); {
		w.adopt(t, from)
		b := w.batch(from, 1+r.IntN(40))
		last := b.Messages[len(b.Messages)-1].Offset
		pace := []int{0, 1, 1500, 6000}[r.IntN(4)]
		t.Pace = func() int { return pace }
		work, err := stage.Do(w.t.Context(), b)
		if err != nil {
			w.t.Fatal(err)
		}
		fails := r.IntN(3) == 0
		for part := 0; ; part++ {
			first, rest, next := t.Split(work, max(1, pace))
			if pace == 0 || next == nil {
				break
			}
			if fails = fails || r.IntN(30) == 0; fails && r.IntN(2) == 0 {
				break
			}
			w.commit(first, next[fixtures.Events])
			work = rest
		}
		if fails {
			if r.IntN(2) == 0 {
				w.compact()
			}
			if r.IntN(2) == 0 {
				stage, t = w.stage(invalid, 0)
			} else if _, err := stage.Rewind(w.t.Context()); err != nil {
				w.t.Fatal(err)
			}
		} else {
			w.commit(work, last+1)
			stage.Kept()
		}
		from = int((w.next + seriesOffsets - 1) / seriesOffsets)
	}
}

// What is said of a row is a function of its model and of its series' earlier rows with theirs: batches, parts, faults, take-overs and compaction change
// nothing, nor does which series begin again.
func TestScoresOfLastRowsOverFaults(t *testing.T) {
	for _, c := range []struct {
		by      string
		keyed   bool
		invalid reject.OnInvalid
		most    int    // series
		reason  string // why some episodes are closed
	}{
		{"none", false, reject.NullRow, 1, episode.Usual}, {"key", false, reject.NullRow, 5, episode.Evicted},
		{"header:of", false, reject.ImputeRow, 3, episode.Evicted}, {"column:of", false, reject.NullRow, 4, episode.Evicted},
		{"key", true, reject.NullRow, 3, episode.Evicted}, {"header:of", true, reject.RejectRow, 5, episode.Silent},
		{"column:of", true, reject.RejectRow, 3, episode.Evicted},
	} {
		t.Run(fmt.Sprintf("%s/keyed=%v", c.by, c.keyed), func(t *testing.T) {
			t.Parallel()
			by, err := modelkey.Parse(c.by)
			if err != nil {
				t.Fatal(err)
			}
			calm := newSeriesWorld(t, by, c.keyed, c.invalid)
			calm.most = c.most
			calm.calm(c.invalid)
			scored, said := 0, map[string]int{}
			for _, m := range calm.written {
				scored += strings.Count(string(m.Value), `"lca_recent_p":`)
				said["rows"] += strings.Count(string(m.Value), `"lca_episode":"`)
				if m.Topic == "alarms" {
					var r episode.Record
					if err := json.Unmarshal(m.Value, &r); err != nil {
						t.Fatal(err)
					}
					said[r.Type]++
					if r.Reason != nil {
						said[*r.Reason]++
					}
				}
			}
			if said[c.reason] == 0 || said["rows"] < 100 {
				t.Errorf("too few episodes, or none is closed with reason %s: %v", c.reason, said)
			}
			if !c.keyed && said[episode.Aged] == 0 {
				t.Errorf("no episode is closed because its series is accepted: %v", said)
			}
			begun, gone := map[string]bool{}, 0
			for _, r := range calm.states {
				if begun[string(r.Key)] = true; r.Value == nil {
					gone++
				}
			}
			if scored < 150 || by.Keyed() && (len(begun) < 4 || gone < 1 && c.reason == episode.Evicted) {
				t.Fatalf("%d scores, %d series, %d gone: this proves too little", scored, len(begun), gone)
			}
			seeds := uint64(12)
			if testing.Short() {
				seeds = 4
			}
			for seed := range seeds {
				wild := newSeriesWorld(t, by, c.keyed, c.invalid)
				wild.most = c.most
				wild.wild(c.invalid, rand.New(rand.NewPCG(seed, 5)))
				want, got := calm.inOrder(), wild.inOrder()
				if !slices.EqualFunc(want, got, fixtures.Same) {
					i := 0
					for i < min(len(want), len(got)) && fixtures.Same(want[i], got[i]) {
						i++
					}
					t.Fatalf("seed %d: message %d of %d, %d wanted, is\n%s\n%s", seed, i, len(got), len(want), want[min(i, len(want)-1)].Value, got[min(i, len(got)-1)].Value)
				}
				if !maps.Equal(calm.newest(), wild.newest()) {
					t.Fatalf("seed %d: other states are left:\n%v\n%v", seed, slices.Sorted(maps.Keys(calm.newest())), slices.Sorted(maps.Keys(wild.newest())))
				}
			}
		})
	}
}

// The first fifty rows of a series open no episode: their scores are not those that the level is of.
func TestFirstRowsOpenNoEpisode(t *testing.T) {
	w := newSeriesWorld(t, modelkey.By{}, false, reject.NullRow)
	stage, one := w.stage(reject.NullRow, 0)
	scored, judged := 0, 0
	one.judged = func(Judged) { judged++ }
	w.adopt(one, 0)
	for from := range w.half() {
		work, err := stage.Do(t.Context(), w.batch(from, 1))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range work.Messages {
			scored += strings.Count(string(m.Whole()), `"lca_recent_p":`)
		}
		stage.Kept()
	}
	if scored < 200 || judged != scored-50 {
		t.Errorf("of %d scored rows of a series %d may open an episode, want all but 50", scored, judged)
	}
}

// With transform.recent off nothing is scored, kept, read or written of series, although the models could.
func TestRowsAlone(t *testing.T) {
	for _, c := range []struct {
		by    string
		keyed bool
	}{{"none", false}, {"key", false}, {"column:of", false}, {"key", true}, {"column:of", true}} {
		by, err := modelkey.Parse(c.by)
		if err != nil {
			t.Fatal(err)
		}
		w := newSeriesWorld(t, by, c.keyed, reject.NullRow)
		w.off = true
		stage, one := w.stage(reject.NullRow, 0)
		scored, taken := 0, 0
		for from := range w.input {
			w.adopt(one, from)
			work, err := stage.Do(t.Context(), w.batch(from, 1))
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range work.Messages {
				scored += strings.Count(string(m.Whole()), `"lca_score":`)
				if m.Topic == "states" || m.Topic == "alarms" || strings.Contains(string(m.Whole()), "lca_recent") {
					t.Fatalf("%+v: topic %s gets %s", c, m.Topic, m.Whole())
				}
			}
			if r := one.engine; r != nil {
				taken += cap(r.recent.series) + cap(r.recent.rows) + cap(r.recent.scores)
			}
			stage.Kept()
		}
		if scored < 300 || len(one.series.all) > 0 || taken > 0 || one.rates != nil {
			t.Errorf("%+v: %d rows are scored, %d series are kept, and memory is taken for %d of their numbers", c, scored, len(one.series.all), taken)
		}
	}
}

// A dead letter names the version that has scored its rows, if one has: they are in their series.
func TestDeadLettersOfScoredRows(t *testing.T) {
	w := newSeriesWorld(t, modelkey.By{}, false, reject.NullRow)
	for i, value := range []string{`[{"a":1,"b":2,"c":3,"lca_score":4}]`, `[{"a":1,"b":2,"c":3},{"a":1,"b":2,"c":3}]`, `[{"a":1,"b":2,"c":null}]`, `none`} {
		w.input[i] = fixtures.Decoded(fixtures.Events, int64(i)*seriesOffsets, sink.Message{Topic: "events", Value: []byte(value), Headers: []source.Header{reject.Text("content-type", "application/json")}})
	}
	stage, one := w.stage(reject.NullRow, 0)
	one.Output.Passthrough = true
	w.adopt(one, 0)
	work, err := stage.Do(t.Context(), w.batch(0, 4))
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, m := range work.Messages {
		if m.Topic != "states" {
			versions[m.Topic+fixtures.Header(m, reject.HeaderSourceOffset)] = fixtures.Header(m, reject.HeaderVersion)
		}
	}
	at := func(i int) string { return fmt.Sprint(i * seriesOffsets) }
	if want := map[string]string{"dead" + at(0): "1", "out" + at(1): "1", "out" + at(2): "1", "dead" + at(3): ""}; !maps.Equal(versions, want) {
		t.Errorf("%v, want %v", versions, want)
	}
	if rows := one.series.all[seriesNull].Rows; rows != 3 {
		t.Errorf("%d rows are in the series", rows)
	}
}

// Offsets that were set back drop the states of rows that come again, and keep those of series that had no row since.
func TestStatesAfterAReset(t *testing.T) {
	w := newSeriesWorld(t, modelkey.By{Place: modelkey.Key}, false, reject.NullRow)
	w.most = 100
	w.calm(reject.NullRow)
	before := w.newest()
	delete(before, "g/events/0") // the clock
	w.next = w.input[380].Offset
	_, one := w.stage(reject.NullRow, 0)
	for key := range before {
		name := strings.TrimPrefix(key, "g/events/0/")
		held := one.series.all[name]
		if held == nil != one.series.gone[name] {
			t.Errorf("series %s is kept and gone, or neither", name)
		}
		if held != nil && held.offset >= w.next {
			t.Errorf("series %s stands at %d, and is read from %d on", name, held.offset, w.next)
		}
	}
	if len(one.series.all)+len(one.series.gone) != len(before) || len(one.series.gone) == 0 {
		t.Errorf("%d series are left and %d gone, of %d", len(one.series.all), len(one.series.gone), len(before))
	}
	w.next = int64(len(w.input)) * seriesOffsets
	_, all := w.stage(reject.NullRow, 0)
	for name, of := range all.series.all { // what stands at a row is left where the next is read, and not where that row comes again
		if of.offset%seriesOffsets != 0 {
			t.Errorf("series %s stands at %d, and no message does", name, of.offset)
		}
		for again := range int64(2) {
			w.next = of.offset + 1 - again
			if _, one := w.stage(reject.NullRow, 0); one.series.all[name] == nil != (again == 1) {
				t.Errorf("series %s stands at %d, and where it is read on from %d it is kept: %v", name, of.offset, w.next, again == 1)
			}
		}
	}
	for again := range int64(2) {
		w.next = all.series.next - again
		if _, one := w.stage(reject.NullRow, 0); one.rates.Clock.Elapsed == 0 != (again == 1) {
			t.Errorf("the clock knows rows up to %d, and where they are read on from %d it stands at %v", all.series.next-1, w.next, one.rates.Clock.Elapsed)
		}
	}
}

// What was dropped at a reset is written again: a take-over that finds both on the topic keeps the state, and deletes it no more.
func TestTakeOversAfterAReset(t *testing.T) {
	left := map[bool]map[string]string{}
	for _, takeOvers := range []bool{false, true} {
		w := newSeriesWorld(t, modelkey.By{Place: modelkey.Key}, false, reject.NullRow)
		w.most = 100
		w.calm(reject.NullRow)
		w.next = w.input[340].Offset
		stage, one := w.stage(reject.NullRow, 0)
		for from := 340; from < len(w.input); from++ {
			w.adopt(one, from)
			work, err := stage.Do(t.Context(), w.batch(from, 1))
			if err != nil {
				t.Fatal(err)
			}
			w.commit(work, int64(from)*seriesOffsets+1)
			if stage.Kept(); takeOvers {
				stage, one = w.stage(reject.NullRow, 0)
			}
		}
		left[takeOvers] = w.newest()
	}
	if !maps.Equal(left[false], left[true]) {
		t.Errorf("%d states are left, and with take-overs other %d", len(left[false]), len(left[true]))
	}
}

// An episode that rows do not end is over all the same, under the id that it was opened with: where its rows come again, and where another model scores its
// series. Where none are told any more, its series goes on.
func TestEpisodesThatRowsDoNotEnd(t *testing.T) {
	for _, c := range []struct {
		name, reason string
		change       func(w *seriesWorld, one *heldSeries)
		stage        func(t *Transform)
	}{
		{"offsets set back into it", episode.Reset, func(w *seriesWorld, one *heldSeries) { w.next = one.episode.From.Offset + 1 }, nil},
		{"offsets set back before it", episode.Reset, func(w *seriesWorld, one *heldSeries) { w.next = one.episode.From.Offset }, nil},
		{"another model", episode.ModelReplaced, func(w *seriesWorld, _ *heldSeries) { w.models[1].ModelID = "other" }, nil},
		{"other features, and none is told", "", func(*seriesWorld, *heldSeries) {}, func(t *Transform) { t.Output.Episode, t.rates = false, nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newSeriesWorld(t, modelkey.By{Place: modelkey.Key}, false, reject.NullRow)
			w.most = 100
			var open *heldSeries
			stage, one := w.stage(reject.NullRow, 0)
			step := func() {
				from := int(w.next / seriesOffsets)
				w.adopt(one, from)
				work, err := stage.Do(t.Context(), w.batch(from, 1))
				if err != nil {
					t.Fatal(err)
				}
				w.commit(work, int64(from+1)*seriesOffsets)
				stage.Kept()
			}
			for open == nil { // one that has lasted for some rows
				if step(); int(w.next/seriesOffsets) > w.half()+40 {
					for _, name := range slices.Sorted(maps.Keys(one.series.open)) {
						if h := one.series.open[name]; h.episode.Seen > 5 && h.offset == w.next-seriesOffsets {
							open = h
						}
					}
				}
			}
			id := one.episodeID(open.model, fixtures.Events, open.name, open.episode.From)
			c.change(w, open)
			if stage, one = w.stage(reject.NullRow, 0); c.stage != nil {
				c.stage(one)
				one.series.heard(one.series.all[open.name], w.next, 0, "other features")
			}
			before := len(w.written)
			for range 40 {
				step()
			}
			said := ""
			for _, m := range w.written[before:] {
				var r episode.Record
				if m.Topic == "alarms" && json.Unmarshal(m.Value, &r) == nil && r.ID == id && said == "" {
					said = r.Type + " " + fmt.Sprint(r.Seq) + " " + *cmp.Or(r.Reason, new(string))
				}
			}
			want := ""
			if c.reason != "" {
				want = fmt.Sprintf("%s %d %s", episode.Closed, open.episode.Seq, c.reason)
			}
			if said != want {
				t.Errorf("of %s the next that is said is %q, want %q", id, said, want)
			}
		})
	}
}

// A series begins again with other features; a damaged or newer record stops the process, and says where it is.
func TestStatesThatDoNotFit(t *testing.T) {
	w := newSeriesWorld(t, modelkey.By{}, false, reject.NullRow)
	w.calm(reject.NullRow)
	_, one := w.stage(reject.NullRow, 0)
	held := one.series.touch(nil, 1, 0, one.series.newest.features)
	if held.Rows < 100 {
		t.Fatalf("%d rows", held.Rows)
	}
	if held = one.series.touch(nil, 2, 0, fingerprint([]string{"a", "b"})); held.Rows != 0 {
		t.Errorf("with other features: %d rows", held.Rows)
	}
	last := &w.states[len(w.states)-2] // behind it is the clock
	for say, damage := range map[string]func(){
		`format "9"`:        func() { last.Headers[2].Value = []byte("9") },
		"unexpected end of": func() { last.Value = last.Value[:len(last.Value)-1] },
		"after top-level":   func() { last.Value = append(last.Value, 0) },
		"claims 3 items":    func() { last.Value = last.Value[:30] },
		"the clock":         func() { w.states[len(w.states)-1].Value = []byte("{") },
		"source-offset:":    func() { last.Headers[0].Value = []byte("one") },
		"none that is open": func() { last.Value = regexp.MustCompile(`"at":\d+`).ReplaceAll(last.Value, []byte(`"at":200`)) },
	} {
		was, clock := *last, w.states[len(w.states)-1]
		was.Headers = headersOf(sink.Message{Headers: last.Headers})
		damage()
		stage := &Transform{TransformConfig: one.TransformConfig, Committed: one.Committed}
		_, err := stage.Rewind(t.Context())
		var stop *reject.Stop
		if !errors.As(err, &stop) || !strings.Contains(err.Error(), say) || !strings.Contains(err.Error(), "topic states, partition 0, offset") || stop.Remedy == "" {
			t.Errorf("%s: %v", say, err)
		}
		damaged, newest := w.states, slices.Clone(w.states)
		newest = append(newest, was, clock) // they replace what is damaged
		w.states = newest
		if _, err := stage.Rewind(t.Context()); err != nil {
			t.Errorf("%s, and written again: %v", say, err)
		}
		w.states = damaged
		*last, w.states[len(w.states)-1] = was, clock
	}
}

// Who may write to the topic of states makes a take-over hold no more than twice the series that a partition keeps, each of no more than a state has.
func TestStatesOfOthersAreBounded(t *testing.T) {
	w := newSeriesWorld(t, modelkey.By{Place: modelkey.Key}, false, reject.NullRow)
	w.calm(reject.NullRow)
	own := w.newest()
	delete(own, "g/events/0")          // the clock
	state := w.states[len(w.states)-2] // behind it is the clock
	forge := func(name string, offset int64) {
		one := state
		one.Key, one.Offset = []byte("g/events/0/"+name), int64(len(w.states))
		one.Headers = headersOf(sink.Message{Headers: state.Headers})
		one.Headers[0].Value = fmt.Append(nil, offset)
		w.states = append(w.states, one)
	}
	for i := range 100 {
		forge(fmt.Sprint("old", i), 1)
		forge(fmt.Sprint("new", i), 1<<40)
		forge(strings.Repeat("x", 601)+fmt.Sprint(i), 1)
	}
	for key := range own { // written again, as by transforms that go on
		for _, r := range slices.Backward(w.states) {
			if string(r.Key) == key {
				r.Offset = int64(len(w.states))
				w.states = append(w.states, r)
				break
			}
		}
	}
	_, one := w.stage(reject.NullRow, 0)
	if s := &one.series; len(s.all) != 2*w.most || len(s.gone) != 2*w.most {
		t.Errorf("%d series and %d that are gone, of at most %d", len(s.all), len(s.gone), 2*w.most)
	}
	for key := range own {
		if name := strings.TrimPrefix(key, "g/events/0/"); one.series.all[name] == nil {
			t.Errorf("the oldest are kept, and not series %s", name)
		}
	}
	for say, spoil := range map[string]func(r *source.Record){
		"at most": func(r *source.Record) { r.Value = make([]byte, 1<<20) },
		"has 17":  func(r *source.Record) { r.Headers[1].Value = make([]byte, 17) },
	} {
		forge("wide", 1)
		last := &w.states[len(w.states)-1]
		spoil(last)
		stage := &Transform{TransformConfig: one.TransformConfig, Committed: one.Committed}
		if _, err := stage.Rewind(t.Context()); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%s: %v", say, err)
		}
		w.states = w.states[:len(w.states)-1]
	}
}

// A take-over that finds more series than it holds closes the episodes of the others, once.
func TestTakeOverClosesWhatItDoesNotHold(t *testing.T) {
	w := newSeriesWorld(t, modelkey.By{Place: modelkey.Key}, false, reject.NullRow)
	w.most = 100
	stage, one := w.stage(reject.NullRow, 0)
	from := 0
	step := func() {
		w.adopt(one, from)
		work, err := stage.Do(t.Context(), w.batch(from, 1))
		if err != nil {
			t.Fatal(err)
		}
		w.commit(work, int64(from)*seriesOffsets+1)
		stage.Kept()
		from++
	}
	old := func() bool { // an episode is open of the series that was not heard of for the longest time, or the next one
		s := &one.series
		return len(s.all) == 8 && (s.oldest.episode.Watch.Open || s.oldest.newer.episode.Watch.Open)
	}
	for !old() {
		step()
	}
	open, before := maps.Clone(one.series.open), len(w.written)
	w.most = 2
	held := map[string]bool{}
	for i := range 5 {
		if stage, one = w.stage(reject.NullRow, 0); i == 0 {
			for name := range one.series.all {
				held[name] = true
			}
		}
		step()
	}
	closed := map[string]int{}
	for _, m := range w.written[before:] {
		var r episode.Record
		if m.Topic == "alarms" && json.Unmarshal(m.Value, &r) == nil && r.Type == episode.Closed && *r.Reason == episode.Evicted {
			closed[r.ID]++
		}
	}
	for name, of := range open {
		id := one.episodeID(of.model, fixtures.Events, name, of.episode.From)
		if n := closed[id]; n > 1 || n == 0 && !held[name] {
			t.Errorf("%s is closed %d times as evicted, and held: %v", id, n, held[name])
		}
	}
	if len(held) != 4 || len(open) == 0 {
		t.Errorf("%d series are held, and %d episodes were open: this proves too little", len(held), len(open))
	}
}

// A message is one line that steers no terminal, however a series and a feature are called. It begins with the series, which may have empty text for a name.
func TestMessagesAreOneLine(t *testing.T) {
	series, empty := "press\n\x1b[31m7\u202e é", ""
	r := episode.Record{Type: episode.Closed, Reason: new(string), Rows: 2, Causes: []episode.Cause{{Feature: "vib\tx", Direction: "up"}}}
	for who, of := range map[string]*string{"press\ufffd\ufffd[31m7\ufffd é": &series, `""`: &empty, "partition 0": nil} {
		r.Series = of
		if got, want := said(&r), who+": vib\ufffdx went up at offset 0, row 0, closed after 2 rows ()"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	r.Causes[0].Onset = new(int)
	for onset, when := range map[int]string{-3: "at", 0: "at", 1: "1 row after", 41: "41 rows after"} {
		*r.Causes[0].Onset = onset
		if got, want := said(&r), "vib\ufffdx went up "+when+" offset 0, row 0, closed"; !strings.Contains(got, want) {
			t.Errorf("%q, want %q in it", got, want)
		}
	}
}

// docs/wire-format.md names the format of states.
func TestPageNamesTheFormatOfStates(t *testing.T) {
	page, err := os.ReadFile("../../docs/wire-format.md")
	if err != nil {
		t.Fatal(err)
	}
	if says := "`" + HeaderStateFormat + "` (" + stateFormat + ", the format)"; !strings.Contains(string(page), says) {
		t.Errorf("the page does not say %s", says)
	}
}
