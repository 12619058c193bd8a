package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// The parts of a snapshot, as in the keys and headers.
const (
	PartModel      = "model"
	PartNeighbours = "neighbours"
	PartScores     = "scores"
	PartRecent     = "recent"  // left out with factors where the last rows are not scored
	PartFactors    = "factors" // of recent
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
	return s.numbersPart(PartScores, "score", arrow.PrimitiveTypes.Float64, arrow.Float64Traits.CastToBytes(scores))
}

// numbersPart is a part of one column of numbers.
func (s *Snapshot) numbersPart(name, column string, typ arrow.DataType, numbers []byte) part {
	size := typ.(arrow.FixedWidthDataType).Bytes()
	return part{
		name:     name,
		schema:   arrow.NewSchema([]arrow.Field{{Name: column, Type: typ}}, s.metadata(name)),
		rows:     len(numbers) / size,
		rowBytes: size,
		columns: func(from, to int) []arrow.Array {
			return []arrow.Array{array.MakeFromData(flat(typ, to-from, numbers[from*size:to*size]))}
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

// The kinds of rows of the model part; see the package documentation. The exported formats use them as names of
// arrays.
const (
	KindMean     = "mean"
	KindWhiten   = "whiten"
	KindParzen   = "parzen"
	KindGaussian = "gaussian"
	KindCL       = "c_l"
	KindCG       = "c_g"
)

// table is the model part in memory.
type table struct {
	d          int
	kind       []string
	index      []int32
	eigenvalue []float64
	vector     []float64 // rows×d

	numbers []float64 // memory of what fill makes
	squares []float64 // of C_L and C_G, which not everyone keeps
	places  []int     // 0, 1, 2 …
}

// rowKinds are the kinds in the order in which they are written.
var rowKinds = [...]string{KindMean, KindWhiten, KindParzen, KindGaussian, KindCL, KindCG}

const (
	atMean = iota
	atWhiten
	atParzen
	atGaussian
	atCL
	atCG
)

// kindRows are the rows of each kind, by their index.
type kindRows [len(rowKinds)][]int

func (t *table) add(kind string, index int, eigenvalue float64, vector []float64) {
	t.kind = append(t.kind, kind)
	t.index = append(t.index, int32(index))
	t.eigenvalue = append(t.eigenvalue, eigenvalue)
	t.vector = append(t.vector, vector...)
}

// tableOf lists a model's directions. The eigenvalue of a kind that has none is 0 and not NaN: NaN has many bit
// patterns, and compares equal to nothing in SQL and in tests.
func tableOf(m *lca.Model) *table {
	const matrices = 4 // W, (B_L, B_G), C_L, C_G
	t := &table{d: m.Dim, vector: make([]float64, 0, (1+matrices*m.Dim)*m.Dim)}
	t.add(KindMean, 0, 0, m.Mean)
	for i := range rowsOf(m.W) {
		t.add(KindWhiten, i, 0, m.W.RawRowView(i))
	}
	parzen := m.Parzen()
	t.addColumns(KindParzen, m.BL, m.Ratio[:parzen])
	t.addColumns(KindGaussian, m.BG, m.Ratio[parzen:])
	t.addSymmetric(KindCL, m.CL)
	t.addSymmetric(KindCG, m.CG)
	return t
}

func (t *table) addColumns(kind string, b *mat.Dense, eigenvalues []float64) {
	column := make([]float64, t.d)
	for j, e := range eigenvalues {
		mat.Col(column, j, b)
		t.add(kind, j, e, column)
	}
}

func (t *table) addSymmetric(kind string, c *mat.SymDense) {
	if c == nil {
		return
	}
	row := make([]float64, t.d)
	for i := range t.d {
		for j := range row {
			row[j] = c.At(i, j)
		}
		t.add(kind, i, 0, row)
	}
}

// fill copies the rows into a model whose Dim is set. Unknown kinds are ignored. What the model gets is memory of t. One that is young has no W.
func (t *table) fill(m *lca.Model, young bool) error {
	rows, err := t.byIndex()
	if err != nil {
		return err
	}
	for _, k := range []int{atMean, atWhiten} {
		if len(rows[k]) == 0 && (k == atMean || !young) {
			return fmt.Errorf("snapshot: the model part has no row of kind %q", rowKinds[k])
		}
	}
	if n := len(rows[atMean]); n != 1 {
		return fmt.Errorf("snapshot: %d rows of kind mean, want 1", n)
	}
	squares, ratios := (len(rows[atCL])+len(rows[atCG]))*t.d, len(rows[atParzen])+len(rows[atGaussian])
	t.numbers, t.squares = slices.Grow(t.numbers[:0], len(t.vector)-squares+ratios), slices.Grow(t.squares[:0], squares)
	m.Mean = t.take(t.d)
	copy(m.Mean, t.row(rows[atMean][0]))
	if m.W = nil; len(rows[atWhiten]) > 0 {
		m.W = t.dense(rows[atWhiten])
	}
	m.BL, m.BG = t.columns(rows[atParzen]), t.columns(rows[atGaussian])
	m.Ratio = nil
	if ratios > 0 {
		m.Ratio = t.take(ratios)[:0]
	}
	for _, r := range rows[atParzen] {
		m.Ratio = append(m.Ratio, t.eigenvalue[r])
	}
	for _, r := range rows[atGaussian] {
		m.Ratio = append(m.Ratio, t.eigenvalue[r])
	}
	if m.CL, err = t.symmetric(KindCL, rows[atCL]); err != nil {
		return err
	}
	m.CG, err = t.symmetric(KindCG, rows[atCG])
	return err
}

// take returns memory for n numbers, which are not cleared.
func (t *table) take(n int) []float64 { return taken(&t.numbers, n) }

func taken(from *[]float64, n int) []float64 {
	first := len(*from)
	*from = slices.Grow(*from, n)[:first+n]
	return (*from)[first : first+n : first+n]
}

// byIndex returns the rows of each kind in the order of their index, which must be 0 … n−1. Unknown kinds are left out.
func (t *table) byIndex() (rows kindRows, err error) {
	k := 0
	kindOf := func(kind string) int { // most often that of the row before
		if k < 0 || rowKinds[k] != kind {
			k = slices.Index(rowKinds[:], kind)
		}
		return k
	}
	var count [len(rowKinds)]int
	for _, kind := range t.kind {
		if k := kindOf(kind); k >= 0 {
			count[k]++
		}
	}
	t.places = slices.Grow(t.places[:0], len(t.kind))[:len(t.kind)]
	for i := range t.places {
		t.places[i] = -1
	}
	free := t.places
	for k, n := range count {
		rows[k], free = free[:n], free[n:]
	}
	for r, kind := range t.kind {
		k, i := kindOf(kind), int(t.index[r])
		if k < 0 {
			continue
		}
		if i < 0 || i >= count[k] || rows[k][i] >= 0 {
			return rows, fmt.Errorf("snapshot: index %d of kind %q comes twice, or is not below the %d rows of its kind", i, kind, count[k])
		}
		rows[k][i] = r
	}
	return rows, nil
}

func (t *table) row(r int) []float64 { return t.vector[r*t.d : (r+1)*t.d] }

func (t *table) dense(rows []int) *mat.Dense {
	m := mat.NewDense(len(rows), t.d, t.take(len(rows)*t.d))
	for i, r := range rows {
		m.SetRow(i, t.row(r))
	}
	return m
}

func (t *table) columns(rows []int) *mat.Dense {
	if len(rows) == 0 {
		return new(mat.Dense)
	}
	m := mat.NewDense(t.d, len(rows), t.take(len(rows)*t.d))
	for j, r := range rows {
		m.SetCol(j, t.row(r))
	}
	return m
}

// symmetric builds a symmetric matrix from the upper triangle of rows.
func (t *table) symmetric(kind string, rows []int) (*mat.SymDense, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	if len(rows) != t.d {
		return nil, fmt.Errorf("snapshot: %d rows of kind %q, want %d or none", len(rows), kind, t.d)
	}
	m := mat.NewSymDense(t.d, taken(&t.squares, t.d*t.d))
	for i, r := range rows {
		to := m.RawSymmetric().Data[i*t.d:][:t.d]
		clear(to[:i])
		copy(to[i:], t.row(r)[i:])
	}
	return m, nil
}
