package pipeline

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// wildStamps are record timestamps that producers have written: none at all, a clock that was not set, microseconds and nanoseconds
// for milliseconds, "no end", and what 64 bits hold.
var wildStamps = []int64{
	math.MinInt64, -1, 0, 1, 10_413_792_000_000, 253_402_300_799_000, 1_700_000_000_000_000, 1_700_000_000_000_000_000, math.MaxInt64,
}

// What a topic takes is decided as integers of any size would decide it, whatever the timestamp and the bounds are.
func TestBoundsOfAnyTime(t *testing.T) {
	now := time.UnixMilli(1_795_000_000_000)
	clock := func() time.Time { return now }
	for _, bound := range []timeBound{
		{"out", sink.AnyTime, time.Hour}, {"out", time.Hour, sink.AnyTime}, {"out", time.Hour, time.Minute}, {"out", 0, 0},
		{"out", sink.AnyTime - 1, sink.AnyTime - 1}, {"out", -1, -1},
	} {
		for _, ms := range append(slices.Clone(wildStamps), now.UnixMilli(), now.UnixMilli()-3_600_001, now.UnixMilli()+3_600_001) {
			age := new(big.Int).Sub(big.NewInt(now.UnixMilli()), big.NewInt(ms))
			within := func(d *big.Int, most time.Duration) bool {
				return most == sink.AnyTime || new(big.Int).Mul(d, big.NewInt(1_000_000)).Cmp(big.NewInt(int64(most))) <= 0
			}
			want := within(age, bound.before) && within(new(big.Int).Neg(age), bound.after)
			if bound.before == -1 {
				want = false
			}
			if bound.before == sink.AnyTime-1 { // beyond what a Duration tells apart
				want = age.IsInt64() && age.CmpAbs(big.NewInt(math.MaxInt64/1_000_000)) <= 0
			}
			if got := (timeBounds{bound}).permit("out", time.UnixMilli(ms), clock); got != want {
				t.Errorf("%v ago to %v ahead, %d: %v, want %v", bound.before, bound.after, ms, got, want)
			}
		}
	}
	var b timeBounds
	if !b.learn(&sink.TimestampError{Topic: "out", Known: true, Before: sink.AnyTime, After: time.Hour}) || !b.permit("out", time.UnixMilli(0), clock) {
		t.Error("a topic without a bound for old records takes them")
	}
}

// A record whose timestamp is anything goes on: outputs, dead letters and alarms have a time that their topics take.
func TestAnyTimestampGoesOn(t *testing.T) {
	w := learnt(t)
	w.alarms = Alarms{Topic: "alarms", ModelID: "m", PBelow: 1}
	now := time.UnixMilli(time.Now().UnixMilli())
	for i := range w.topics[events] {
		w.topics[events][i].Time = now
	}
	for i, ms := range wildStamps {
		w.topics[events][i].Time = time.UnixMilli(ms)
		if i%4 == 3 {
			w.topics[events][i].Value = []byte("garbage")
		}
	}
	loop := w.transformLoop(t, events, 3)
	loop.Sink = &punctual{memorySink: loop.Sink.(*memorySink), known: true}
	if err := loop.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := append(slices.Clone(w.topics[out]), w.topics[dead]...)
	if len(got) != len(w.topics[events]) || len(w.topics[dead]) != 2 {
		t.Fatalf("%d outputs and %d dead letters of %d inputs", len(w.topics[out]), len(w.topics[dead]), len(w.topics[events]))
	}
	for _, m := range got {
		offset, _ := strconv.Atoi(header(m, "lca-source-offset"))
		if offset < len(wildStamps) && header(m, "lca-source-timestamp") != strconv.FormatInt(wildStamps[offset], 10) {
			t.Errorf("stamp %d: headers %v", wildStamps[offset], m.Headers)
		}
	}
	alarms := map[int64]alarm{}
	for _, m := range w.topics[source.Partition{Topic: "alarms"}] {
		var a alarm
		if err := json.Unmarshal(m.Value, &a); err != nil {
			t.Fatal(err)
		}
		alarms[a.Source.Offset] = a
	}
	if a := alarms[int64(len(wildStamps)-1)]; a.Time.Year() != 9999 {
		t.Errorf("an alarm of a row of the year 292278994 is of %v", a.Time)
	}
	strange := loop.Stats.Strangest(time.Now())
	if _, err := json.Marshal(strange); err != nil || len(strange) == 0 {
		t.Errorf("%d strange rows: %v", len(strange), err)
	}
	if n, seconds, _ := loop.Stats.EndToEnd.Read(); n == 0 || math.IsNaN(seconds) || seconds < 0 || math.IsInf(seconds, 0) {
		t.Errorf("%d times of %g s altogether", n, seconds)
	}
}

// A refusal names bounds that a topic has.
func TestRefusalNamesNoAbsurdBound(t *testing.T) {
	for _, e := range []*sink.TimestampError{
		{Known: true, Before: sink.AnyTime, After: time.Hour}, {Known: true, Before: time.Hour, After: sink.AnyTime}, {},
	} {
		if e.Topic, e.Err = "out", errors.New("refused"); strings.Contains(e.Error(), "2562047h") {
			t.Error(e)
		}
	}
}

// Models published at any time are followed, and what is told of them can be written as JSON.
func TestModelsOfAnyTime(t *testing.T) {
	from := learntSnapshots(t)
	for _, ms := range wildStamps {
		w := newWorld()
		w.put(from.topics[snapshotLog]...)
		for i := range w.topics[snapshotLog] {
			w.topics[snapshotLog][i].Time = time.UnixMilli(ms)
		}
		loop := w.transformLoop(t, events, 3)
		m := loop.Stage.(*Transform).Follow.Current()
		if m == nil {
			t.Fatalf("%d: no model", ms)
		}
		if _, err := json.Marshal(loop.Stats.ModelHistory()); err != nil {
			t.Errorf("%d: %v", ms, err)
		}
		if age := m.Age(time.UnixMilli(1_795_000_000_000)); ms > 1_795_000_000_000 && age > 0 {
			t.Errorf("a model of %d is %v old", ms, age)
		}
	}
}

// Partitions with any timestamps are merged into an order that the records alone decide, and nothing is left out.
func TestMergeOfAnyTimes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var parts [2][]int64
	for p := range parts {
		parts[p] = slices.Clone(wildStamps)
		random.Shuffle(len(parts[p]), func(i, j int) { parts[p][i], parts[p][j] = parts[p][j], parts[p][i] })
	}
	merge := func(step int) []string {
		m, sources := merged(step, 1, make([]int, len(wildStamps)), make([]int, len(wildStamps)))
		for p, s := range sources {
			for i := range s.all {
				s.all[i].Time = time.UnixMilli(parts[p][i])
			}
		}
		order, _ := drain(t, m)
		return order
	}
	want := merge(1)
	if len(want) != 2*len(wildStamps) {
		t.Errorf("%d of %d messages", len(want), 2*len(wildStamps))
	}
	if got := merge(4); !slices.Equal(got, want) {
		t.Errorf("in batches of 4: %v, want %v", got, want)
	}
}

// The table of models can be listed whatever the timestamp of a model's last row was.
func TestLastRowOfAnyTime(t *testing.T) {
	for _, ms := range wildStamps {
		at := time.UnixMilli(ms)
		if _, err := json.Marshal(ModelRow{LastRow: source.Calendar(at)}); err != nil {
			t.Errorf("%d: %v", ms, err)
		}
	}
}
