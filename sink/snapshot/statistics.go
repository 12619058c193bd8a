package snapshot

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/lca"
)

// statisticsFormat is the format of WriteStatistics.
const statisticsFormat = 1

// The keys of the metadata of statistics that a snapshot does not have.
const (
	statisticsKey  = "lca.statistics_format"
	fingerprintKey = "lca.fingerprint"
	partsKey       = "lca.parts" // their number, so that a file that breaks off is not taken for one of fewer parts
)

// Statistics are sums of the E-step under one model, of any number of parts.
type Statistics struct {
	Fingerprint string   // of the model: the sums fit no other
	Features    []string // of the model
	Coordinates int      // a: the numbers of columns that are not constant in the model
	Producer    string   // program and version
	Parts       []*lca.Statistics
}

// StatisticsOf returns no sums yet, for those under a model.
func StatisticsOf(s *Snapshot, producer string) (*Statistics, error) {
	fingerprint, err := Fingerprint(s)
	return &Statistics{Fingerprint: fingerprint, Features: s.Features, Coordinates: s.Model.Parzen() + s.Model.Gaussian(), Producer: producer}, err
}

// Of returns the reason why the sums are not those under a model.
func (s *Statistics) Of(o *Statistics) error {
	if s.Fingerprint != o.Fingerprint {
		return fmt.Errorf("snapshot: these are statistics under the model with the fingerprint %q, and not under %q", s.Fingerprint, o.Fingerprint)
	}
	return nil
}

// WriteStatistics writes sums as one Arrow IPC stream, one batch of one row for each part. Nothing is nullable. With a columns that are not constant
// in the model, t = a(a+1)/2 and d features:
//
//	part, rows, invalid, used, copies  uint64
//	nll, effective                     float64
//	mean                               FixedSizeList<float64, a>
//	scatter, local                     FixedSizeList<float64, t>   upper triangles, row by row
//	candidates                         List<Struct<id: uint64, row: uint64, x: FixedSizeList<float64, d>>>
//
// What they hold is said by [lca.Statistics]. The schema's metadata are lca.statistics_format (1), lca.fingerprint, lca.parts, lca.d, lca.features and lca.producer.
func WriteStatistics(w io.Writer, s *Statistics) error {
	schema := s.schema()
	out := ipc.NewWriter(w, ipc.WithSchema(schema))
	for _, p := range s.Parts {
		if len(p.Mean) != s.Coordinates {
			return fmt.Errorf("snapshot: part %d has sums of %d coordinates, want %d", p.Part, len(p.Mean), s.Coordinates)
		}
		rec := partRecord(schema, p)
		err := out.Write(rec)
		rec.Release()
		if err != nil {
			return fmt.Errorf("snapshot: write the statistics of part %d: %w", p.Part, err)
		}
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("snapshot: write statistics: %w", err)
	}
	return nil
}

func (s *Statistics) schema() *arrow.Schema {
	numbers := func(n int) arrow.DataType {
		return arrow.FixedSizeListOfNonNullable(int32(n), arrow.PrimitiveTypes.Float64)
	}
	candidate := arrow.StructOf(
		arrow.Field{Name: "id", Type: arrow.PrimitiveTypes.Uint64}, arrow.Field{Name: "row", Type: arrow.PrimitiveTypes.Uint64},
		arrow.Field{Name: "x", Type: numbers(len(s.Features))})
	triangle := numbers(s.Coordinates * (s.Coordinates + 1) / 2)
	var fields []arrow.Field
	for _, name := range []string{"part", "rows", "invalid", "used", "copies"} {
		fields = append(fields, arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Uint64})
	}
	fields = append(fields,
		arrow.Field{Name: "nll", Type: arrow.PrimitiveTypes.Float64}, arrow.Field{Name: "effective", Type: arrow.PrimitiveTypes.Float64},
		arrow.Field{Name: "mean", Type: numbers(s.Coordinates)}, arrow.Field{Name: "scatter", Type: triangle}, arrow.Field{Name: "local", Type: triangle},
		arrow.Field{Name: "candidates", Type: arrow.ListOfNonNullable(candidate)})
	metadata := arrow.NewMetadata(
		[]string{statisticsKey, fingerprintKey, partsKey, "lca.d", "lca.features", "lca.producer"},
		[]string{strconv.Itoa(statisticsFormat), s.Fingerprint, strconv.Itoa(len(s.Parts)), strconv.Itoa(len(s.Features)), mustJSON(append([]string{}, s.Features...)), s.Producer})
	return arrow.NewSchema(fields, &metadata)
}

func partRecord(schema *arrow.Schema, p *lca.Statistics) arrow.Record {
	var cols []arrow.Array
	for _, v := range []uint64{p.Part, p.Rows, p.Invalid, p.Used, p.Copies} {
		cols = append(cols, array.NewUint64Data(counts([]uint64{v})))
	}
	cols = append(cols, array.NewFloat64Data(doubles([]float64{p.NLL})), array.NewFloat64Data(doubles([]float64{p.Effective})))
	for _, v := range [][]float64{p.Mean, p.Scatter, p.Local} {
		cols = append(cols, lists(schema.Field(len(cols)).Type, 1, doubles(v)))
	}
	return array.NewRecord(schema, append(cols, candidateList(schema.Field(len(cols)).Type.(*arrow.ListType), p.Candidates)), 1)
}

func candidateList(list *arrow.ListType, all []lca.PoolCandidate) arrow.Array {
	var ids, rows []uint64
	var x []float64
	for _, c := range all {
		ids, rows, x = append(ids, c.ID), append(rows, c.Row), append(x, c.X...)
	}
	row := list.Elem().(*arrow.StructType)
	vectors := array.NewData(row.Field(2).Type, len(all), []*memory.Buffer{nil}, []arrow.ArrayData{doubles(x)}, 0, 0)
	structs := array.NewData(row, len(all), []*memory.Buffer{nil}, []arrow.ArrayData{counts(ids), counts(rows), vectors}, 0, 0)
	offsets := memory.NewBufferBytes(arrow.Int32Traits.CastToBytes([]int32{0, int32(len(all))}))
	return array.NewListData(array.NewData(list, 1, []*memory.Buffer{nil, offsets}, []arrow.ArrayData{structs}, 0, 0))
}

func doubles(values []float64) *array.Data {
	return flat(arrow.PrimitiveTypes.Float64, len(values), arrow.Float64Traits.CastToBytes(values))
}

func counts(values []uint64) *array.Data {
	return flat(arrow.PrimitiveTypes.Uint64, len(values), arrow.Uint64Traits.CastToBytes(values))
}

// ReadStatistics reads what WriteStatistics wrote, for sums under the same model as those of want.
func ReadStatistics(r io.Reader, want *Statistics) (*Statistics, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("snapshot: read statistics: %w", err)
	}
	schema, records, rest, err := readStream(data, fileLimits(len(data)))
	if err != nil {
		return nil, fmt.Errorf("snapshot: read statistics: %w", err)
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("snapshot: %d bytes after the end of the statistics", len(rest))
	}
	s := &Statistics{Features: want.Features, Coordinates: want.Coordinates}
	if err := s.parse(schema.Metadata()); err != nil {
		return nil, err
	}
	if err := s.Of(want); err != nil {
		return nil, err
	}
	for _, rec := range records {
		parts, err := s.partsOf(rec)
		if err != nil {
			return nil, err
		}
		s.Parts = append(s.Parts, parts...)
	}
	if text, _ := schema.Metadata().GetValue(partsKey); text != strconv.Itoa(len(s.Parts)) {
		return nil, fmt.Errorf("snapshot: the statistics have %d parts, and should have %q: the file breaks off", len(s.Parts), text)
	}
	return s, nil
}

func (s *Statistics) parse(m arrow.Metadata) error {
	text, ok := m.GetValue(statisticsKey)
	if !ok {
		return fmt.Errorf("snapshot: no %s in the schema's metadata: these are no statistics", statisticsKey)
	}
	switch f, err := strconv.Atoi(text); {
	case err != nil || f < 1:
		return fmt.Errorf("snapshot: the format of the statistics is %q, want a number", text)
	case f > statisticsFormat:
		return fmt.Errorf("snapshot: %w: statistics of format %d, and this program reads formats up to %d, use a newer one", ErrNewer, f, statisticsFormat)
	}
	if s.Fingerprint, ok = m.GetValue(fingerprintKey); !ok {
		return errors.New("snapshot: the statistics do not say of which model they are")
	}
	s.Producer, _ = m.GetValue("lca.producer")
	return nil
}

// partsOf reads the rows of a batch.
func (s *Statistics) partsOf(rec arrow.Record) ([]*lca.Statistics, error) {
	n := int(rec.NumRows())
	parts := make([]*lca.Statistics, n)
	for i := range parts {
		parts[i] = new(lca.Statistics)
	}
	var errs []error
	number := func(name string, at func(*lca.Statistics) *uint64) {
		c, err := column[*array.Uint64](rec, name)
		errs = append(errs, err)
		for i := 0; err == nil && i < n; i++ {
			*at(parts[i]) = c.Value(i)
		}
	}
	sum := func(name string, at func(*lca.Statistics) *float64) {
		c, err := column[*array.Float64](rec, name)
		errs = append(errs, err)
		for i := 0; err == nil && i < n; i++ {
			*at(parts[i]) = c.Value(i)
		}
	}
	vector := func(name string, size int, at func(*lca.Statistics) *[]float64) {
		c, err := vectors[*array.Float64](rec, name, size)
		errs = append(errs, err)
		for i := 0; err == nil && i < n; i++ {
			*at(parts[i]) = append([]float64(nil), c.Float64Values()[i*size:(i+1)*size]...)
		}
	}
	number("part", func(p *lca.Statistics) *uint64 { return &p.Part })
	number("rows", func(p *lca.Statistics) *uint64 { return &p.Rows })
	number("invalid", func(p *lca.Statistics) *uint64 { return &p.Invalid })
	number("used", func(p *lca.Statistics) *uint64 { return &p.Used })
	number("copies", func(p *lca.Statistics) *uint64 { return &p.Copies })
	sum("nll", func(p *lca.Statistics) *float64 { return &p.NLL })
	sum("effective", func(p *lca.Statistics) *float64 { return &p.Effective })
	triangle := s.Coordinates * (s.Coordinates + 1) / 2
	vector("mean", s.Coordinates, func(p *lca.Statistics) *[]float64 { return &p.Mean })
	vector("scatter", triangle, func(p *lca.Statistics) *[]float64 { return &p.Scatter })
	vector("local", triangle, func(p *lca.Statistics) *[]float64 { return &p.Local })
	errs = append(errs, s.candidatesOf(rec, parts))
	return parts, errors.Join(errs...)
}

func (s *Statistics) candidatesOf(rec arrow.Record, parts []*lca.Statistics) error {
	lists, err := column[*array.List](rec, "candidates")
	if err != nil {
		return err
	}
	rows, ok := lists.ListValues().(*array.Struct)
	if !ok || rows.NullN() > 0 {
		return fmt.Errorf("snapshot: column \"candidates\" has type %q and %d nulls within", lists.DataType().String(), lists.ListValues().NullN())
	}
	inner := array.NewRecord(arrow.NewSchema(rows.DataType().(*arrow.StructType).Fields(), nil), fieldsOf(rows), int64(rows.Len()))
	defer inner.Release()
	id, err := column[*array.Uint64](inner, "id")
	if err != nil {
		return err
	}
	row, err := column[*array.Uint64](inner, "row")
	if err != nil {
		return err
	}
	d := len(s.Features)
	x, err := vectors[*array.Float64](inner, "x", d)
	if err != nil {
		return err
	}
	for i, p := range parts {
		from, to := lists.ValueOffsets(i)
		for k := int(from); k < int(to); k++ {
			p.Candidates = append(p.Candidates, lca.PoolCandidate{ID: id.Value(k), Row: row.Value(k), X: append([]float64(nil), x.Float64Values()[k*d:(k+1)*d]...)})
		}
	}
	return nil
}

func fieldsOf(s *array.Struct) []arrow.Array {
	fields := make([]arrow.Array, s.NumField())
	for i := range fields {
		fields[i] = s.Field(i)
	}
	return fields
}
