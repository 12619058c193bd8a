package snapshot

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"unsafe"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/source/format/ipcguard"
)

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
	}
	return false
}

// addKinds adds n texts.
func (d *decoder) addKinds(offsets, text []byte, n int) bool {
	if n == 0 {
		return true
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

// get returns the value of a key.
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
