package system

import (
	"context"

	"github.com/lca-stream/lca-stream/source"
)

// ownReader reads a partition of one of our topics, and says once per topic that a batch is passed over: it is another producer's, but what is
// decided by what a topic holds should not be decided in silence without a part of it.
type ownReader struct {
	*source.Fetcher
	topics *Topics
}

// Fetch is that of the Fetcher.
func (r *ownReader) Fetch(ctx context.Context) (source.Fetched, error) {
	got, err := r.Fetcher.Fetch(ctx)
	for i := range got.Rejected {
		r.say(&got.Rejected[i])
	}
	return got, err
}

func (r *ownReader) say(bad *source.Rejected) {
	if _, said := r.topics.passed.LoadOrStore(bad.Partition.Topic, true); said {
		return
	}
	r.topics.Log.Warn("a batch of one of our topics is passed over, and others like it from now on in silence: this release writes none as large, so another producer writes there, or an older release did; "+
		"let none but this pipeline have WRITE on the topic (`lca-stream doctor --acls` lists who needs what)",
		"topic", bad.Partition.Topic, "partition", bad.Partition.ID, "offset", bad.Offset, "to", bad.Last, "error", bad.Err)
}
