// Package prop1 is Proposition 1 of the paper, and the linear algebra around it that the batch fit of package
// lca and the learner of package lca/online share. doc.go of package lca has the paper's symbols.
//
//   - [MStep] solves the proposition for a metric's [Family]; [FamilyOf] is the only place where a metric's name
//     becomes an M-step. The result is [Parts]: B_G, B_L and the eigenvalues e.
//   - [Factor] and [RatiosByFactor] are its ingredients by Cholesky factors, in buffers of the caller.
//   - [ColumnScale] and [Sparse] say in which units columns are learnt; [Mean] and [Spread] are column statistics.
//   - [MetricRoot] and [Polar] choose the rotation of a whitening matrix; [Spans] compares Parzen subspaces.
//
// All of it is float64 and single-threaded, and the order of every sum is fixed.
package prop1
