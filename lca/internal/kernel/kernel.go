// Package kernel computes the two dense passes that an EM step of local component analysis
// consists of, and the whitening transform; everything else in package lca is small beside them.
//
// # What is computed
//
// With queries q_i (the minibatch) and neighbours z_j (the pool), both centred and whitened,
//
//	s_ij = −½ |q_i − z_j|²                      over the first d_P coordinates
//	λ_ij = exp(s_ij) / Σ_j' exp(s_ij')          (eqs. 3 and 4; inadmissible pairs have λ_ij = 0)
//	Ĉ    = Σ_i Σ_j λ_ij (q_i − z_j)(q_i − z_j)ᵀ  over all d coordinates (eq. 5)
//
// The matrix Λ never exists: [Update] forms a block of rows of it, uses the block while it is in
// cache, and forgets it. The logits come out of the matrix product with −½|z_j|² already in the
// accumulator (½|q_i|² cancels in the softmax), the maximum of a row is exact, and Ĉ is
//
//	Ĉ = (Q − ΛZ)ᵀ(Q − ΛZ) + ZᵀSZ − (ΛZ)ᵀ(ΛZ),   S = diag(λᵀ1),
//
// which costs B+N rank-one terms instead of B·N, each bracket positive semidefinite. In raw
// coordinates that form loses the small directions to cancellation in float32; in whitened
// coordinates, where Ĉ is close to the identity, it does not. Callers therefore centre in float64,
// whiten, and only then round to float32.
//
// # One specification, the same bits everywhere
//
// What is learnt from a stream must not depend on the processor that learns it. So each output is
// defined down to its rounding, by the Go code of this package that carries no build tag:
//
//   - an element of a matrix product is one chain of fused multiply-adds, k ascending, from its
//     initial value; neither the shape of a tile nor blocking over k shows in it ([tile]);
//   - sums along a row have sixteen lanes, element j in lane j mod 16, folded 8, 4, 2, 1 ([expRow]);
//   - sums over rows are formed per block of fixed size and folded in float64 in block order,
//     whatever the number of threads;
//   - exp is our own; math.Exp chooses its instructions by processor;
//   - a row whose weights are few keeps only those above e^−21 of the largest (float32; e^−40 in
//     float64), by a rule that looks at the row alone (sparse.go);
//   - weights below e^−67 (float32) or e^−688 (float64) are exactly zero, so that no subnormal
//     number ever enters a product (they are up to a hundred times slower).
//
// The assembly in kernel_amd64.s computes the same chains with wider registers, and the tests
// compare with ==. Go has no float32 fused multiply-add: the generic code emulates one exactly
// ([fma32]), which makes it an oracle rather than a fast path.
//
// To add an instruction set: write its functions in _asm, list it in implementations, and
// run the tests; [Each] finds it.
package kernel

// Float is the arithmetic of the E-step.
type Float interface{ float32 | float64 }

const (
	// lanes is the width of the fixed tree by which sums along a row are formed.
	lanes = 16
	// panelBytes is the width of a panel row: two AVX-512 registers, so 32 float32 or 16 float64.
	panelBytes = 128
	// foldRows is the number of terms summed in T before they are folded into a float64 sum.
	foldRows = 256
	// chainRows bounds the rows of a panel that a product works on at a time, for the cache's
	// sake; it does not show in the bits.
	chainRows = 512
	// projectRows is how many rows are projected at a time, likewise: whole panels of points.
	projectRows = 64
	// streamRows is the same for rows of a stream, which come from far: while some are multiplied, the
	// next are fetched. Whole tiles.
	streamRows = 28
)

// panelWidth returns the columns of a panel: 32 float32 or 16 float64.
func panelWidth[T Float]() int { return panelBytes / sizeOf[T]() }

// blockRows returns the rows of Λ formed at a time. It is part of the specification: λᵀ1 is summed
// in T within a block, and in float64 over blocks.
func blockRows[T Float]() int {
	if sizeOf[T]() == 4 {
		return 56
	}
	return 28
}

// ceil rounds n up to a multiple of m.
func ceil(n, m int) int { return (n + m - 1) / m * m }
