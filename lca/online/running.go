package online

import "math"

// runningRows is the memory of the figures in Info, in rows: about that of C_L.
const runningRows = 3000

// running are the means of Step's figures over the recent past. A young stream's are plain means.
type running struct {
	Weight                      float64 // rows that the means stand for, ≤ runningRows
	NLL, GaussianNLL, Effective float64
}

func (r *running) add(s *Step) {
	if s.Learnt == 0 || math.IsNaN(s.NLL) || math.IsInf(s.NLL, 0) {
		return
	}
	r.Weight = min(r.Weight+float64(s.Learnt), max(runningRows, float64(s.Learnt)))
	w := float64(s.Learnt) / r.Weight
	r.NLL += float64(w * (s.NLL - r.NLL))
	r.GaussianNLL += float64(w * (s.GaussianNLL - r.GaussianNLL))
	r.Effective += float64(w * (s.Effective - r.Effective))
}
