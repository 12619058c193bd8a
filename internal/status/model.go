package status

import (
	"time"

	"github.com/lca-stream/lca-stream/pipeline"
)

// Model is the current model.
type Model struct {
	ID          string      `json:"id"`
	Version     uint64      `json:"version"`
	AgeSeconds  Number      `json:"age_seconds"`
	Dim         int         `json:"d"`
	Gaussian    int         `json:"d_gaussian"`
	Parzen      int         `json:"d_parzen"`
	NLL         Number      `json:"nll"`
	GaussianNLL Number      `json:"gaussian_nll"`
	Drift       Number      `json:"drift_radians"`
	Eigenvalues []Number    `json:"eigenvalues"`
	Directions  []Direction `json:"directions"`
}

// Direction is one Parzen direction and the features that weigh most in it.
type Direction struct {
	Eigenvalue Number    `json:"eigenvalue"`
	Features   []Loading `json:"features"`
}

// Loading is a feature's share of a direction, between −1 and 1, in standard deviations of the feature.
type Loading struct {
	Feature string `json:"feature"`
	Weight  Number `json:"weight"`
}

// Scatter shows the pool before and after: the two raw columns of largest variance, and the first
// two Parzen directions.
type Scatter struct {
	Before     [][2]Rough `json:"before"`
	After      [][2]Rough `json:"after"`
	BeforeAxes [2]string  `json:"before_axes"`
	AfterAxes  [2]string  `json:"after_axes"`
}

// Bounds of what is drawn of a large model.
const (
	shownDirections = 8
	shownLoadings   = 5
	shownPoints     = 400
)

func model(m *pipeline.PublishedModel) *Model {
	return &Model{
		ID: m.ModelID, Version: m.Version, AgeSeconds: Number(m.Age(time.Now()).Seconds()),
		Dim: m.Model.Dim, Gaussian: m.Model.Gaussian(), Parzen: m.Model.Parzen(),
		NLL: Number(m.Model.Info.NLL), GaussianNLL: Number(m.Model.Info.GaussianNLL), Drift: Number(m.Model.Info.Drift),
		Eigenvalues: convert[Number](m.Model.Ratio), Directions: directions(m),
	}
}

func directions(m *pipeline.PublishedModel) []Direction {
	out := []Direction{}
	for _, d := range m.Directions(shownDirections, shownLoadings) {
		shown := Direction{Eigenvalue: Number(d.Eigenvalue)}
		for _, f := range d.Features {
			shown.Features = append(shown.Features, Loading{Feature: f.Feature, Weight: Number(f.Weight)})
		}
		out = append(out, shown)
	}
	return out
}

func scatter(m *pipeline.PublishedModel) *Scatter {
	d := m.Model.Dim
	n := len(m.Model.Neighbours) / d
	if n == 0 || d < 2 || m.Model.Parzen() < 2 {
		return nil
	}
	a, b := widest(m)
	s := &Scatter{BeforeAxes: [2]string{m.Features[a], m.Features[b]}, AfterAxes: [2]string{"Parzen 1", "Parzen 2"}}
	step := max(n/shownPoints, 1)
	for i := 0; i < n; i += step {
		x := m.Model.Neighbours[i*d : (i+1)*d]
		var y [2]float64
		for j := range x {
			centred := float64(x[j]) - m.Model.Mean[j]
			y[0] += m.Model.BL.At(j, 0) * centred
			y[1] += m.Model.BL.At(j, 1) * centred
		}
		s.Before = append(s.Before, [2]Rough{Rough(x[a]), Rough(x[b])})
		s.After = append(s.After, [2]Rough{Rough(y[0]), Rough(y[1])})
	}
	return s
}

// widest returns the two columns of largest variance.
func widest(m *pipeline.PublishedModel) (first, second int) {
	c := m.Model.CG
	first, second = -1, -1
	for i := range c.SymmetricDim() {
		switch v := c.At(i, i); {
		case first < 0 || v > c.At(first, first):
			first, second = i, first
		case second < 0 || v > c.At(second, second):
			second = i
		}
	}
	return first, second
}
