package status

import (
	"fmt"
	"math"
	"time"

	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/sink/snapshot"
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
	Choice      *Choice     `json:"choice,omitempty"` // the last choice by the data
}

// Choice says which settings were compared, and which was taken.
type Choice struct {
	Rows       uint64  `json:"rows"`                // learnt when they were compared
	Beginning  bool    `json:"beginning,omitempty"` // by the rows that they were fitted to; otherwise by others
	Candidates []Trial `json:"candidates"`
}

// Trial is a candidate of a choice.
type Trial struct {
	Name   string `json:"name"`
	Parzen int    `json:"d_parzen"`
	Kernel string `json:"kernel"`
	NLL    Number `json:"nll"` // null where it collapsed
	Taken  bool   `json:"taken"`
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

// Scatter shows rows of the pool before and after: the two raw columns of largest variance, and the two directions with
// the most structure.
type Scatter struct {
	Before     [][2]Rough `json:"before"`
	After      [][2]Rough `json:"after"`
	Labels     []int      `json:"labels,omitempty"` // of the same rows, −1: unknown; none where the truth is not known
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
		Eigenvalues: convert[Number](m.Model.Ratio), Directions: directions(m), Choice: choice(snapshot.ChoiceOf(m.Model.Info.Choice)),
	}
}

func choice(c *snapshot.Choice) *Choice {
	if c == nil {
		return nil
	}
	out := &Choice{Rows: c.Rows, Beginning: c.Beginning()}
	for _, t := range c.Candidates {
		nll := Number(math.NaN())
		if t.NLL != nil {
			nll = Number(*t.NLL)
		}
		out.Candidates = append(out.Candidates, Trial{Name: t.Name, Parzen: t.Parzen, Kernel: t.Kernel, NLL: nll, Taken: t.Name == c.Taken})
	}
	return out
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

func scatter(m *pipeline.PublishedModel, label func([]float64) (int, bool)) *Scatter {
	d := m.Model.Dim
	n := len(m.Model.Neighbours) / d
	if n == 0 || len(m.Model.Ratio) < 2 {
		return nil
	}
	a, b := widest(m)
	s := &Scatter{BeforeAxes: [2]string{m.Features[a], m.Features[b]}, AfterAxes: [2]string{axis(m, 0), axis(m, 1)}}
	step := max(n/shownPoints, 1)
	row, known := make([]float64, d), false
	for i := 0; i < n; i += step {
		var y [2]float64
		for j, x := range m.Model.Neighbours[i*d : (i+1)*d] {
			row[j] = float64(x) + m.Model.Mean[j]
			y[0] += weight(m, j, 0) * float64(x)
			y[1] += weight(m, j, 1) * float64(x)
		}
		s.Before = append(s.Before, [2]Rough{Rough(row[a]), Rough(row[b])})
		s.After = append(s.After, [2]Rough{Rough(y[0]), Rough(y[1])})
		if label == nil {
			continue
		}
		l, ok := label(row)
		if !ok {
			l = -1
		}
		known = known || ok
		s.Labels = append(s.Labels, l)
	}
	if !known {
		s.Labels = nil
	}
	return s
}

// axis names a direction: those with structure come first.
func axis(m *pipeline.PublishedModel, direction int) string {
	if parzen := m.Model.Parzen(); direction >= parzen {
		return fmt.Sprintf("Gaussian direction %d", direction-parzen+1)
	}
	return fmt.Sprintf("direction %d", direction+1)
}

// weight returns what a feature has in a direction, in the order of the spectrum.
func weight(m *pipeline.PublishedModel, feature, direction int) float64 {
	if parzen := m.Model.Parzen(); direction >= parzen {
		return m.Model.BG.At(feature, direction-parzen)
	}
	return m.Model.BL.At(feature, direction)
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
