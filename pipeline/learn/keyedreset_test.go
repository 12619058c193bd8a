package learn

import (
	"context"
	"strconv"
	"testing"

	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/source"
)

// A reset moves the models whose checkpoints are before it and have learnt beyond it; not those that are behind, nor what is saved
// afterwards, nor the models of another group.
func TestResetMovesModels(t *testing.T) {
	states := &KeyedStates{ReadBack: checkpoint.ReadBack{Topic: "check"}, Partition: 2, ModelID: "fleet", Owner: checkpoint.Owner{Group: "g", Topic: "in"}, index: map[string]keyedState{}}
	at := int64(0)
	take := func(r source.Record) {
		t.Helper()
		r.Offset = at
		at++
		if err := states.take(&r); err != nil {
			t.Fatal(err)
		}
	}
	saved := func(value string, learnt int64) {
		take(source.Record{Key: []byte("fleet/2/" + value + "/0/0"), Value: []byte("state"), Headers: []source.Header{
			reject.Text("lca-checkpoint", "1"), reject.Text("lca-chunk", "0/1"), reject.Text(reject.HeaderLearnt, strconv.FormatInt(learnt, 10)), reject.Text(reject.HeaderVersion, "10"), reject.Text(reject.HeaderLastRow, "0"),
			reject.Text(reject.HeaderPublished, "10"), reject.Text(reject.HeaderDim, "2"), reject.Text(reject.HeaderGroup, "g"),
		}})
	}
	reset := func(group string, to int64) {
		other := *states
		other.Owner.Group = group
		m := other.Move(to)
		if m.Topic != "check" || m.Partition != 2 {
			t.Errorf("the record goes to partition %d of %s", m.Partition, m.Topic)
		}
		take(source.Record{Key: m.Key, Value: m.Value, Headers: m.Headers})
	}
	want := func(value string, learnt int64) {
		t.Helper()
		if got := states.index[value].learnt; got != learnt {
			t.Errorf("%s has learnt up to %d, want %d", value, got, learnt)
		}
	}
	saved("ahead", 150)
	saved("behind", 90)
	saved("reset", 120) // a model of that name is no reset
	reset("another", 10)
	want("ahead", 150)
	reset("g", 100)
	want("ahead", 100)
	want("behind", 90)
	want("reset", 100)
	saved("ahead", 160)
	want("ahead", 160)
	reset("g", 130)
	want("ahead", 130)
	want("reset", 100)
}

// wantedReader notes what is asked of it.
type wantedReader struct {
	checkpoint.TopicReader
	at, until int64
}

func (r *wantedReader) Move(next int64) { r.at = next }

func (r *wantedReader) Want(until int64) { r.until = until }

// One checkpoint is asked for, and not all that is behind it on the topic: with thousands of models that is most of what a restart reads.
func TestOneCheckpointIsWanted(t *testing.T) {
	first := &wantedReader{}
	states := &KeyedStates{ReadBack: checkpoint.ReadBack{Open: func(_ context.Context, at int64) (checkpoint.TopicReader, error) {
		first.at = at
		return first, nil
	}}}
	for _, at := range []int64{70, 30} { // the second time the reader is there
		if err := states.moveTo(t.Context(), at, at+2); err != nil || first.at != at || first.until != at+2 {
			t.Errorf("the reader is at %d for %d, want %d for %d: %v", first.at, first.until, at, at+2, err)
		}
	}
}
