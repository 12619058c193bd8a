package online

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
	"github.com/lca-stream/lca-stream/lca/online/internal/watch"
)

const (
	sampleRows   = 1000 // rows that stand for more of them: of the pool for candidates, unless rowsPerColumn asks for more, in a former regime, and to judge a set that has ended; of the stream for the choice
	choiceSurely = 2    // standard errors by which a candidate must be better
	choiceLeast  = 300  // rows that a pool must hold for a choice before it is full
	choiceEarly  = 8    // the first choice is at one row in this many of a full pool
	choiceWait   = 100  // least rows after which a choice takes effect, unless that is half the pool
)

// choices are what the data choose.
type choices struct {
	rowGate
	choice choice
}

// choice lets the data choose what Config leaves to them: ν, its unit and the kernel with lca.PresetDensity, a single
// Gaussian in place of the whole, and d_P. EM hardly ever moves a direction from one part to the other (section 4,
// "Escaping local optima"), and a stream is no better at it. So from time to time candidates are fitted to the pool in the
// background. This starts when the pool holds N/8, N/4, N/2 and N rows, because a young metric may be far worse than
// a single Gaussian, and then when 2N, 4N … rows have been learnt, so that its cost per row goes to zero. Learners of small pools are many, one for
// each key, and a comparison is most of what such a learner costs: after one that changed nothing they wait until the rows have become four times as many.
// The best candidate takes effect when half as many rows more have come, or N/2, if it explains the newest 1000 of them better than the
// current metric by two standard errors. Learn waits at that row for a comparison that has not ended, and so does a checkpoint. So what is learnt
// depends on the rows alone, and not on how fast the comparison was.
//
// A drift alarm drops the comparison, because its rows are from before the change, and with it the settings chosen before.
type choice struct {
	began uint64     // regime.since at the start; 0 = no comparison is running
	rows  pool.Batch // the newest rows since, at most sampleRows
	*comparison
}

// comparison is one in the background, and its outcome.
type comparison struct {
	found  outcome
	done   chan struct{} // closed when found is set; nil when it was restored
	cancel context.CancelFunc
}

// outcome is what a comparison found.
type outcome struct {
	lca.Choice
	best candidate // the one at Taken; unless that is 0
}

// candidate is a metric for the pool.
type candidate struct {
	recipe recipe
	parzen int       // d_P
	cl     []float64 // C_L without ν, dim×dim
}

// Close ends a comparison in the background, and waits for its end. The learner must not be used afterwards.
func (l *Learner) Close() { l.choice.drop() }

// drop cancels the comparison and waits for its end.
func (c *choice) drop() {
	if c.comparison != nil && c.cancel != nil {
		c.cancel()
		<-c.done
	}
	*c = choice{}
}

// Await waits until no comparison in the background is left that Learn of that many rows would wait for, or, of no rows, a checkpoint. Where ctx
// ends before, it returns its error.
func (l *Learner) Await(ctx context.Context, rows int) error {
	c := &l.choice
	if c.began == 0 || c.done == nil || rows > 0 && l.since+uint64(rows) < c.began+l.choiceWait() {
		return nil
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wait returns the comparison's outcome.
func (c *comparison) wait() outcome {
	if c.done != nil {
		<-c.done
	}
	return c.found
}

// stepChoice starts a comparison and ends it, each at its place; b are the rows just learnt, before which since had been learnt and the
// pool held that many.
func (l *choices) stepChoice(b pool.Batch, since uint64, held int, s *Step) (err error) {
	if !l.free.any() {
		return nil
	}
	if held < l.cfg.Neighbours && l.pool.Len() == l.cfg.Neighbours {
		l.choice.drop() // one of a smaller pool: the first of a full one may be due
	}
	if c := &l.choice; c.began > 0 {
		if c.keep(b, l.cfg.Dim); l.since < c.began+l.choiceWait() {
			return nil
		}
		if s.Choice, err = l.endChoice(); err != nil {
			return err
		}
		s.Gaussian, s.Parzen = len(l.metric.Active)-l.metric.parzen, l.metric.parzen
	}
	if l.choiceDue(since, held) && l.open().any() {
		l.startChoice()
	}
	return nil
}

// open returns what a comparison may change now.
func (l *choices) open() freedom {
	if l.fewOfWide() {
		return freedom{}
	}
	return l.free
}

// choiceWait is how many rows after its start a comparison takes effect.
func (l *choices) choiceWait() uint64 {
	return min(max(l.choice.began/2, choiceWait), uint64(l.cfg.Neighbours)/2)
}

// choiceDue reports whether a comparison starts. Before the last minibatch, since rows had been learnt and the pool held that many. The
// first fit may have filled the pool beyond N/8.
func (l *choices) choiceDue(since uint64, held int) bool {
	full, now := l.cfg.Neighbours, l.pool.Len()
	if now < full {
		first := !l.compared()
		return now >= max(choiceLeast, full/choiceEarly) && (first || doubled(uint64(held), uint64(now), uint64(full)/choiceEarly))
	}
	return doubled(since, l.since, uint64(full)) && !l.waits()
}

// waits reports whether the next comparison can wait for another doubling: the pool is small, the last one of a full pool changed nothing, and since it
// began the rows have doubled once.
func (l *choices) waits() bool {
	full, after := uint64(l.cfg.Neighbours), l.counts.Learnt-l.chosen.Rows
	if full >= sampleRows || !l.compared() || l.chosen.Taken != 0 || after >= l.since {
		return false
	}
	began := l.since - after
	return began >= full && bits.Len64(l.since/full) < bits.Len64(began/full)+2
}

// compared reports whether a comparison has ended since the regime began; the choice at the beginning is none.
func (l *choices) compared() bool { return len(l.chosen.Candidates) > 0 && !l.chosen.Beginning() }

// doubled says whether a number has just passed unit·2^k.
func doubled(before, now, unit uint64) bool {
	return bits.Len64(now/unit) > bits.Len64(before/unit)
}

// keep appends rows and forgets the oldest.
func (c *choice) keep(b pool.Batch, dim int) {
	c.rows.Append(b)
	c.rows.Forget(max(0, c.rows.Len()-sampleRows), dim)
}

func (l *choices) startChoice() {
	compared := newContest(l)
	ctx, cancel := context.WithCancel(context.Background())
	c := &comparison{done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(c.done)
		c.found = compared.run(ctx)
	}()
	l.choice = choice{began: l.since, comparison: c}
}

// endChoice ends a comparison: what it found becomes current if the newest rows say so.
func (l *choices) endChoice() (*lca.Choice, error) {
	c := l.choice
	found := c.wait()
	l.choice.drop()
	if found.Taken != 0 {
		adopted, err := l.adopt(found.best, c.rows)
		if err != nil {
			return nil, fmt.Errorf("lca: choice: %w", err)
		}
		if !adopted {
			found.Taken = 0
		}
	}
	l.chosen = found.Choice
	return &found.Choice, nil
}

// EndOfSet ends a set of rows after which no more come. If its rows were too few for a choice of a full pool to take effect, one is made
// now of all rows, and judged by the pool's. It returns nil if there is none to make. If they were too few for a first model, it is made of them (warmup.go).
// The figures of Info are then those of the metric as it has become (prequential.go).
func (l *Learner) EndOfSet() (*lca.Choice, error) {
	made, err := l.lastChoice()
	if err == nil {
		l.judgeSet()
		l.recent.settle()
	}
	return made, err
}

// lastChoice makes the choice of EndOfSet.
func (l *Learner) lastChoice() (*lca.Choice, error) {
	full := uint64(l.cfg.Neighbours)
	if l.metric == nil || l.counts.Minibatches == 0 {
		if few, err := l.endWarmup(); few || err != nil {
			return nil, err
		}
	}
	if l.metric == nil || l.counts.Minibatches == 0 || !l.open().any() {
		return nil, nil
	}
	if l.compared() && (l.since >= full+full/2 || l.chosen.Rows == l.counts.Learnt) {
		return nil, nil
	}
	if l.choice.began < full { // none is running, or one of a smaller pool
		l.choice.drop()
		l.startChoice()
	}
	l.choice.wait()
	l.choice.rows = pool.Batch{}
	l.choice.rows.Append(new(pool.Batch).Sample(l.pool.Batch(), sampleRows, 0, l.cfg.Dim))
	return l.endChoice()
}

// adopt makes a candidate current, unless the rows are not explained better by it.
func (l *choices) adopt(best candidate, rows pool.Batch) (adopted bool, err error) {
	before, was := l.regime, slices.Clone(l.score(rows))
	if err = l.begin(best); err == nil {
		if now := l.score(rows); surelyLower(now, was, l.independent(rows.Len())) {
			if l.drift.nll.Seen < watch.Settle && !l.knowsScores() { // the rows have been learnt: fresh ones may score tens of nats more
				l.drift.nll = watch.Level{}
			} else {
				l.drift.nll.MoveTo(was, now, float64(l.cfg.Minibatch))
			}
			l.setGate(new(pool.Batch).Sample(l.pool.Batch(), gateRows, int(l.gate.turn), l.cfg.Dim))
			return true, nil
		}
	}
	l.setRegime(before)
	return false, err
}

// surelyLower says whether a is below b by two standard errors of their difference, row by row. The rows count as
// independent ones.
func surelyLower(a, b []float64, independent float64) bool {
	mean, squares, n := differences(a, b)
	independent *= n / float64(len(a))
	return independent > 1 && mean < -choiceSurely*math.Sqrt(squares/n/(independent-1))
}

// differences returns the mean of a − b over the n rows that both know, and the sum of the squares from that mean.
func differences(a, b []float64) (mean, squares, n float64) {
	for i := range a {
		if d := a[i] - b[i]; !math.IsNaN(d) {
			n, mean = n+1, mean+d
		}
	}
	mean /= n
	for i := range a {
		if d := a[i] - b[i]; !math.IsNaN(d) {
			squares += float64((d - mean) * (d - mean))
		}
	}
	return mean, squares, n
}
