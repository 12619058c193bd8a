package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/lca"
)

// The parts of a snapshot, as in the keys and headers.
const (
	PartModel      = "model"
	PartNeighbours = "neighbours"
	PartScores     = "scores"
)

// MaxChunk bounds the bytes of a chunk, so that a message passes a broker's default limit of
// 1 MiB with room for its key, headers and batch. A single row that is larger makes a larger chunk.
const MaxChunk = 900_000

// ModelPart encodes the model part as one stream, whatever its size.
func ModelPart(s *Snapshot) ([]byte, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return onlyChunk(modelPart(s))
}

// Fingerprint returns the SHA-256 of ModelPart in hexadecimal. It is equal for equal models that the same program
// learnt from equal input.
func Fingerprint(s *Snapshot) (string, error) {
	b, err := ModelPart(s)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// part is a table that can be encoded in ranges of rows.
type part struct {
	name     string
	schema   *arrow.Schema
	rows     int
	rowBytes int // upper bound, without padding
	columns  func(from, to int) []arrow.Array
}

func modelPart(s *Snapshot) part { return partOf(s, tableOf(s.Model)) }

func partOf(s *Snapshot, t *table) part {
	d := t.d
	vector := arrow.FixedSizeListOfNonNullable(int32(d), arrow.PrimitiveTypes.Float64)
	return part{
		name: PartModel,
		schema: arrow.NewSchema([]arrow.Field{
			{Name: "kind", Type: arrow.BinaryTypes.String},
			{Name: "index", Type: arrow.PrimitiveTypes.Int32},
			{Name: "eigenvalue", Type: arrow.PrimitiveTypes.Float64},
			{Name: "vector", Type: vector},
		}, s.metadata(PartModel)),
		rows:     len(t.kind),
		rowBytes: 8*d + len(KindGaussian) + 4 + 4 + 8,
		columns: func(from, to int) []arrow.Array {
			n := to - from
			return []arrow.Array{
				texts(t.kind[from:to]),
				array.NewInt32Data(flat(arrow.PrimitiveTypes.Int32, n, arrow.Int32Traits.CastToBytes(t.index[from:to]))),
				array.NewFloat64Data(flat(arrow.PrimitiveTypes.Float64, n, arrow.Float64Traits.CastToBytes(t.eigenvalue[from:to]))),
				lists(vector, n, flat(arrow.PrimitiveTypes.Float64, n*d, arrow.Float64Traits.CastToBytes(t.vector[from*d:to*d]))),
			}
		},
	}
}

func neighboursPart(s *Snapshot) part {
	d, x := s.Model.Dim, s.Model.Neighbours
	vector := arrow.FixedSizeListOfNonNullable(int32(d), arrow.PrimitiveTypes.Float32)
	return part{
		name:     PartNeighbours,
		schema:   arrow.NewSchema([]arrow.Field{{Name: "x", Type: vector}}, s.metadata(PartNeighbours)),
		rows:     len(x) / d,
		rowBytes: 4 * d,
		columns: func(from, to int) []arrow.Array {
			return []arrow.Array{lists(vector, to-from, flat(arrow.PrimitiveTypes.Float32, (to-from)*d, arrow.Float32Traits.CastToBytes(x[from*d:to*d])))}
		},
	}
}

// scoresPart has no rows where the scores are not known.
func scoresPart(s *Snapshot) part {
	scores := sorted(s.Model)
	return part{
		name:     PartScores,
		schema:   arrow.NewSchema([]arrow.Field{{Name: "score", Type: arrow.PrimitiveTypes.Float64}}, s.metadata(PartScores)),
		rows:     len(scores),
		rowBytes: 8,
		columns: func(from, to int) []arrow.Array {
			return []arrow.Array{array.NewFloat64Data(flat(arrow.PrimitiveTypes.Float64, to-from, arrow.Float64Traits.CastToBytes(scores[from:to])))}
		},
	}
}

func sorted(m *lca.Model) []float64 {
	if m.Scores == nil {
		return nil
	}
	return m.Scores.Sorted
}

// flat returns an array of fixed width that shares the memory of values.
func flat(typ arrow.DataType, n int, values []byte) *array.Data {
	return array.NewData(typ, n, []*memory.Buffer{nil, memory.NewBufferBytes(values)}, nil, 0, 0)
}

func lists(typ arrow.DataType, n int, child *array.Data) arrow.Array {
	return array.NewFixedSizeListData(array.NewData(typ, n, []*memory.Buffer{nil}, []arrow.ArrayData{child}, 0, 0))
}

func texts(values []string) arrow.Array {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	b.AppendStringValues(values, nil)
	return b.NewArray()
}

// chunks encodes a part as streams of at most limit bytes each, except where a single row is larger. There is at
// least one.
func (p part) chunks(limit int) ([][]byte, error) {
	empty, err := p.stream(0, 0)
	if err != nil {
		return nil, err
	}
	// Each buffer and the batch's flatbuffer may need padding.
	const paddings = 256
	step := max(1, (limit-len(empty)-paddings)/p.rowBytes)
	var all [][]byte
	for from := 0; from < p.rows || from == 0; from += step {
		chunk, err := p.stream(from, min(from+step, p.rows))
		if err != nil {
			return nil, err
		}
		all = append(all, chunk)
	}
	return all, nil
}

func onlyChunk(p part) ([]byte, error) {
	all, err := p.chunks(math.MaxInt)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

func (p part) stream(from, to int) ([]byte, error) {
	var b bytes.Buffer
	w := ipc.NewWriter(&b, ipc.WithSchema(p.schema))
	rec := array.NewRecord(p.schema, p.columns(from, to), int64(to-from))
	defer rec.Release()
	if err := w.Write(rec); err != nil {
		return nil, fmt.Errorf("snapshot: encode rows %d to %d of part %s: %w", from, to, p.name, err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("snapshot: encode part %s: %w", p.name, err)
	}
	return b.Bytes(), nil
}
