// Package recent scores the last rows of a series, taken together: are they unusual? The score of a row (lca.Model.LogDensity)
// knows nothing of the rows before it, and most faults are stretches of rows each of which could be normal.
//
// A Learner sees the rows of a stream, each before it is learnt, and now and then freezes an Evaluator: the centre, the scales, the Gaussians and
// the distribution of scores that all who score need. An Evaluator scores a row of a Series, and moves the series on by it. The Learner scores
// with the newest one that it has frozen, by the same function, so what it knows of the scores is of scores at which rows are really judged.
//
// # The score
//
// A row x of a series enters as x′ = c + s·cut((x−c)/s), with the centre c and the scales s of the evaluator, the identity to 10 s and logarithmic
// beyond: one wild cell does not own the series for long. Of x′ the series keeps, per column and in the units of the input,
//
//	short      m₁ ← m₁ + (x′−m₁)/5
//	long       m₂ ← m₂ + (x′−m₂)/20
//	deviation  v  ← v + (|x′−m₁|−v)/50
//
// the charts of exponentially weighted means of statistical process control (MEWMA; Lowry, Woodall, Champ, Rigdon, Technometrics 34, 1992), and one for
// the spread next to them. With z = (m₁, m₂, v), 3 d numbers, and T² the squared Mahalanobis distance by the moments of z,
//
//	score = 0.8 log(T²(z) / 3d) + 0.2 log(T²(v) / d)
//
// A NaN, for a null, leaves its column as it was; a column without a value so far is as in the mean of z, and goes on from there. The first 50 rows of a
// series are scored by log(T²(x′)/d) alone: means that have just begun are not like those that the moments know. So are all rows as long as no score of
// a later row is known, which in a stream of many series takes long: of its evaluators the factor of z is zeros until the charts of half of the rows have been learnt, or of 4,000.
//
// # What is learnt
//
// The moments of z and of x′ have a half-life of 70,000 rows. Rows that come before Settle have equal weights; thereafter a row has the weight
// min(1, 3d/T²)², so that a fault is hardly learnt while it lasts, and hides no other like it. Of a run of high scores that has gone on for 60 rows, those with
// T² > 30 d are not learnt at all, not even before Settle unless all is said to be Normal; and after it none are, if the run has got as high as one in a hundred of
// the stream's own would. Nor are their scores counted: a fault of 60,000 rows is as unusual at its end as it was when it began. What lasts for three
// times as long as all rows before is what the stream is. Their covariances are shrunk towards the sphere, in units of s: by 0.002,
// and where rows are few for the width by what Ledoit and Wolf (2004) give for Gaussian rows.
//
// Evaluators are frozen after 32 and 64 rows, for the learner alone, LeastRows, which is the first that is fit for use, 128, 256, 512, and then every 1000 rows. Of the scores that they gave to
// rows before those were learnt, a histogram that forgets is the distribution by which P says how rare a score is.
//
// # Episodes
//
// A run of high scores begins above the 95 % quantile of the scores, and ends after 30 rows below it. The peaks of the highest 60 runs of the last two thirds of
// the rows, or of the last 140,000, are the tail: Tail.Level is the score that runs pass at a rate that is asked for. A quarter of these peaks may be
// faults: how high they are does not matter. A Watch is open from a score above the level on, until 30 rows in a row are usual, or more than half
// of 200. Usual are scores up to the 99 % quantile, or up to where runs of the tail begin (u), if that is lower. What is usual while it is open is what was
// usual when it opened: a fault that lasts becomes part of what is known of scores, and is over when it is over.
//
// Where rows of many series come in no order, those that have more than 50 first are few, and do not tell how high others go: of a thousand rows and more, no level is known
// until 400 have been judged.
//
// A Watch by a lower level, that of the highest eighth of runs, tells the learner which series to hold (Held). With what is accepted
// the learner begins again, if it is the whole stream's. Otherwise it joins the moments with as much weight as all others have together, and so do its later
// rows: one of many series is as usual as they are, and stays so. An evaluator is frozen then, and says
// so of the series. Who keeps states of series begins the one of an open episode again (Evaluator.AcceptedSince).
//
// # Causes
//
// Of the numbers of a column a series keeps, while it is not in an episode, the mean step |x′ − x′ of the row before| at 1/1000, which begins at what is usual of v,
// and a slow mean of x′ at 1/200, which begins at m₂; of its first rows both are quicker, at 1/(rows + 20). Where an episode opens, the slow mean is what the column
// was before. Four means are taken of a column, once over all rows of the episode up to its end (Ends), the first one too, each by the fourth power of its score
// (Ranked), and once over the last ones, where a row weighs 1/7 at least (Now): of
//
//	noise    ½ step / mean step + ½ |x′−m₁| / usual v; both are divided by at least s/20
//	square   (x′−before′)², by its root; before′ is cut as x is, by each version
//	shift    x′−before′
//	strange  (P u)²/P_kk, with u = (x′−before′)/s and P the inverse of the covariance of x′; for the first row both are of m₁
//
// Columns that have changed most come first, by 1.5 log(1 + noise) + log(1 + √square/s). Now is what is before′ + shift when it has entered: a version that comes
// meanwhile may have another s. A column is quiet if its noise is
// below 1/10 (rows/100 of the first 10; 1/5 over more than 30 rows of a whole episode, whose first and last are not quiet), its usual v above s/20, and (1−noise)
// times that is more than three standard deviations of v, or Now knows 200 rows in which it hardly moved; 1.5 log(1 + how many) is then added to its rank.
// What is now so far away that it is cut has such a rank, but is not called quiet, as its noise is cut with it.
// Otherwise it is noisy if its noise is above 1 and its shift less than twice its usual v (at least s/20), or its shift less than half of √square; else it
// went up, or down. Its onset is the first row that is further than 3 usual v from before, or whose noise is above 3, for Now the first behind any five that are not;
// before the episode, where m₁ is so far from m₂ at its first row that a step some rows ago explains both. That of a quiet one is for Now since when its steps are below
// 1/5 of the mean step.
//
// Where no column is quiet or has so high a rank as 2.5 + 0.5/√rows, and √strange of one is more than 1.75, a relation has broken: columns come by strange instead.
// A column that no longer follows the others, with each in its range, was named first in none of 24 plants, and is in 22 after 31 rows. On the given third of the
// wild board it is the same: of the columns that 71 faults have, 41 and 82 % (smd, asd) are named, and the first is guilty as often. A share of strange in every rank
// cost more there than it gained in plants.
//
// A column that has changed for good is part of an episode as long as it is open. Now ranks columns by what they have changed lately, if one has: the square is of
// x′−before′ less its mean in the episode at 1/500, from 0. Before, now and direction are as without.
//
// While an episode is open, other columns may become those that have changed most: Moved tells when, by 0.2 in the rank for three rows running, and of one that was
// told not before 50 rows are over, but not where none has so high a rank, and no relation has broken: as behind a fault, before the episode is over.
//
// The choice of the charts, rates and weights, with what else was tried, is in docs/quality.md.
package recent
