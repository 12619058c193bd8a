package pipeline

import (
	"fmt"

	"github.com/lca-stream/lca-stream/internal/jsontext"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/minibatch"
)

// Whitened is what N rows have become.
type Whitened struct {
	K        int                // number of coordinates per row
	Y        []float32          // N×K coordinates; nil: there is no model, so that everything is null
	Score    []float32          // N times −log p(x); read where OutputConfig.Score is set
	P        []float32          // N probabilities of a score at least as high; nil: the model does not say, so that they are null
	Why      []lca.Gain         // as many gains for each row, the largest first; read where OutputConfig.Why is not 0
	Features []string           // names of the columns in Why
	Imputed  []int16            // how many features of each row were filled; nil: none
	Invalid  []minibatch.Reason // why a row is null; read where there is a model
	Models   []Origin           // the model of each row; nil: none has one. Read where OutputConfig.Models is set
}

// Origin is the model that a row was whitened with; the zero value is none.
type Origin struct {
	ID      string
	Version uint64
}

// added is at most how many bytes our columns take per row, with the gains that lca_why is made of.
func (c *OutputConfig) added(features []string) int64 {
	const float32Bytes, int16Bytes, gainBytes, ends, usualID = 4, 2, 16, 2 * 4, 40
	size := float32Bytes * len(features)
	if c.scores() {
		size += float32Bytes
	}
	if c.P {
		size += float32Bytes
	}
	if c.Imputed {
		size += int16Bytes
	}
	if c.Models {
		size += usualID + ends
	}
	if c.Why > 0 {
		size += min(c.Why, len(features)) * (gainBytes + ends + float32Bytes + longest(features))
	}
	return int64(size)
}

// addedText is at most how many bytes our keys take per row of JSON, apart from names that have to be escaped.
func (c *OutputConfig) addedText(features []string) int64 {
	const key, item, number = 16, len(`{"feature":"","nats":},`), jsontext.MostFloat32 + 1
	size := number * len(features)
	if c.Layout == LayoutColumns {
		size += (key + len(c.Column)) * len(features)
	}
	if c.Why > 0 {
		size += min(c.Why, len(features)) * (item + number + longest(features))
	}
	if c.Models {
		size += 2*(key+len(c.Column)) + 40 + number // an id as a rule
	}
	const others = 5 // lca, lca_score, lca_p, lca_why and lca_imputed
	return int64(size + others*(key+len(c.Column)+number))
}

// longest is the length of the longest name.
func longest(names []string) (n int) {
	for _, name := range names {
		n = max(n, len(name))
	}
	return n
}

// scores reports whether the columns need scores.
func (c *OutputConfig) scores() bool { return c.Score || c.P }

// rows is some of the rows.
func (w *Whitened) rows(first, last int) Whitened {
	part := Whitened{K: w.K, Features: w.Features, Invalid: w.Invalid[first:last]}
	if w.Y != nil {
		part.Y = w.Y[first*w.K : last*w.K]
	}
	if w.Score != nil {
		part.Score = w.Score[first:last]
	}
	if w.P != nil {
		part.P = w.P[first:last]
	}
	if w.Imputed != nil {
		part.Imputed = w.Imputed[first:last]
	}
	if w.Models != nil {
		part.Models = w.Models[first:last]
	}
	if w.Why != nil {
		each := len(w.Why) / len(w.Invalid)
		part.Why = w.Why[first*each : last*each]
	}
	return part
}

// check panics where the slices are not those of n rows.
func (w *Whitened) check(n int, c *OutputConfig) {
	switch {
	case w.K < 1:
		panic(fmt.Sprintf("pipeline: output of %d coordinates", w.K))
	case w.Models != nil && len(w.Models) != n:
		panic(fmt.Sprintf("pipeline: output of %d rows has %d models", n, len(w.Models)))
	case w.Y == nil:
	case len(w.Y) != n*w.K || len(w.Invalid) != n:
		panic(fmt.Sprintf("pipeline: output of %d rows of %d has %d numbers and %d reasons", n, w.K, len(w.Y), len(w.Invalid)))
	case c.Score && len(w.Score) != n:
		panic(fmt.Sprintf("pipeline: output of %d rows has %d scores", n, len(w.Score)))
	case c.P && w.P != nil && len(w.P) != n:
		panic(fmt.Sprintf("pipeline: output of %d rows has %d probabilities", n, len(w.P)))
	case w.Imputed != nil && len(w.Imputed) != n:
		panic(fmt.Sprintf("pipeline: output of %d rows says of %d how much was filled", n, len(w.Imputed)))
	case c.Why > 0 && n > 0 && len(w.Why)%n != 0:
		panic(fmt.Sprintf("pipeline: output of %d rows has %d gains", n, len(w.Why)))
	}
}
