package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/source/format/ipcguard"
)

// WriteFile writes the parts, each as one Arrow stream, one after the other. In Python:
//
//	with open(path, "rb") as f:
//	    model = pa.ipc.open_stream(f).read_all()
//	    neighbours = pa.ipc.open_stream(f).read_all()
//	    scores = pa.ipc.open_stream(f).read_all()
//	    recent = pa.ipc.open_stream(f).read_all()   # with lca.recent in the metadata
//	    factors = pa.ipc.open_stream(f).read_all()
func WriteFile(w io.Writer, s *Snapshot) error {
	if err := s.Validate(); err != nil {
		return err
	}
	parts := []part{modelPart(s), neighboursPart(s), scoresPart(s)}
	if s.Model.Recent != nil {
		parts = append(parts, recentPart(s), factorsPart(s))
	}
	for _, p := range parts {
		b, err := onlyChunk(p)
		if err != nil {
			return err
		}
		if _, err := w.Write(b); err != nil {
			return fmt.Errorf("snapshot: write part %s: %w", p.name, err)
		}
	}
	return nil
}

// A file is measured by what it says that it holds, before that is made: numbers of a model hardly compress, so that what would take many times the
// bytes of the file is none.
const (
	mostFile      = 1 << 30  // bytes of a file: a learner with a larger model could not write its checkpoint
	leastInflated = 64 << 20 // bytes that any file may take once it is decompressed
	inflates      = 16       // how many times its bytes a larger one may take
)

// inflated is how many bytes a file of a size may take once it is decompressed.
func inflated(size int) int64 { return max(leastInflated, inflates*int64(min(size, mostFile))) }

func fileLimits(size int) ipcguard.Limits {
	l := ipcguard.BatchLimits()
	l.Decoded = min(l.Decoded, inflated(size))
	return l
}

func readAll(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, mostFile+1))
	if err == nil && len(data) > mostFile {
		err = fmt.Errorf("more than %d bytes, which no model has", mostFile)
	}
	if err != nil {
		return nil, fmt.Errorf("snapshot: read: %w", err)
	}
	return data, nil
}

// ReadFile reads what WriteFile wrote. Earlier versions wrote fewer parts.
func ReadFile(r io.Reader) (*Snapshot, error) {
	data, err := readAll(r)
	if err != nil {
		return nil, err
	}
	if f := ExportedAs(data); f != "" {
		return nil, fmt.Errorf("snapshot: it is an export for other programs, %s: a model is read from an Arrow stream, which `snapshot export` writes to .arrows", f)
	}
	if !bytes.HasPrefix(data, []byte("\xff\xff\xff\xff")) && !bytes.HasPrefix(data, []byte("ARROW1")) {
		return nil, fmt.Errorf("snapshot: %d bytes are no Arrow stream, as a model is", len(data))
	}
	limits := fileLimits(len(data))
	var d decoder
	for _, name := range slices.Concat([]string{PartModel, PartNeighbours}, singleParts) {
		if name == PartScores && len(data) == 0 || (name == PartRecent || name == PartFactors) && d.snapshot.Model.Recent == nil {
			break
		}
		if data, err = d.add(name, data, limits); err != nil {
			return nil, err
		}
	}
	if n := len(bytes.TrimLeft(data, "\x00")); n > 0 {
		return nil, fmt.Errorf("snapshot: %d bytes after the last part", n)
	}
	return d.finish()
}

// localFormat is the format of WriteLocal.
const localFormat = 1

// localBatch is about the number of elements that a batch has in each of its matrix columns.
const localBatch = 1 << 20

// Local is a model with a covariance for each point, and what its file says of it.
type Local struct {
	Model    *lca.LocalModel
	Rows     *mat.Dense // the points x_j that the model was fitted to
	Features []string
	Seen     uint64 // rows that Rows was drawn from
	Producer string
}

// WriteLocal writes the points and their covariances as one Arrow IPC stream, and returns the SHA-256 of its bytes in
// hexadecimal. It is no snapshot, because there is no one metric that rows could be whitened with. No column is nullable:
//
//	x           FixedSizeList<float64, d>
//	covariance  FixedSizeList<float64, d·d>   Σ_j, row by row
//	factor      FixedSizeList<float64, d·d>   F_j with Σ_j⁻¹ = F_jᵀF_j, row by row: the inverse of Σ_j's Cholesky factor, lower triangular
//	log_det     float64                       log det Σ_j
//
// All is in the units of the input; a constant column has a zero row and column. The schema's metadata are lca.local_format (1), lca.kind
// (lca_local), lca.d, lca.features, lca.kernel, lca.dof, lca.nu, lca.nu_unit, lca.rows_seen, lca.nll, lca.constant_columns and lca.producer,
// as in a snapshot, and lca.smoothing: κ, the number of rows that the shared covariance counts for in each point's own.
func WriteLocal(w io.Writer, l *Local) (fingerprint string, err error) {
	n, d := l.Rows.Dims()
	point := arrow.FixedSizeListOfNonNullable(int32(d), arrow.PrimitiveTypes.Float64)
	matrix := arrow.FixedSizeListOfNonNullable(int32(d*d), arrow.PrimitiveTypes.Float64)
	metadata := l.metadata(d)
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "x", Type: point}, {Name: "covariance", Type: matrix}, {Name: "factor", Type: matrix},
		{Name: "log_det", Type: arrow.PrimitiveTypes.Float64},
	}, &metadata)
	sum := sha256.New()
	out := ipc.NewWriter(io.MultiWriter(w, sum), ipc.WithSchema(schema))
	step := max(1, localBatch/(d*d))
	for from := 0; from < n; from += step {
		rec := l.batch(schema, from, min(from+step, n))
		err := out.Write(rec)
		rec.Release()
		if err != nil {
			return "", fmt.Errorf("snapshot: write points %d on of a local model: %w", from, err)
		}
	}
	if err := out.Close(); err != nil {
		return "", fmt.Errorf("snapshot: write a local model: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func (l *Local) metadata(d int) arrow.Metadata {
	shared := l.Model.Shared
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	pairs := [][2]string{
		{"lca.local_format", strconv.Itoa(localFormat)},
		{"lca.kind", "lca_local"},
		{"lca.d", strconv.Itoa(d)},
		{"lca.features", mustJSON(append([]string{}, l.Features...))},
		{"lca.kernel", shared.Kernel.String()},
		{"lca.dof", strconv.Itoa(shared.DOF)},
		{"lca.nu", number(shared.Info.Nu)},
		{"lca.nu_unit", shared.Info.NuUnit.String()},
		{"lca.smoothing", number(l.Model.Smoothing)},
		{"lca.rows_seen", strconv.FormatUint(l.Seen, 10)},
		{"lca.nll", number(l.Model.NLL)},
		{"lca.constant_columns", mustJSON(append([]int{}, shared.Info.Constant...))},
		{"lca.producer", l.Producer},
	}
	var keys, values []string
	for _, p := range pairs {
		keys, values = append(keys, p[0]), append(values, p[1])
	}
	return arrow.NewMetadata(keys, values)
}

func (l *Local) batch(schema *arrow.Schema, from, to int) arrow.Record {
	n := to - from
	var x, covariances, factors, logs []float64
	for j := from; j < to; j++ {
		x = append(x, l.Rows.RawRowView(j)...)
		covariances = append(covariances, mat.DenseCopyOf(l.Model.Covariance(j)).RawMatrix().Data...)
		factors = append(factors, l.Model.Factor(j).RawMatrix().Data...)
		logs = append(logs, l.Model.LogDet(j))
	}
	matrix := schema.Field(1).Type
	return array.NewRecord(schema, []arrow.Array{
		lists(schema.Field(0).Type, n, doubles(x)), lists(matrix, n, doubles(covariances)), lists(matrix, n, doubles(factors)),
		array.NewFloat64Data(doubles(logs)),
	}, int64(n))
}
