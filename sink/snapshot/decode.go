package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/source/format/ipcguard"
)

// decoder puts a snapshot together from its streams, which it takes in the order of their rows.
type decoder struct {
	snapshot   *Snapshot
	metadata   pairs
	table      table
	neighbours []float32
	scores     []float64
	raw        []ipcguard.Pair // memory for the metadata of a part
	text       pairs           // memory for the metadata of the first part
	parsed     memo
}

// begin forgets a snapshot, and keeps memory that nothing of it uses; over: nothing uses its numbers.
func (d *decoder) begin(over bool) {
	t := &d.table
	if !over {
		d.neighbours, d.scores, t.numbers, t.squares = nil, nil, nil, nil
	}
	*d = decoder{
		neighbours: d.neighbours[:0], scores: d.scores[:0], raw: d.raw[:0], text: d.text, parsed: d.parsed,
		table: table{kind: t.kind[:0], index: t.index[:0], eigenvalue: t.eigenvalue[:0], vector: t.vector[:0], numbers: t.numbers[:0], squares: t.squares[:0], places: t.places},
	}
}

// add decodes the stream at the start of data as rows of a part, and returns the bytes after it.
func (d *decoder) add(part string, data []byte, limits ipcguard.Limits) (rest []byte, err error) {
	if rest, ok := d.addFlat(part, data, limits); ok {
		return rest, nil
	}
	return d.addAny(part, data, limits)
}

// addAny is add with the Arrow library.
func (d *decoder) addAny(part string, data []byte, limits ipcguard.Limits) (rest []byte, err error) {
	schema, records, rest, err := readStream(data, limits)
	if err != nil {
		return nil, fmt.Errorf("snapshot: part %s: %w", part, err)
	}
	if name, ok := schema.Metadata().GetValue(partKey); ok && name != part {
		return nil, fmt.Errorf("snapshot: part %s: its %s says %q", part, partKey, name)
	}
	if err := d.agree(pairsIn(schema.Metadata())); err != nil {
		return nil, fmt.Errorf("%w (part %s)", err, part)
	}
	for _, rec := range records {
		switch part {
		case PartModel:
			err = d.addDirections(rec)
		case PartNeighbours:
			err = d.addNeighbours(rec)
		case PartScores:
			err = d.addScores(rec)
		}
		if err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// agree adopts the first stream's metadata, and requires later streams to be of the same model.
func (d *decoder) agree(m pairs) error {
	if d.snapshot != nil && samePart(d.metadata, m) {
		return nil
	}
	s, err := d.parsed.metadata(m)
	if err != nil {
		return err
	}
	if d.snapshot == nil {
		d.snapshot, d.metadata, d.table.d = s, m, s.Model.Dim
		return nil
	}
	if was := d.snapshot; s.ModelID != was.ModelID || s.Version != was.Version || s.Model.Dim != was.Model.Dim {
		return fmt.Errorf("snapshot: chunks of two models: %q version %d of %d columns, then %q version %d of %d columns",
			was.ModelID, was.Version, was.Model.Dim, s.ModelID, s.Version, s.Model.Dim)
	}
	return nil
}

// samePart reports whether two streams say the same, except for the part that they are of. Reading it all again takes a fifth of the time of
// decoding a small model.
func samePart(a, b pairs) bool {
	if len(a.keys) != len(b.keys) {
		return false
	}
	for i, key := range a.keys {
		if key != b.keys[i] || key != partKey && a.values[i] != b.values[i] {
			return false
		}
	}
	return true
}

func (d *decoder) addDirections(rec arrow.Record) error {
	kind, err := column[*array.String](rec, "kind")
	if err != nil {
		return err
	}
	index, err := column[*array.Int32](rec, "index")
	if err != nil {
		return err
	}
	eigenvalue, err := column[*array.Float64](rec, "eigenvalue")
	if err != nil {
		return err
	}
	vector, err := vectors[*array.Float64](rec, "vector", d.table.d)
	if err != nil {
		return err
	}
	for i := range kind.Len() {
		d.table.kind = append(d.table.kind, kind.Value(i))
	}
	d.table.index = append(d.table.index, index.Int32Values()...)
	d.table.eigenvalue = append(d.table.eigenvalue, eigenvalue.Float64Values()...)
	d.table.vector = append(d.table.vector, vector.Float64Values()...)
	return nil
}

func (d *decoder) addNeighbours(rec arrow.Record) error {
	x, err := vectors[*array.Float32](rec, "x", d.table.d)
	if err != nil {
		return err
	}
	d.neighbours = append(d.neighbours, x.Float32Values()...)
	return nil
}

func (d *decoder) addScores(rec arrow.Record) error {
	score, err := column[*array.Float64](rec, "score")
	if err != nil {
		return err
	}
	d.scores = append(d.scores, score.Float64Values()...)
	return nil
}

// finish returns the snapshot once all parts have been added.
func (d *decoder) finish() (*Snapshot, error) {
	s := d.snapshot
	if s == nil {
		return nil, errors.New("snapshot: no bytes")
	}
	if err := d.table.fill(s.Model); err != nil {
		return nil, err
	}
	s.Model.Neighbours = d.neighbours
	if text, _ := d.metadata.get(formatKey); text == "1" {
		centreNeighbours(s.Model)
	}
	if len(d.scores) > 0 {
		if s.Model.Scores == nil {
			s.Model.Scores = new(lca.Scores)
		}
		s.Model.Scores.Sorted = d.scores
	}
	err := d.metadata.eachField(func(f *field, text string, ok bool) error {
		if ok && f.set == nil && text != f.get(s) {
			return fmt.Errorf("snapshot: %s is %q, but the rows make it %s: something is missing", f.key, text, f.get(s))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, s.Validate()
}

// centreNeighbours brings a model of format 1, whose neighbours are x_j and whose kernels are Gaussian, to x_j − μ.
func centreNeighbours(m *lca.Model) {
	m.Kernel = lca.KernelGaussian
	if len(m.Mean) != m.Dim {
		return // Validate will say so
	}
	for k, v := range m.Neighbours {
		m.Neighbours[k] = float32(float64(v) - m.Mean[k%m.Dim])
	}
}

// column returns the column of a name, which must have the type A and no nulls.
func column[A arrow.Array](rec arrow.Record, name string) (A, error) {
	var none A
	found := rec.Schema().FieldIndices(name)
	if len(found) != 1 {
		return none, fmt.Errorf("snapshot: %d columns %q, want 1", len(found), name)
	}
	a, ok := rec.Column(found[0]).(A)
	if !ok {
		return none, fmt.Errorf("snapshot: column %q has type %q", name, rec.Column(found[0]).DataType().String())
	}
	if a.NullN() > 0 {
		return none, fmt.Errorf("snapshot: column %q has %d nulls", name, a.NullN())
	}
	return a, nil
}

// vectors returns the numbers of a column whose values are lists of d numbers.
func vectors[A arrow.Array](rec arrow.Record, name string, d int) (A, error) {
	var none A
	lists, err := column[*array.FixedSizeList](rec, name)
	if err != nil {
		return none, err
	}
	if n := int(lists.DataType().(*arrow.FixedSizeListType).Len()); n != d {
		return none, fmt.Errorf("snapshot: column %q holds %d numbers per row, but lca.d is %d", name, n, d)
	}
	values, ok := lists.ListValues().(A)
	if !ok || values.NullN() > 0 {
		return none, fmt.Errorf("snapshot: column %q has type %q and %d nulls within", name, lists.DataType().String(), lists.ListValues().NullN())
	}
	if values.Len() < lists.Len()*d {
		return none, fmt.Errorf("snapshot: column %q has %d numbers for %d rows of %d", name, values.Len(), lists.Len(), d)
	}
	return array.NewSlice(values, 0, int64(lists.Len()*d)).(A), nil
}

// readStream reads the stream at the start of data, after the guard has checked all of it, and returns the bytes
// after its end. The bytes are untrusted, because other programs can write to the topic.
func readStream(data []byte, limits ipcguard.Limits) (_ *arrow.Schema, _ []arrow.Record, rest []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = damaged(p)
		}
	}()
	guard := ipcguard.NewStream(limits)
	for rest = data; err == nil; {
		_, rest, err = guard.Next(rest)
	}
	if !errors.Is(err, io.EOF) {
		return nil, nil, nil, err
	}
	if guard.Schema() == nil {
		return nil, nil, nil, errors.New("no Arrow stream where one should begin")
	}
	r, err := ipc.NewReader(bytes.NewReader(data[:len(data)-len(rest)]))
	if err != nil {
		return nil, nil, nil, damaged(err)
	}
	defer r.Release()
	var records []arrow.Record
	for r.Next() {
		rec := r.Record()
		rec.Retain()
		for i, col := range rec.Columns() {
			if err := guard.Validate(col.Data(), &guard.Schema().Fields[i]); err != nil {
				return nil, nil, nil, err
			}
		}
		records = append(records, rec)
	}
	if err := r.Err(); err != nil {
		return nil, nil, nil, damaged(err)
	}
	return r.Schema(), records, rest, nil
}

// damaged is the error for bytes that the library does not read though the guard has let them pass, as it does compressed ones. What the library has caught of its
// own faults is no help to a reader.
func damaged(fault any) error {
	words := fmt.Sprint(fault)
	if strings.Contains(words, "runtime error") {
		return errors.New("the Arrow stream is damaged")
	}
	for _, prefix := range []string{"arrow/ipc: ", "unknown error while reading: "} {
		words = strings.TrimPrefix(words, prefix)
	}
	return fmt.Errorf("the Arrow stream is damaged: %s", words)
}
