package lca_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// vectors is testdata/vectors.json, made by testdata/vectors.py from the paper's formulas.
type vectors struct {
	Sets map[string]struct {
		X, Fresh [][]float64
	}
	Cases []struct {
		Name, Data, Kind, Metric string
		Rank, Iters              int
		Nu                       float64
		NuGaussian               float64 `json:"nu_gaussian"`
		Relative, Covariance     bool
		DOF                      int
		Want                     struct {
			Mean, Ratio, Trace []float64
			CG                 [][]float64 `json:"c_g"`
			CL                 [][]float64 `json:"c_l"`
			PG                 [][]float64 `json:"p_g"`
			PL                 [][]float64 `json:"p_l"`
			NLL                float64     `json:"nll"`
			TestNLL            float64     `json:"test_nll"`
		}
	}
}

// arithmetics are the E-steps there are, each with what its rounding may cost. Twelve EM steps multiply it by
// the inverse of the gap between eigenvalues, so 1e-8 where one step in float64 has 1e-13: numpy with
// another summation order differs as much from itself.
var arithmetics = []struct {
	name        string
	precision   lca.Precision
	matrix, nll float64
	rise        float64 // of the objective, from one EM step to the next
}{
	{"plain", 0, 1e-8, 1e-8, 1e-9},
	{"float64", lca.Float64, 1e-8, 1e-8, 1e-9},
	{"float32", lca.Float32, 1e-4, 1e-5, 1e-5},
}

func TestVectors(t *testing.T) {
	raw, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	for _, c := range v.Cases {
		for _, a := range arithmetics {
			t.Run(c.Name+"/"+a.name, func(t *testing.T) {
				kind, _ := lca.ParseKind(c.Kind)
				metric, _ := lca.ParseMetric(c.Metric)
				f := paperConfig(kind, c.Nu)
				f.NuGaussian, f.Metric, f.Rank, f.MaxIter, f.Tol, f.Precision = c.NuGaussian, metric, c.Rank, c.Iters, -1, a.precision
				if c.Relative {
					f.NuUnit = lca.UnitRelative
				}
				if c.Covariance {
					f.NuUnit = lca.UnitCovariance
				}
				if c.DOF > 0 {
					f.Kernel, f.DOF = lca.KernelStudent, c.DOF
				}
				var trace []float64
				f.Trace = func(i lca.Iteration) { trace = append(trace, i.Penalised) }
				x, fresh := dense(v.Sets[c.Data].X), dense(v.Sets[c.Data].Fresh)
				m := fit(t, x, f)
				w := c.Want
				near(t, "mean", mat.NewVecDense(m.Dim, m.Mean), mat.NewVecDense(m.Dim, w.Mean), 1e-13)
				near(t, "C_G", m.CG, dense(w.CG), 1e-13)
				near(t, "P_G", precision(m.BG, m.Dim), dense(w.PG), a.matrix)
				near(t, "P_L", precision(m.BL, m.Dim), dense(w.PL), a.matrix)
				near(t, "e", mat.NewVecDense(m.Dim, m.Ratio), mat.NewVecDense(m.Dim, w.Ratio), a.matrix)
				if c.Kind == "lca" || c.Metric == "full" {
					near(t, "C_L", m.CL, dense(w.CL), a.matrix)
				}
				near(t, "trace", mat.NewVecDense(len(trace), trace), mat.NewVecDense(len(w.Trace), w.Trace), a.nll)
				nearly(t, "Info.NLL", m.Info.NLL, w.NLL, a.nll)
				nearly(t, "LeaveOneOutNLL", m.LeaveOneOutNLL(x), w.NLL, a.nll)
				nearly(t, "TestNLL", m.TestNLL(fresh, x), w.TestNLL, a.nll*math.Abs(w.TestNLL))
			})
		}
	}
}

func dense(rows [][]float64) *mat.Dense {
	m := mat.NewDense(len(rows), len(rows[0]), nil)
	for i, r := range rows {
		m.SetRow(i, r)
	}
	return m
}
