package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

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
