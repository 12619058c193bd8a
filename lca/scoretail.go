package lca

import "math"

// The tail of scores beyond u has few scores, and rare rows are far beyond the last of them. The likeliest shape, or the one by moments, is
// off by about 1/√n, and p falls by a power of it: so on average, rows below p = 0.0001 come several times too often even if
// the estimate has no bias. So all shapes and scales count here by how probable they are given the scores, as a Bayesian would have it,
//
//	P(s) = 0.1 · E[(1 + ξ (s−u)/β)^(−1/ξ)]
//
// and the tail is the one distribution of the contract's form that agrees with this at p = 0.01 and 0.0001.
//
// The prior of ξ is N(0.1, 0.3²): the scores of rows that are like the model fall exponentially, ξ = 0, and those of tails that are
// heavier than its kernels more slowly. That of log β is flat.
//
// Rows with scores beyond a gate are not among a stream's neighbours (package online). Scores are then those of a tail that was cut there:
// the likelihood is divided by the probability of a score below the gate.
const (
	shapeMean, shapeSpread = 0.1, 0.3
	// The cells of the grid over which the expectation is taken. One of them has θ = ξ/β and log β, in units of the mean score beyond u, m:
	// log(1+θ) in steps from leastTilt to mostTilt, and log β within scaleReach of −log(1+θ), where β = m (1−ξ).
	leastTilt, mostTilt   = -0.71, 2.5 // no step is at 0, where ξ is
	scaleReach, gridSteps = 1.2, 48
	leastWeight           = 1e-6 // relative to the most probable
	leastLogWeight        = -14. // less than its logarithm
	// The quantiles that are searched for are between these, in the same units.
	leastQuantile, mostQuantile = 1e-3, 1e12
	// The search ends when the logarithm of the share is as near, or after that number of steps, which are never needed.
	quantileError, quantileSteps = 1e-9, 100
)

// tailLevels are the shares of the tail at which the fit agrees with the expectation.
var tailLevels = [2]float64{0.1, 0.001}

// tailCells are tails of one θ, with scores in units of their mean beyond u: their powers 1/ξ, and how probable they are.
type tailCells struct {
	theta   float64
	powers  []float64
	weights []float64
}

// fitTail returns the shape and the scale for scores beyond u, which ascend. None of them was beyond limit, which may be infinite. That share of
// them is independent.
func fitTail(beyond []float64, u, limit, share float64) (xi, beta float64) {
	mean, n := 0.0, float64(len(beyond))
	for _, v := range beyond {
		mean += (v - u) / n
	}
	x := make([]float64, len(beyond))
	for i, v := range beyond {
		x[i] = (v - u) / mean
	}
	cut := math.Inf(1)
	if limit < math.Inf(1) {
		cut = max((limit-u)/mean, x[len(x)-1]) // the gate moves: some may be beyond the last
	}
	grid := tailPosterior(x, cut, share)
	refused := 0.0
	if cut < math.Inf(1) {
		refused, _ = expectedBeyond(grid, cut)
	}
	var at [len(tailLevels)]float64
	for k, level := range tailLevels {
		// 0.1 of the neighbours have scores beyond u, and so more of all rows.
		at[k] = expectedQuantile(grid, level*(1-(1-tailShare)*refused))
	}
	// Rounded, so that they are the same on any processor: math.Exp is not, in its last bit.
	xi = float64(float32(shapeThrough(at[1] / at[0])))
	return xi, mean * float64(float32(at[0]/paretoAt(tailLevels[0], xi)))
}

// tailPosterior returns the tails that are probable, given scores beyond u that were cut.
func tailPosterior(x []float64, cut, share float64) []tailCells {
	n, last, best := float64(len(x)), x[len(x)-1], math.Inf(-1)
	grid := make([]tailCells, 0, gridSteps)
	powers, weights := make([]float64, gridSteps*gridSteps), make([]float64, gridSteps*gridSteps)
	var logScales, scales [gridSteps]float64 // of β (1+θ)
	for j := range scales {
		logScales[j] = scaleReach * (2*(float64(j)+0.5)/gridSteps - 1)
		scales[j] = math.Exp(logScales[j])
	}
	for i := range gridSteps {
		tilt := leastTilt + (mostTilt-leastTilt)*(float64(i)+0.5)/gridSteps
		at := i * gridSteps
		c := tailCells{math.Expm1(tilt), powers[at : at : at+gridSteps], weights[at : at : at+gridSteps]}
		if c.theta*last <= -1 {
			continue // it would end before the last score
		}
		sum := 0.0
		for _, v := range x {
			sum += math.Log1p(c.theta * v)
		}
		atCut := math.Log1p(max(-1, c.theta*cut)) // one that ends before the cut has nothing beyond it
		for j, scale := range scales {
			logBeta, xi := logScales[j]-tilt, c.theta*scale/(1+c.theta)
			l := -n*logBeta - (1+1/xi)*sum
			if cut < math.Inf(1) {
				l -= n * math.Log1p(-math.Exp(-atCut*(1/xi)))
			}
			z := (xi - shapeMean) / shapeSpread
			l = share*l - 0.5*z*z + logBeta + tilt // dξ = β dθ, and dθ = (1+θ) d log(1+θ)
			best = max(best, l)
			c.powers, c.weights = append(c.powers, 1/xi), append(c.weights, l)
		}
		grid = append(grid, c)
	}
	return probable(grid, best)
}

// probable turns logarithms into weights whose sum is 1, and drops what hardly counts.
func probable(grid []tailCells, best float64) []tailCells {
	total := 0.0
	for i := range grid {
		c, kept := &grid[i], 0
		for k, l := range c.weights {
			if l-best < leastLogWeight {
				continue
			}
			if w := math.Exp(l - best); w > leastWeight {
				total += w
				c.powers[kept], c.weights[kept] = c.powers[k], w
				kept++
			}
		}
		c.powers, c.weights = c.powers[:kept], c.weights[:kept]
	}
	for _, c := range grid {
		for k := range c.weights {
			c.weights[k] /= total
		}
	}
	return grid
}

// expectedBeyond returns the expected share of the tail beyond x, and the slope of its logarithm by log x.
func expectedBeyond(grid []tailCells, x float64) (share, slope float64) {
	for _, c := range grid {
		if len(c.powers) == 0 || c.theta*x <= -1 {
			continue
		}
		l, sum := math.Log1p(c.theta*x), 0.0
		for k, power := range c.powers {
			w := c.weights[k] * math.Exp(-l*power)
			share += w
			sum += w * power
		}
		slope -= sum * c.theta * x / (1 + c.theta*x)
	}
	return share, slope / share
}

// expectedQuantile returns where the expected share of the tail beyond is that one, by Newton's steps in logarithms from where it is in an
// exponential tail. A step that leaves what the others have enclosed becomes half of that.
func expectedQuantile(grid []tailCells, share float64) float64 {
	low, high := math.Log(leastQuantile), math.Log(mostQuantile)
	t := math.Log(-math.Log(share))
	for range quantileSteps {
		beyond, slope := expectedBeyond(grid, math.Exp(t))
		above := math.Log(beyond / share)
		if math.Abs(above) < quantileError {
			break
		}
		if above > 0 {
			low = t
		} else {
			high = t
		}
		if t -= above / slope; !(t > low && t < high) {
			t = 0.5 * (low + high)
		}
	}
	return math.Exp(t)
}

// paretoAt returns where the share of a tail beyond is that one, with β = 1.
func paretoAt(share, xi float64) float64 {
	if math.Abs(xi) < 1e-9 {
		return -math.Log(share)
	}
	return math.Expm1(-xi*math.Log(share)) / xi
}

// shapeThrough returns the ξ with which the quantiles at tailLevels have that ratio. It rises with ξ.
func shapeThrough(ratio float64) float64 {
	low, high := float64(leastShape), float64(mostShape)
	for range 45 {
		if middle := 0.5 * (low + high); paretoAt(tailLevels[1], middle) < ratio*paretoAt(tailLevels[0], middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return 0.5 * (low + high)
}
