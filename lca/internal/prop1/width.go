package prop1

import "math"

// WidthFactor is (N/target)^(2/(d_P+4)): what a C_L that was learnt from N neighbours is multiplied by to become
// that of target neighbours. The best kernel covariance shrinks as N^(−2/(d_P+4)), a pure factor.
func WidthFactor(neighbours, target, parzen int) float64 {
	return math.Pow(float64(neighbours)/float64(target), 2/float64(parzen+4))
}
