package pipeline

import (
	"fmt"

	"github.com/apache/arrow/go/v15/arrow"

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
	ids      []uint64
}

// Part begins a part. Its rows have the identities of rows of the file of that number, so that a replay of the files in the same order
// samples the same rows.
func (e *Expect) Part(number int32) {
	e.Sums.Begin(uint64(number))
	e.identity = minibatch.NewRowIDs("", number)
	e.features = minibatch.Features{}
}

// Take adds the rows of a message of the part. Any fault of the message is an error, after which the sums are of no use: they would be of fewer rows
// than the files hold. Rows with a feature that is missing or not finite are counted and left out.
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
	if err := eachPart(m.Record, sliceOf(e.features.Dim()), func(part arrow.Record, first int) error { return e.add(m, part, first) }); err != nil {
		return refused(m, err)
	}
	return nil
}

// add adds the rows of a part of a message's record, which begins at row first of it.
func (e *Expect) add(m *source.Message, part arrow.Record, first int) error {
	_, offset, before := m.Identity()
	rows := &e.gathered
	x, narrow := e.features.GatherFloat32(rows, part)
	if !narrow {
		if err := e.features.Gather(rows, part); err != nil {
			return err
		}
	}
	e.ids = rows.AppendIDs(e.ids[:0], e.identity, offset, before+first)
	e.Sums.Leave(rows.Bad)
	at := 0
	for from, to := range rows.Runs() {
		ids := e.ids[at : at+to-from]
		if narrow {
			e.Sums.AddFloat32(x[from*rows.Dim:to*rows.Dim], ids)
		} else {
			e.Sums.Add(rows.X[from*rows.Dim:to*rows.Dim], ids)
		}
		at += len(ids)
	}
	return nil
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
