package online

// spanUpdate describes the change of a metric between two splits. An eigendecomposition costs as much as many
// minibatches, and in a few of them the spans of B_L and B_G, C_G and the scales hardly change. What does
// change is the width of the kernel, and that follows at each minibatch by a Cholesky factor:
//
//	B_L ← B_L L⁻ᵀ with L Lᵀ = B_Lᵀ M₂ B_L
//
// is the best B_L of its span (eq. 7), so the bound falls as it does by Proposition 1, only not as far.
//
// In the coordinates of the basis B that the split found, B_Lᵀ M₂ B_L was the identity, and Ĉ_L is formed
// there. So C_L need not be carried back and forth:
//
//	C_L = keep·(C_L at the split) + B⁻ᵀ fresh B⁻¹
//	B_Lᵀ M₂ B_L = keep·I + fresh_PP + (1−keep)·B_Lᵀ N B_L,  N = ν s² or ν C_G
//
// and of the pool's rows only the first d_P coordinates change (estep.go).
type spanUpdate struct {
	pending     float64   // share of new rows in C_L since the split
	minibatches int       // learnt since the split
	keep        float64   // what is left of the weight that C_L had at the split
	fresh       []float64 // Σ of Ĉ_L since then, discounted, in the basis: n×n, on and above the diagonal

	// These follow from the others, and are no state.
	nu       []float64 // B_Lᵀ N B_L, d_P×d_P
	low      []float64 // L, d_P×d_P
	narrowed bool      // L is not the identity

	scratch [2][]float64
}
