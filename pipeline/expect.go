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
	narrow   []float32 // the rows that were gathered, if isNarrow
	isNarrow bool
	ids      []uint64
}

// expectRows is how many rows are gathered at a time: few enough that they are still near when they are projected.
const expectRows = 512

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
	_, offset, before := m.Identity()
	n := int(m.Record.NumRows())
	for from := 0; from < n; from += expectRows {
		to := min(from+expectRows, n)
		if err := e.gather(m.Record, from, to); err != nil {
			return refused(m, err)
		}
		e.ids = e.gathered.AppendIDs(e.ids[:0], e.identity, offset, before+from)
		e.add()
	}
	return nil
}

// gather reads rows of a record, as float32 where that is what they are.
func (e *Expect) gather(rec arrow.Record, from, to int) error {
	if e.narrow, e.isNarrow = e.features.GatherFloat32(&e.gathered, rec, from, to); e.isNarrow {
		return nil
	}
	part := rec.NewSlice(int64(from), int64(to))
	defer part.Release()
	return e.features.Gather(&e.gathered, part)
}

// add adds the rows that were gathered.
func (e *Expect) add() {
	rows, ids := &e.gathered, e.ids
	e.Sums.Leave(rows.Bad)
	for from, to := range rows.Runs() {
		if e.isNarrow {
			e.Sums.AddFloat32(e.narrow[from*rows.Dim:to*rows.Dim], ids[:to-from])
		} else {
			e.Sums.Add(rows.X[from*rows.Dim:to*rows.Dim], ids[:to-from])
		}
		ids = ids[to-from:]
	}
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
