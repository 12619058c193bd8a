package lca

import "math"

// NewScores is newScores where no score was left out.
func NewScores(values []float64) *Scores { return newScores(values, math.Inf(1), 1) }
