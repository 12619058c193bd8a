package snapshot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unsafe"

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
	numbers    []float64 // of the part recent
	factors    []float32
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
		neighbours: d.neighbours[:0], scores: d.scores[:0], numbers: d.numbers[:0], factors: d.factors[:0], raw: d.raw[:0], text: d.text, parsed: d.parsed,
		table: table{kind: t.kind[:0], index: t.index[:0], eigenvalue: t.eigenvalue[:0], vector: t.vector[:0], numbers: t.numbers[:0], squares: t.squares[:0], places: t.places},
	}
}

// reserve makes room for a part of size bytes, nearly all of them numbers: those of hundreds of columns would be copied several times while they grow.
func (d *decoder) reserve(part string, size int) {
	switch part {
	case PartModel:
		d.table.vector = slices.Grow(d.table.vector, size/8)
	case PartNeighbours:
		d.neighbours = slices.Grow(d.neighbours, size/4)
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
		case PartRecent:
			err = d.addRecent(rec)
		case PartFactors:
			err = d.addFactors(rec)
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

// mostDirections bounds the rows of the model part: those of each kind are as many as there are columns, and later formats may have more kinds.
func (d *decoder) mostDirections() int { return 64 * (d.table.d + 1) }

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
	if n := len(d.table.kind) + kind.Len(); n > d.mostDirections() {
		return fmt.Errorf("snapshot: %d rows in the model part of a model of %d columns, at most %d are read", n, d.table.d, d.mostDirections())
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

func (d *decoder) addRecent(rec arrow.Record) error {
	number, err := column[*array.Float64](rec, "number")
	if err != nil {
		return err
	}
	if n := len(d.numbers) + number.Len(); n > d.mostNumbers() {
		return fmt.Errorf("snapshot: %d rows in part recent, at most %d are read", n, d.mostNumbers())
	}
	d.numbers = append(d.numbers, number.Float64Values()...)
	return nil
}

func (d *decoder) addFactors(rec arrow.Record) error {
	factor, err := column[*array.Float32](rec, "factor")
	if err != nil {
		return err
	}
	if n := len(d.factors) + factor.Len(); n > d.mostNumbers() {
		return fmt.Errorf("snapshot: %d rows in part factors, at most %d are read", n, d.mostNumbers())
	}
	d.factors = append(d.factors, factor.Float32Values()...)
	return nil
}

// finish returns the snapshot once all parts have been added.
func (d *decoder) finish() (*Snapshot, error) {
	s := d.snapshot
	if s == nil {
		return nil, errors.New("snapshot: no bytes")
	}
	text, _ := d.metadata.get(formatKey)
	if err := d.table.fill(s.Model, text == strconv.Itoa(formatYoung)); err != nil {
		return nil, err
	}
	s.Model.Neighbours = d.neighbours
	if text == "1" {
		centreNeighbours(s.Model)
	}
	if len(d.scores) > 0 {
		if s.Model.Scores == nil {
			s.Model.Scores = new(lca.Scores)
		}
		s.Model.Scores.Sorted = d.scores
	}
	if err := d.fillRecent(s.Model); err != nil {
		return nil, err
	}
	if young := text == strconv.Itoa(formatYoung); young != s.Model.Young() {
		return nil, fmt.Errorf("snapshot: format %s, and young is %t of what is there: something is missing", text, s.Model.Young())
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

// A transform with a model for each key reads thousands of small snapshots a second, and most of the time of reading one with the Arrow library
// goes into objects that stand for its schema, its arrays and their buffers. So a stream that is laid out as this program lays it out is read from
// where the guard says that its numbers lie. Anything else is left to the library, so that it decides what is a snapshot, and with which error
// something is none.

// flatStream is a stream of one batch without nulls and compression.
type flatStream struct {
	fields   []ipcguard.Field
	metadata []ipcguard.Pair
	batch    ipcguard.Batch
	rest     []byte // after the stream
}

// readFlat finds a flatStream at the start of data. It returns false for any other stream.
func (d *decoder) readFlat(data []byte, limits ipcguard.Limits) (s flatStream, ok bool) {
	guard := ipcguard.NewStream(limits)
	d.raw = d.raw[:0]
	guard.Note(&d.raw)
	schema, rest, err := guard.Next(data)
	if err != nil || schema.Kind != ipcguard.SchemaMessage {
		return s, false
	}
	batch, rest, err := guard.Next(rest)
	if err != nil || batch.Kind != ipcguard.BatchMessage || batch.Batch.Codec != ipcguard.Uncompressed {
		return s, false
	}
	for _, n := range batch.Batch.Nodes {
		if n.Nulls != 0 {
			return s, false
		}
	}
	if _, rest, err = guard.Next(rest); !errors.Is(err, io.EOF) {
		return s, false
	}
	return flatStream{guard.Schema().Fields, d.raw, batch.Batch, rest}, true
}

// flatColumns is how the columns of each part are laid out.
var flatColumns = map[string][]ipcguard.Field{
	PartModel: {
		{Path: `"kind"`, Kind: ipcguard.Utf8}, {Path: `"index"`, Kind: ipcguard.Int, Width: 4, Signed: true}, {Path: `"eigenvalue"`, Kind: ipcguard.Float, Width: 8},
		{Path: `"vector"`, Kind: ipcguard.FixedSizeList, Children: []ipcguard.Field{{Kind: ipcguard.Float, Width: 8}}},
	},
	PartNeighbours: {{Path: `"x"`, Kind: ipcguard.FixedSizeList, Children: []ipcguard.Field{{Kind: ipcguard.Float, Width: 4}}}},
	PartScores:     {{Path: `"score"`, Kind: ipcguard.Float, Width: 8}},
	PartRecent:     {{Path: `"number"`, Kind: ipcguard.Float, Width: 8}},
	PartFactors:    {{Path: `"factor"`, Kind: ipcguard.Float, Width: 4}},
}

// laidOut reports whether the columns are those of a part, with lists of d numbers.
func (s *flatStream) laidOut(part string, d int) bool {
	return slices.EqualFunc(s.fields, flatColumns[part], func(a, b ipcguard.Field) bool {
		if a.Path != b.Path || a.Dict != nil || a.Kind != b.Kind || a.Width != b.Width || a.Signed != b.Signed || len(a.Children) != len(b.Children) {
			return false
		}
		if a.Kind != ipcguard.FixedSizeList {
			return true
		}
		child, want := &a.Children[0], &b.Children[0]
		return a.Size == d && child.Dict == nil && child.Kind == want.Kind && child.Width == want.Width
	})
}

// addFlat is add for a flatStream of a part. It returns false, and has added nothing, where the Arrow library must look.
func (d *decoder) addFlat(part string, data []byte, limits ipcguard.Limits) (rest []byte, ok bool) {
	s, ok := d.readFlat(data, limits)
	if !ok {
		return nil, false
	}
	was := *d
	if !d.agreeFlat(part, s.metadata) || !s.laidOut(part, d.table.d) || !d.addBuffers(part, &s) {
		*d = was
		return nil, false
	}
	return s.rest, true
}

// agreeFlat is agree for what a guard has seen, which for all parts but the first is most often what the first one said.
func (d *decoder) agreeFlat(part string, raw []ipcguard.Pair) bool {
	same := d.snapshot != nil && len(raw) == len(d.metadata.keys)
	for i, p := range raw {
		if string(p.Key) == partKey {
			if string(p.Value) != part {
				return false
			}
			continue
		}
		same = same && string(p.Key) == d.metadata.keys[i] && string(p.Value) == d.metadata.values[i]
	}
	if d.snapshot == nil {
		return d.agree(d.aliased(raw)) == nil
	}
	return same || d.agree(pairsOf(raw)) == nil
}

// aliased is what a guard has seen, in the memory of the decoder. The text is that of the bytes: it holds until they are gone.
func (d *decoder) aliased(raw []ipcguard.Pair) pairs {
	text := func(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
	m := pairs{d.text.keys[:0], d.text.values[:0]}
	for _, p := range raw {
		m.keys, m.values = append(m.keys, text(p.Key)), append(m.values, text(p.Value))
	}
	d.text = m
	return m
}

// addBuffers adds the numbers of a part. It returns false, and may have added some, where bitmaps or texts are unusual.
func (d *decoder) addBuffers(part string, s *flatStream) bool {
	n, b := int(s.batch.Rows), s.batch.Buffers
	at := func(i int) []byte { return s.batch.Body[b[i].Offset : b[i].Offset+b[i].Length] }
	none := func(bitmaps ...int) bool {
		return !slices.ContainsFunc(bitmaps, func(i int) bool { return b[i].Length > 0 })
	}
	switch part { // the buffers of a text: bitmap, offsets, bytes; of a number: bitmap, values; of a list: its bitmap, and those of its numbers
	case PartModel:
		d.table.index = appendNumbers(d.table.index, at(4), n)
		d.table.eigenvalue = appendNumbers(d.table.eigenvalue, at(6), n)
		d.table.vector = appendNumbers(d.table.vector, at(9), n*d.table.d)
		return none(0, 3, 5, 7, 8) && d.addKinds(at(1), at(2), n)
	case PartNeighbours:
		d.neighbours = appendNumbers(d.neighbours, at(2), n*d.table.d)
		return none(0, 1)
	case PartScores:
		d.scores = appendNumbers(d.scores, at(1), n)
		return none(0)
	case PartRecent:
		if n > d.mostNumbers() {
			return false // addRecent says so
		}
		d.numbers = appendNumbers(d.numbers, at(1), n)
		return none(0)
	case PartFactors:
		if n > d.mostNumbers() {
			return false
		}
		d.factors = appendNumbers(d.factors, at(1), n)
		return none(0)
	}
	return false
}

func (d *decoder) addKinds(offsets, text []byte, n int) bool {
	if n == 0 {
		return true
	}
	if len(d.table.kind)+n > d.mostDirections() {
		return false // addDirections says so
	}
	from := int(int32(binary.LittleEndian.Uint32(offsets)))
	for i := range n {
		to := int(int32(binary.LittleEndian.Uint32(offsets[4*(i+1):])))
		if from < 0 || to < from || to > len(text) {
			return false
		}
		kind, ok := knownKind(text[from:to])
		if !ok {
			return false
		}
		d.table.kind = append(d.table.kind, kind)
		from = to
	}
	return true
}

// knownKind is a kind of rows as a constant.
func knownKind(text []byte) (string, bool) {
	for _, kind := range [...]string{KindMean, KindWhiten, KindParzen, KindGaussian, KindCL, KindCG} {
		if string(text) == kind {
			return kind, true
		}
	}
	return "", false
}

// appendNumbers appends the first n little-endian numbers of b, which holds as many.
func appendNumbers[T int32 | float32 | float64](dst []T, b []byte, n int) []T {
	var one T
	if n == 0 {
		return dst
	}
	first := len(dst)
	dst = slices.Grow(dst, n)[:first+n]
	to := unsafe.Slice((*byte)(unsafe.Pointer(&dst[first])), n*int(unsafe.Sizeof(one)))
	copy(to, b)
	return dst
}

// pairs is the metadata of a schema.
type pairs struct{ keys, values []string }

// pairsOf copies what a guard has seen.
func pairsOf(raw []ipcguard.Pair) pairs {
	size := 0
	for _, p := range raw {
		size += len(p.Key) + len(p.Value)
	}
	all := make([]byte, 0, size)
	for _, p := range raw {
		all = append(append(all, p.Key...), p.Value...)
	}
	text, both := string(all), make([]string, 2*len(raw))
	m := pairs{both[:len(raw)], both[len(raw):]}
	for i, p := range raw {
		m.keys[i], text = text[:len(p.Key)], text[len(p.Key):]
		m.values[i], text = text[:len(p.Value)], text[len(p.Value):]
	}
	return m
}

func pairsIn(m arrow.Metadata) pairs { return pairs{m.Keys(), m.Values()} }

// find returns the place of a key, which is expected at one; −1: there is none.
func (m pairs) find(key string, expected int) int {
	if expected < len(m.keys) && m.keys[expected] == key {
		return expected
	}
	return slices.Index(m.keys, key)
}

func (m pairs) get(key string) (string, bool) {
	if i := slices.Index(m.keys, key); i >= 0 {
		return m.values[i], true
	}
	return "", false
}

// eachField calls do with the value of each field, in their order, until it returns an error.
func (m pairs) eachField(do func(f *field, text string, ok bool) error) error {
	next := 0
	for i := range fields {
		text, at := "", m.find(fields[i].key, next)
		if at >= 0 {
			text, next = m.values[at], at+1
		}
		if err := do(&fields[i], text, at >= 0); err != nil {
			return err
		}
	}
	return nil
}
