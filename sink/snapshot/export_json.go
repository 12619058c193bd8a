package snapshot

import (
	"encoding/json"
	"fmt"
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

func readJSON(data []byte) (*arrays, error) {
	var j jsonSnapshot
	if err := json.Unmarshal(data, &j); err != nil {
		return nil, err
	}
	a := &arrays{metadata: j.Metadata}
	if err := a.set(KindMean, []int{len(j.Mean)}, j.Mean, nil); err != nil {
		return nil, err
	}
	if err := a.set(nameEigenvalues, []int{len(j.Eigenvalues)}, j.Eigenvalues, nil); err != nil {
		return nil, err
	}
	if err := a.set(nameScores, []int{len(j.Scores)}, j.Scores, nil); err != nil {
		return nil, err
	}
	for kind, rows := range map[string][][]float64{KindWhiten: j.Whiten, KindParzen: j.Parzen, KindGaussian: j.Gaussian, KindCL: j.CL, KindCG: j.CG} {
		values, columns, err := join(kind, rows)
		if err != nil {
			return nil, err
		}
		if err := a.set(kind, []int{len(rows), columns}, values, nil); err != nil {
			return nil, err
		}
	}
	x, columns, err := join(nameNeighbours, j.Neighbours)
	if err != nil {
		return nil, err
	}
	return a, a.set(nameNeighbours, []int{len(j.Neighbours), columns}, nil, x)
}

func split[T any](values []T, columns int) [][]T {
	rows := make([][]T, 0, len(values)/max(1, columns))
	for ; len(values) > 0; values = values[columns:] {
		rows = append(rows, values[:columns])
	}
	return rows
}

func join[T any](name string, rows [][]T) (values []T, columns int, err error) {
	for i, row := range rows {
		if len(row) != len(rows[0]) {
			return nil, 0, fmt.Errorf("row %d of %s has %d numbers, the first %d", i, name, len(row), len(rows[0]))
		}
		values, columns = append(values, row...), len(row)
	}
	return values, columns, nil
}
