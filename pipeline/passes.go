package pipeline

import "github.com/lca-stream/lca-stream/source"

// Restart begins another pass over the same rows: the model stays, the offsets go back. What is left of the pass before is
// learnt at once, because the first rows do not follow the last ones.
func (l *Learn) Restart(start source.Offsets) error {
	if l.learner != nil {
		if rest := l.batcher.Rest(); len(rest.IDs) > 0 {
			if err := l.minibatch(rest); err != nil {
				return err
			}
			l.batcher.Reset()
		}
		l.released += uint64(l.learner.NextPass())
	}
	l.offsets, l.unusable = start.Clone(), Unusable{}
	return nil
}

// Unusable returns what could not be learnt from since the start or the last Restart.
func (l *Learn) Unusable() Unusable { return l.unusable }

// SetAside counts rows that a replay read and did not learn, over all passes.
type SetAside struct {
	Outliers    uint64 // each is far from all others
	Passing     uint64 // of changes that did not last
	Unconfirmed uint64 // of a change that the range ends with, before it could be believed
}

// SetAside returns what a replay has not learnt.
func (l *Learn) SetAside() SetAside {
	if l.learner == nil {
		return SetAside{}
	}
	return SetAside{Outliers: l.learner.Info().Gated - l.released, Passing: l.released, Unconfirmed: uint64(l.learner.Quarantined())}
}
