package snapshot

import (
	"encoding/json"
	"io"
)

// jsonSnapshot is the JSON export. Numbers are the shortest decimals that read back exactly.
type jsonSnapshot struct {
	Metadata    map[string]string `json:"metadata"`
	Mean        []float64         `json:"mean"`
	Whiten      [][]float64       `json:"whiten"`
	Parzen      [][]float64       `json:"parzen"`
	Gaussian    [][]float64       `json:"gaussian"`
	CL          [][]float64       `json:"c_l"`
	CG          [][]float64       `json:"c_g"`
	Eigenvalues []float64         `json:"eigenvalues"`
	Scores      []float64         `json:"scores"`
	Neighbours  [][]float32       `json:"neighbours"`
}

func writeJSON(w io.Writer, a *arrays) error {
	rows := func(kind string) [][]float64 {
		m := a.float64s[kind]
		return split(m.values, m.columns)
	}
	return json.NewEncoder(w).Encode(jsonSnapshot{
		Metadata: a.metadata, Mean: a.float64s[KindMean].values, Whiten: rows(KindWhiten),
		Parzen: rows(KindParzen), Gaussian: rows(KindGaussian), CL: rows(KindCL), CG: rows(KindCG),
		Eigenvalues: append([]float64{}, a.float64s[nameEigenvalues].values...),
		Scores:      append([]float64{}, a.float64s[nameScores].values...), Neighbours: split(a.x, a.d),
	})
}

func split[T any](values []T, columns int) [][]T {
	rows := make([][]T, 0, len(values)/max(1, columns))
	for ; len(values) > 0; values = values[columns:] {
		rows = append(rows, values[:columns])
	}
	return rows
}
