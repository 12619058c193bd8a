package source

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
)

func TestAborted(t *testing.T) {
	type step struct {
		producer int64
		first    int64
		last     int64
		kind     string // data, plain (not transactional), abort
	}
	for _, c := range []struct {
		name  string
		list  []abortedTxn
		steps []step
		shown []int64 // first offsets of the batches that a reader sees
	}{
		{
			name:  "nothing aborted",
			steps: []step{{1, 0, 4, "data"}, {2, 5, 5, "plain"}},
			shown: []int64{0, 5},
		},
		{
			name:  "an aborted transaction between two others of the same producer",
			list:  []abortedTxn{{1, 5}},
			steps: []step{{1, 0, 3, "data"}, {1, 5, 6, "data"}, {1, 7, 8, "data"}, {1, 9, 9, "abort"}, {1, 10, 12, "data"}},
			shown: []int64{0, 10},
		},
		{
			name:  "two producers, interleaved",
			list:  []abortedTxn{{1, 0}, {2, 3}},
			steps: []step{{1, 0, 1, "data"}, {3, 2, 2, "data"}, {2, 3, 3, "data"}, {1, 4, 4, "abort"}, {1, 5, 5, "data"}, {2, 6, 6, "data"}, {2, 7, 7, "abort"}, {2, 8, 8, "data"}},
			shown: []int64{2, 5, 8},
		},
		{
			// Some brokers list the transactions of a producer in another order.
			name:  "two aborted transactions, listed backwards",
			list:  []abortedTxn{{1, 6}, {1, 0}},
			steps: []step{{1, 0, 1, "data"}, {1, 2, 2, "abort"}, {1, 3, 4, "data"}, {1, 6, 7, "data"}, {1, 8, 8, "abort"}},
			shown: []int64{3},
		},
		{
			// After compaction the marker outlives the records. If only data batches made an entry
			// active, it would stay active and hide the next, committed transaction.
			name:  "an abort marker without its records",
			list:  []abortedTxn{{1, 0}},
			steps: []step{{1, 2, 2, "abort"}, {1, 3, 4, "data"}},
			shown: []int64{3},
		},
		{
			// The transaction wrote nothing to this partition, so the broker does not list it.
			name:  "an abort marker that is not listed",
			list:  []abortedTxn{{1, 5}},
			steps: []step{{1, 1, 1, "abort"}, {1, 2, 3, "data"}, {1, 5, 5, "data"}, {1, 6, 6, "abort"}},
			shown: []int64{2},
		},
		{
			name:  "compaction has taken the first records of the aborted batch",
			list:  []abortedTxn{{1, 3}},
			steps: []step{{1, 3, 9, "data"}, {1, 10, 10, "abort"}},
		},
		{
			name:  "a batch outside transactions, of a producer with an aborted one",
			list:  []abortedTxn{{1, 0}},
			steps: []step{{1, 0, 0, "data"}, {1, 1, 1, "plain"}, {1, 2, 2, "abort"}},
			shown: []int64{1},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAborted(c.list)
			var shown []int64
			for _, s := range c.steps {
				b := &recordbatch.Batch{
					BaseOffset: s.first, LastOffset: s.last,
					Producer: recordbatch.Producer{ID: s.producer, Transactional: s.kind != "plain"},
				}
				switch {
				case s.kind == "abort":
					a.end(b)
				case !a.hides(b):
					shown = append(shown, s.first)
				}
			}
			if diff := cmp.Diff(c.shown, shown); diff != "" {
				t.Errorf("batches shown (-want +got):\n%s", diff)
			}
		})
	}
}
