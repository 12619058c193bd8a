package kernel

// Finite says whether no number is NaN or infinite: only of these the product with zero is not zero.
func Finite(v []float32) bool { return active().finite(v) }

func finite(v []float32) bool {
	sum := float32(0)
	for _, x := range v {
		sum += float32(x * 0)
	}
	return sum == 0
}
