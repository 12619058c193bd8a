package learn

import (
	"cmp"
	"maps"
	"slices"

	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/source"
)

// Facts are what was accepted of one model, for a replay, which does so at the same places.
type Facts struct {
	all  []*episode.Acceptance
	end  source.Offsets
	done int // of all, in this pass
}

// NewFacts returns facts of a model, in whatever order, for a replay up to an end.
func NewFacts(all []*episode.Acceptance, end source.Offsets) *Facts {
	sum := func(a *episode.Acceptance) (n int64) {
		for at := range maps.Values(a.At) {
			n += at
		}
		return n
	}
	all = slices.SortedFunc(slices.Values(all), func(a, b *episode.Acceptance) int { // a learner's positions only grow
		return cmp.Or(cmp.Compare(sum(a), sum(b)), cmp.Compare(a.Command.Partition, b.Command.Partition), cmp.Compare(a.Command.Offset, b.Command.Offset))
	})
	return &Facts{all: all, end: end}
}

// restart begins another pass.
func (f *Facts) restart() {
	if f != nil {
		f.done = 0
	}
}

// rest is the end of the replay, once all is read: what is before it may be no record, but the marker of a transaction.
func (f *Facts) rest() source.Offsets {
	if f == nil {
		return nil
	}
	return f.end
}

// upTo does with each fact what a live learner had done before it read on from these offsets.
func (f *Facts) upTo(read source.Offsets, accept func(*episode.Acceptance)) {
	for a := f.due(read); a != nil; a = f.due(read) {
		accept(a)
	}
}

// due returns the next fact whose place a replay has reached that has read all partitions up to these offsets; nil: there is none. Partitions that it does not read
// do not count.
func (f *Facts) due(read source.Offsets) *episode.Acceptance {
	if f == nil || f.done == len(f.all) {
		return nil
	}
	a := f.all[f.done]
	for p, next := range read {
		if next < a.At[p.ID] {
			return nil
		}
	}
	f.done++
	return a
}

// acceptBefore does what the live learner had done before it read a message.
func (l *Learn) acceptBefore(m *source.Message) {
	if l.Facts != nil {
		l.offsets[m.Partition] = max(l.offsets[m.Partition], m.Offset)
		l.Facts.upTo(l.offsets, l.acceptFact)
	}
}

// acceptRest does what it had done before the end.
func (l *Learn) acceptRest() { l.Facts.upTo(l.Facts.rest(), l.acceptFact) }

func (l *Learn) acceptFact(a *episode.Acceptance) { l.accept(a) }
