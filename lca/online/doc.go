// Package online learns the metric of package lca from a stream of minibatches, each row seen once, with an update
// that costs the same however long the stream has been.
//
// Begin with [NewLearner], whose [Config] comes from [DefaultConfig], and call [Learner.Learn] for each minibatch of
// about 100 rows. Whenever a model is wanted, [Learner.Model] gives it: an immutable lca.Model, which whitens and
// scores rows in any number of goroutines while the Learner goes on.
//
// [Learner.AppendBinary] and [Learner.UnmarshalBinary] carry a Learner over a restart, bit for bit;
// [Learner.WarmStart] begins from a published model. Until the first rows have been collected Model returns
// [ErrWarmup]. [Step] says what a call of Learn did; the Info of a model says how it came to be.
//
// # The scheme
//
// It is the one of the paper's section 5, "Speeding up LCA", of which package lca has the symbols. One call of Learn is
// one stochastic EM step on B rows:
//
//  1. E-step: λ_ij of the minibatch's rows against N neighbours (section 5.2), and from it Ĉ_L (estep.go).
//  2. C_L ← γ^(B/n) C_L + (1−γ^(B/n)) Ĉ_L   (eq. 8, section 5.1; config.go has n), kept without ν.
//  3. μ and C_G take in the same rows (runningmoments.go).
//  4. M-step: B_G and B_L by Proposition 1 for C_L + ν I and C_G + ν_g I (model.go), or, between two
//     eigendecompositions, the best B_L of its span (metricstate.go).
//  5. Some of the rows replace neighbours (package pool).
//
// # The layers
//
// Each is a type that knows those before it in this list, and none after it:
//
//	model        the step above, and the scores that follow from it       model.go, estep.go, metricstate.go, rehearse.go
//	rowGate      row → learn it?                                          gate.go, scoregate.go, held.go
//	choices      candidates, by their leave-one-out NLL → settings, d_P   choice.go, contest.go, beginning.go
//	warmup       first rows → the first metric                            warmup.go, endofset.go
//	changeWatch  minibatch → as those before it?                          restart.go, bypool.go, quiet.go, rests.go
//	regimes      the current regime, a former, or the one now forming?    former.go
//	heldSeries   series → are its last rows usual?                        holds.go, lastrows.go, package recent
//	Learner      judge → step → remember                                  learner.go
//
// What is learnt depends on the rows, their identities and their order alone: never on a clock, on GOMAXPROCS, on the
// processor, on who asks for a model, or on where the stream was interrupted and resumed.
//
// # Departures from the paper
//
// A stream has no n and no second pass, and it may change. Each departure is explained in the file that is named:
//
//   - n of eq. 8 grows with the rows learnt, up to a cap (config.go); a fixed n is the paper's.
//   - Neighbours are a pool that favours the recent (package pool), not rows drawn again from all.
//   - Rows that are near in time are no neighbours, and rows are counted as fewer where they depend on each other
//     (package timegap).
//   - μ and C_G have the pool's memory (runningmoments.go), so that a change does not pass for structure.
//   - Of many columns the first rows make a single Gaussian with a shrunk C_G (wide.go). (TestWideRows)
//   - While the stream is young EM also runs over the pool (rehearse.go): a step of eq. 8 is a small part of
//     one of EM's, and there are structures that EM needs dozens to see. (TestRehearsal)
//   - The split of Proposition 1 is found every few minibatches; in between B_L is the best of its span (metricstate.go).
//   - LCA-Gauss-Red is a search in the background that takes effect at a fixed row, and so is the choice of ν, its unit, the
//     kernel, and a single Gaussian in place of all (choice.go). (TestChoiceFindsTheSplit) The first metric may be with t kernels, or a
//     single Gaussian (warmup.go). (TestYoungDensity, in internal/streams)
//   - A pool that is still filling judges e as the full one would (parzenWithHysteresis).
//   - Outliers do not learn (gate.go, scoregate.go), unless they turn out to be a cluster (held.go). Rows in which a column moves that never did are
//     among them. (TestConstantColumn)
//   - Rows of a series whose last rows are unusual are held back until it is usual again, or that is normal (holds.go).
//     (TestFaultIsNotLearnt, TestChangeIsLearnt, TestHeldRegimeReturns)
//   - Minibatches that are not as those before (gate.go, drift.go) or in which a column does not move (rests.go) are set aside, unless
//     rows of the pool are like them (restart.go). When they last the learner restarts from them (restart.go). It restarts as well
//     when it refuses most rows (watch.Refusals). (TestDriftIsFollowed, TestBurst, TestPatience, TestStuckColumn)
//   - The last metrics that were left at a restart are kept, and one that explains the new rows is current again at
//     once (former.go). (TestRegimeReturns, TestNoFalseReturn)
//   - Many rows that are refused for long are an alarm (watch.Refusals). (TestHeldRows)
//   - W is rotated towards its predecessor (align.go), which changes no distance.
package online
