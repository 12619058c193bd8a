package pipeline

import (
	"fmt"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/source"
)

// Expect feeds the rows of files to an E-step under a model, part by part.
type Expect struct {
	Features []string // of the model
	Sums     *lca.Accumulator

	features minibatch.Features
	gathered minibatch.Rows
	identity minibatch.RowIDs
	x        []float64
	ids      []uint64
}

// Part begins a part. Its rows have the identities of rows of the file of that number, so that a replay of the files in the same order
// samples the same rows.
func (e *Expect) Part(number int32) {
	e.Sums.Begin(uint64(number))
	e.identity = minibatch.NewRowIDs("", number)
	e.features = minibatch.Features{}
}

// Take adds the rows of a message of the part. Any fault of the message is an error, because the sums would be of fewer rows than the files hold;
// rows with a feature that is missing or not finite are counted and left out.
func (e *Expect) Take(m *source.Message) error {
	if m.Err != nil {
		return m.Err
	}
	if m.Record.NumRows() == 0 {
		return nil
	}
	if len(e.features.Names) == 0 {
		var err error
		if e.features, err = FeaturesOf(m, e.Features); err != nil {
			return err
		}
	}
	if err := readable(&e.features, &e.gathered, m.Record); err != nil {
		return refused(m, err)
	}
	_, offset, before := m.Identity()
	return eachSlice(&e.features, &e.gathered, m.Record, func(first int) error {
		e.x, e.ids = e.gathered.AppendValid(e.x[:0], e.ids[:0], e.identity, offset, before+first)
		e.Sums.Add(e.x, e.ids, len(e.gathered.Invalid)-len(e.ids))
		return nil
	})
}

// FeaturesOf resolves the features of a model in the first record of some rows.
func FeaturesOf(m *source.Message, names []string) (minibatch.Features, error) {
	f, err := minibatch.ResolveRecord(m.Record, minibatch.ColumnsOf(names))
	if err != nil {
		return f, refused(m, err)
	}
	if len(f.Names) != len(names) {
		return f, &Stop{Err: fmt.Errorf("the model has %d features, and %s of the rows has %d elements", len(names), minibatch.ColumnsOf(names)[0], len(f.Names))}
	}
	return f, nil
}
