package lca

import "math"

// NewScores is newScores where no score was left out.
func NewScores(values []float64) *Scores { return newScores(values, math.Inf(1), 1) }

// SparedSteps counts the steps that computed near pairs only.
func SparedSteps() int64 { return sparedSteps.Load() }
