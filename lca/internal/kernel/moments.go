package kernel

// SubScale writes s·(x − o).
func SubScale(dst, x, o []float64, s float64) { active().subScale(dst, x, o, s) }

// AddDiff adds x − o to sum.
func AddDiff(sum, x, o []float64) { active().addDiff(sum, x, o) }

func subScale(dst, x, o []float64, s float64) {
	x, o = x[:len(dst)], o[:len(dst)]
	for k, v := range x {
		dst[k] = s * (v - o[k])
	}
}

func addDiff(sum, x, o []float64) {
	x, o = x[:len(sum)], o[:len(sum)]
	for k, v := range x {
		sum[k] += v - o[k]
	}
}
