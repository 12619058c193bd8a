package kernel

// Finite reports whether no number is NaN or infinite. Only those are not zero when multiplied by zero.
func Finite(v []float32) bool { return active().finite(v) }

func finite(v []float32) bool {
	sum := float32(0)
	for _, x := range v {
		sum += float32(x * 0)
	}
	return sum == 0
}
