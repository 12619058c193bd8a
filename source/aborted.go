package source

import (
	"slices"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
)

// abortedTxn is an entry of a Fetch response: an aborted transaction that overlaps what was
// fetched, named by its producer and the offset of its first record.
type abortedTxn struct{ producer, first int64 }

// aborted records which batches of one Fetch response belong to aborted transactions. The broker
// returns those batches even to a read_committed reader, with the list of what to leave out.
//
// An entry is active from its first offset to the next abort marker of that producer. The marker
// ends it even if the transaction's records are gone: after compaction a marker outlives them, and
// an entry that it does not end would hide the producer's next, committed transaction.
type aborted map[int64][]int64 // producer to first offsets, ascending

// newAborted sorts the entries by offset: some brokers (Redpanda) do not.
func newAborted(list []abortedTxn) aborted {
	a := make(aborted, len(list))
	for _, txn := range list {
		a[txn.producer] = append(a[txn.producer], txn.first)
	}
	for _, firsts := range a {
		slices.Sort(firsts)
	}
	return a
}

// hides reports whether a data batch was aborted.
func (a aborted) hides(b *recordbatch.Batch) bool {
	return b.Producer.Transactional && a.active(b)
}

// end takes note of an abort marker.
func (a aborted) end(marker *recordbatch.Batch) {
	if a.active(marker) {
		a[marker.Producer.ID] = a[marker.Producer.ID][1:]
	}
}

// active reports whether an aborted transaction of the batch's producer covers it. It compares with the batch's last
// offset, because compaction keeps that one.
func (a aborted) active(b *recordbatch.Batch) bool {
	firsts := a[b.Producer.ID]
	return len(firsts) > 0 && firsts[0] <= b.LastOffset
}
