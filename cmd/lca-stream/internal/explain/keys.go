// Package explain tells whether the values of a key or a column explain the rows, so that each should have a model of its own.
package explain

import (
	"fmt"
	"math"
	"strings"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/terminal"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/source"
)

// Keys tells how much of what rows vary by is between the values of a key or column, and how much is within the rows of each.
type Keys struct {
	By       modelkey.By
	features *minibatch.Features
	rows     minibatch.Rows
	groups   map[string]*scatter
	within   []float64 // Σ (x−m)(x−m)ᵀ, m the mean of the row's own group, lower triangle
	all      scatter
	total    []float64 // the same about the mean of all rows
	apart    []float64
}

// scatter is the mean of rows.
type scatter struct {
	rows float64
	mean []float64
}

const (
	leastPerValue = 10   // rows on average, to know the mean of each value
	mostCompared  = 64   // features; others are not looked at
	leastVariance = 0.01 // of each feature's variance is held to be within: one that tells the values apart is not enough by itself
	mostNamed     = 3    // features
	mostKeys      = 1000 // values
)

// Of returns what is known before the first row.
func Of(by modelkey.By, features *minibatch.Features) *Keys {
	return &Keys{By: by, features: features, groups: map[string]*scatter{}}
}

// Message takes the rows of a message. What cannot be read is passed over: it has been told of.
func (b *Keys) Message(m *source.Message) error {
	if m.Err != nil || m.Tombstone() || b.features.Gather(&b.rows, m.Record) != nil {
		return nil
	}
	valueOf := func(int) (string, bool) { return "", false }
	if b.By.Place == modelkey.Column {
		values, err := b.By.Column(m.Record)
		if err != nil {
			return nil
		}
		defer values.Release()
		valueOf = values.Whole
	} else if value := b.By.Whole(m); value != nil {
		valueOf = func(int) (string, bool) { return string(value), true }
	}
	for i, reason := range b.rows.Invalid {
		if value, ok := valueOf(i); ok && reason == minibatch.ReasonNone {
			b.row(value, b.rows.X[i*b.rows.Dim:][:min(b.rows.Dim, mostCompared)])
		}
	}
	return nil
}

func (b *Keys) row(value string, x []float64) {
	if b.total == nil {
		b.within, b.total, b.apart = make([]float64, len(x)*len(x)), make([]float64, len(x)*len(x)), make([]float64, len(x))
	}
	group := b.groups[value]
	if group == nil {
		if len(b.groups) == mostKeys {
			return
		}
		group = &scatter{}
		b.groups[value] = group
	}
	group.add(x, b.within, b.apart)
	b.all.add(x, b.total, b.apart)
}

// add moves the mean on by a row, and the sum of products with it (Welford).
func (s *scatter) add(x, products, apart []float64) {
	if s.mean == nil {
		s.mean = make([]float64, len(x))
	}
	d := len(x)
	for k, v := range x {
		apart[k] = v - s.mean[k]
	}
	share := s.rows / (s.rows + 1)
	s.rows++
	for i, v := range apart {
		s.mean[i] += v / s.rows
		for j, w := range apart[:i+1] {
			products[i*d+j] += v * w * share
		}
	}
}

// Why says what the values explain, if a model of each would know the rows much better than one of all: if, over the directions in
// which rows vary, that of a value's own rows is half of the variance or less, by the geometric mean. "" says that it would not, or that
// too few rows tell.
func (b *Keys) Why() string {
	groups, n, d := float64(len(b.groups)), b.all.rows, len(b.apart)
	if groups < 2 || groups >= mostKeys || n < leastPerValue*groups {
		return ""
	}
	var shares []float64
	var kept []int
	for k := range d {
		within, total := b.within[k*d+k]/(n-groups), b.total[k*d+k]/(n-1)
		share := math.Inf(-1)
		if total > 0 && total < math.Inf(1) {
			share = max(0, 1-within/total)
			kept = append(kept, k)
		}
		shares = append(shares, share)
	}
	if len(kept) == 0 || b.volume(b.total, n-1, kept)-b.volume(b.within, n-groups, kept) < math.Ln2*float64(len(kept)) {
		return ""
	}
	var named []string
	for range min(mostNamed, len(kept)) {
		k := maxAt(shares)
		of := "of"
		if named == nil {
			of = "of the variance of"
		}
		named = append(named, fmt.Sprintf("%.0f %% %s %s", math.Floor(100*shares[k]), of, terminal.Name(b.name(k))))
		shares[k] = math.Inf(-1)
	}
	what := "Keys explain "
	if b.By.Place == modelkey.Column {
		what = "They explain "
	}
	return what + strings.Join(named, ", ")
}

// name is that of a feature; a list has one for all.
func (b *Keys) name(k int) string { return b.features.Names[min(k, len(b.features.Names)-1)] }

func maxAt(values []float64) (at int) {
	for i, v := range values {
		if v > values[at] {
			at = i
		}
	}
	return at
}

// volume is the logarithm of the determinant of products over n, in units of the total variances.
func (b *Keys) volume(products []float64, n float64, kept []int) (sum float64) {
	d, p := len(b.apart), len(kept)
	l := make([]float64, p*p)
	for i, row := range kept {
		for j, column := range kept[:i+1] {
			unit := math.Sqrt(b.total[row*d+row]) * math.Sqrt(b.total[column*d+column]) / (b.all.rows - 1)
			v := products[row*d+column] / (n * unit)
			if i == j {
				v += leastVariance
			}
			for k := range j {
				v -= l[i*p+k] * l[j*p+k]
			}
			if i == j {
				l[i*p+i] = math.Sqrt(max(v, math.SmallestNonzeroFloat64))
				sum += 2 * math.Log(l[i*p+i])
			} else {
				l[i*p+j] = v / l[j*p+j]
			}
		}
	}
	return sum
}
