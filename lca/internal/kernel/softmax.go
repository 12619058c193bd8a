package kernel

import "math"

// rowMax returns the largest element of s, or −Inf if there is none. It ignores NaN, because a comparison with it is
// false, here as in the MAXPS instruction.
func rowMax[T Float](s []T) T {
	m := T(math.Inf(-1))
	for _, x := range s {
		if x > m {
			m = x
		}
	}
	return m
}

// findGE returns the index of the first element of s that is at least v, or len(s) if there is none.
func findGE[T Float](s []T, v T) int {
	for j, x := range s {
		if x >= v {
			return j
		}
	}
	return len(s)
}

// expRow32 and expRow64 replace each logit s_j by its weight w_j = exp(s_j − max) and return Σ w_j
// and Σ w_j·(s_j − max), from which the entropy of the row follows. len(s) is a multiple of lanes. Element j is added
// to lane j mod 16, j ascending, to the second sum by fused multiply-adds; then the lanes are folded 8, 4, 2, 1.
// A logit of −Inf or NaN has weight zero.
func expRow32(s []float32, max float32) (sum, dot float32) {
	var z, d [lanes]float32
	for ; len(s) >= lanes; s = s[lanes:] {
		for l := range lanes {
			t := s[l] - max
			if !(t > low32) {
				t = low32
			}
			w := exp32(t)
			s[l] = w
			z[l] += w
			d[l] = fma32(w, t, d[l])
		}
	}
	return foldLanes(&z), foldLanes(&d)
}

func expRow64(s []float64, max float64) (sum, dot float64) {
	var z, d [lanes]float64
	for ; len(s) >= lanes; s = s[lanes:] {
		for l := range lanes {
			t := s[l] - max
			if !(t > low64) {
				t = low64
			}
			w := exp64(t)
			s[l] = w
			z[l] += w
			d[l] = math.FMA(w, t, d[l])
		}
	}
	return foldLanes(&z), foldLanes(&d)
}

// expAdd32 and expAdd64 are expRow of s, and axpy of the row before, which has the same length.
func expAdd32(s, before, sums []float32, max, factor float32) (sum, dot float32) {
	axpy32(sums, before, factor)
	return expRow32(s, max)
}

func expAdd64(s, before, sums []float64, max, factor float64) (sum, dot float64) {
	axpy64(sums, before, factor)
	return expRow64(s, max)
}

// foldLanes adds up the lanes: first those eight apart, then four, two and one.
func foldLanes[T Float](v *[lanes]T) T {
	for h := lanes / 2; h > 0; h /= 2 {
		for l := range h {
			v[l] += v[l+h]
		}
	}
	return v[0]
}

// scale multiplies row k of the panel src by s[k]: dst[k·w + c] = s[k]·src[k·w + c].
func scale[T Float](dst, src, s []T) {
	w := panelWidth[T]()
	for k, v := range s {
		from, to := src[k*w:][:w], dst[k*w:][:w]
		for c, x := range from {
			to[c] = T(v * x)
		}
	}
}

// addTo adds src to the float64 sums in dst, and subFrom subtracts it.
func addTo[T Float](dst []float64, src []T) {
	for i, v := range src[:len(dst)] {
		dst[i] += float64(v)
	}
}

func subFrom[T Float](dst []float64, src []T) {
	for i, v := range src[:len(dst)] {
		dst[i] -= float64(v)
	}
}
