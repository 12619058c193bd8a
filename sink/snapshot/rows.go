package snapshot

import (
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

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
}

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

// fill copies the rows into a model whose Dim is set. Unknown kinds are ignored.
func (t *table) fill(m *lca.Model) error {
	byKind, err := t.byKind()
	if err != nil {
		return err
	}
	for _, kind := range []string{KindMean, KindWhiten} {
		if len(byKind[kind]) == 0 {
			return fmt.Errorf("snapshot: the model part has no row of kind %q", kind)
		}
	}
	if n := len(byKind[KindMean]); n != 1 {
		return fmt.Errorf("snapshot: %d rows of kind mean, want 1", n)
	}
	m.Mean = append([]float64(nil), t.row(byKind[KindMean][0])...)
	m.W = t.dense(byKind[KindWhiten])
	m.BL, m.BG = t.columns(byKind[KindParzen]), t.columns(byKind[KindGaussian])
	m.Ratio = nil
	for _, kind := range []string{KindParzen, KindGaussian} {
		for _, r := range byKind[kind] {
			m.Ratio = append(m.Ratio, t.eigenvalue[r])
		}
	}
	if m.CL, err = t.symmetric(KindCL, byKind[KindCL]); err != nil {
		return err
	}
	m.CG, err = t.symmetric(KindCG, byKind[KindCG])
	return err
}

// byKind returns the rows of each kind in the order of their index, which must be 0 … n−1.
func (t *table) byKind() (map[string][]int, error) {
	count := make(map[string]int)
	for _, kind := range t.kind {
		count[kind]++
	}
	rows := make(map[string][]int, len(count))
	for kind, n := range count {
		rows[kind] = make([]int, n)
		for i := range rows[kind] {
			rows[kind][i] = -1
		}
	}
	for r, kind := range t.kind {
		i := int(t.index[r])
		if i < 0 || i >= count[kind] || rows[kind][i] >= 0 {
			return nil, fmt.Errorf("snapshot: index %d of kind %q comes twice, or is not below the %d rows of its kind", i, kind, count[kind])
		}
		rows[kind][i] = r
	}
	return rows, nil
}

func (t *table) row(r int) []float64 { return t.vector[r*t.d : (r+1)*t.d] }

func (t *table) dense(rows []int) *mat.Dense {
	m := mat.NewDense(len(rows), t.d, nil)
	for i, r := range rows {
		m.SetRow(i, t.row(r))
	}
	return m
}

func (t *table) columns(rows []int) *mat.Dense {
	if len(rows) == 0 {
		return new(mat.Dense)
	}
	m := mat.NewDense(t.d, len(rows), nil)
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
	m := mat.NewSymDense(t.d, nil)
	for i, r := range rows {
		for j := i; j < t.d; j++ {
			m.SetSym(i, j, t.row(r)[j])
		}
	}
	return m, nil
}
