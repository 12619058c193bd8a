// Package lca is Local Component Analysis (Nicolas Le Roux and Francis Bach, "Local Component
// Analysis", arXiv:1109.0093): it learns the metric in which data is locally round, and with it a density.
//
// # The model in ten lines
//
//  1. Parzen windows put a Gaussian N(x_j, Σ) on every row x_j; one Σ for all of them is a metric.
//  2. LCA finds Σ by maximum likelihood, each row scored by all the others (leave-one-out).
//  3. E-step: λ_ij is the share of x_j in the density at x_i; λ_ii = 0.
//  4. M-step: Σ = C_L = (1/n) Σ_ij λ_ij (x_i−x_j)(x_i−x_j)ᵀ, the average local covariance.
//  5. In many dimensions most are Gaussian noise, which Parzen windows model badly.
//  6. So LCA-Gauss is a product: N(B_Gᵀ(x−μ); 0, I) times Parzen windows on B_Lᵀx, (B_G, B_L) square.
//  7. Its M-step compares C_L with the global C_G, by the eigenvalues e of C_G^(−½) C_L C_G^(−½):
//  8. where e ≥ 1 local and global spread agree: Gaussian. Where e < 1 there is structure: Parzen.
//  9. ν I is added to C_L, ν_g I to C_G: a penalty on tr Σ⁻¹ that keeps thin directions thick.
//  10. On a stream C_L is a running average over minibatches against a pool of neighbours.
//
// Begin with [Fit], whose [Config] comes from [DefaultConfig]: it fits rows in memory, in float64, with code to be read
// next to the paper. For a stream there is the Learner of package lca/online. Both give a [Model]: [Model.Whiten] turns
// rows into coordinates whose Euclidean distances are those of the metric, and [Model.LogDensity] scores rows. [Search],
// [Tune] and [FitLocal] go with Fit.
//
// # Symbols
//
// Sections and equations as the paper's LaTeX numbers them.
//
//	| symbol                               | here                        | in the paper                                   |
//	|--------------------------------------|-----------------------------|------------------------------------------------|
//	| L(Σ), the leave-one-out cost, / n    | Model.LeaveOneOutNLL        | section 3, eq. 1                               |
//	| its bound by Jensen                  | what EM lowers: fit.go      | section 3, eq. 2                               |
//	| λ_ij; λ_ii = 0                       | eStep: lambda; kernelStep   | section 3, eqs. 3, 4; Algorithm 1              |
//	| Σ*, C_L (+ ν I)                      | localCovariance; Model.CL   | section 3, eq. 5; section 4, below eq. 6       |
//	| μ, C_G (+ ν_g I)                     | Model.Mean, Model.CG        | section 4, below eq. 6; Algorithm 1            |
//	| p(x) = p_G p_L                       | Model.LogDensity            | section 4, before eq. 6                        |
//	| bound of the product                 | prop1.MStep                 | section 4, eq. 6                               |
//	| I_G = C_G^(−½)                       | prop1.InverseRoot           | Algorithm 1                                    |
//	| Proposition 1: U₊, U₋, D₋            | prop1.Split                 | section 4, eq. 7; proof in the appendix, eq. 9 |
//	| B_G = I_G U₊, B_L = I_G U₋ D₋^(−½)   | Model.BG, Model.BL          | Proposition 1; Algorithm 1                     |
//	| e                                    | Model.Ratio                 | D of Algorithm 1                               |
//	| LCA-Gauss                            | Fit: em                     | Algorithm 1                                    |
//	| LCA-Gauss-Red                        | reduce                      | section 4, "Escaping local optima"             |
//	| ν                                    | Nu, NuGaussian; ridge       | Algorithm 1; section 6.2                       |
//	| γ, B, n, Ĉ_L                         | Gamma, Minibatch; discounted| section 5.1, eq. 8: γ = .6, B = 100            |
//	| n_j, N                               | Neighbours                  | section 5.2; N = 3000 in section 6.3           |
//	| isotropic, diagonal metric           | prop1.Family                | section 6.2                                    |
//	| low rank + scalar                    | prop1.Family, MetricLowRank | section 3 (end)                                |
//	| "low-rank or diagonal approximation" | narrowFit, prop1.Narrow     | section 5: time by d, not by its square        |
//	| own covariance for each point        | FitLocal                    | section 3 (end)                                |
//	| Manifold Parzen Windows (MPW)        | Fit with MaxIter = 1        | section 3 (end), section 6.1                   |
//
// # Slips in the paper
//
//   - Algorithm 1 writes B_Lᵀ B_L in M_ij; it is B_L B_Lᵀ, as section 4 has it. So its chol is the factor
//     with B_L B_Lᵀ = C_G⁻¹.
//   - Its cut-off t₁ reads wrongly: e ≥ 1 goes to the Gaussian part and e < 1 to the Parzen part (Proposition 1).
//   - Its C_L ← … + ν I is for the metric; ν must not be accumulated in the running average of eq. 8.
//   - Eq. 6 holds up to a constant, with C_L and C_G averages over rows, so for the mean over i.
//   - Section 6.1's min_P is max_P. Section 6.3: USPS has 9298 points, not 8298.
//   - Section 6.2's isotropic row (269.78) is what a bandwidth of about 1 gives; the optimum is near 155.6.
//
// # Where this package departs from it
//
//   - Columns are divided by their standard deviation, and ν is relative to the mean variance that leaves
//     (1), so that columns of 1e-9 and 1e9 live together. UnitAbsolute is the paper's. (TestScales)
//   - With UnitCovariance, where PresetDensity begins, ν C_G is added to C_L and ν_g C_G to C_G in place of multiples of I:
//     no score changes with the basis. A ridge of 1e-12 of each variance stands for rounding. (TestScoreIsAffine)
//   - KernelStudent puts a t in place of each Gaussian kernel. λ_ij is its share, and in C_L a pair also counts
//     (ν+d_P)/(ν+δ_ij) times, which makes the M-step exact while d_P stays. (TestStudentIsMonotone)
//   - A constant column has weight 0 and does not count in d. (TestConstantColumns) Scores rise where it is not at its level,
//     because that has never been seen. (TestConstantColumnMoves)
//   - Pairs that are near copies of each other, as redelivered records are, count as the row itself does:
//     λ = 0. Otherwise they pull the kernel to width 0. A row with no other neighbour is left out of C_L and
//     of the NLL. (TestDuplicates)
//   - ν and ν_g are two numbers, as in section 6.2; Algorithm 1 is ν = ν_g.
//   - LCA-Gauss takes the structured metrics too (prop1.Family); the paper has them for LCA alone.
//   - Search adds starts from directions of minimum kurtosis to LCA-Gauss-Red, and chooses by fresh rows.
//   - λ below e^−60 of a row's largest is 0 in the plain loops of the E-step, and below e^−688 (float32: e^−67)
//     in the kernels; TestVectors shows that no digit is lost. The kernels also have an exp of their own, so
//     that all processors give the same bits.
//
// Package lca/online has its own list: what it does because a stream has no n and no second pass.
package lca
