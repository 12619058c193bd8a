package learn

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/source"
)

// young reports whether what is published is a young model, if anything is: its successor is the first by rows, and its parent is none.
func (l *Learn) young() bool { return l.learner != nil && l.state.Parent <= l.state.Base && l.waits() }

// publishYoung is publish of a young model.
func (l *Learn) publishYoung() error {
	if err := l.beginSnapshot(l.learner.FreezeYoung, false); err != nil {
		return err
	}
	return l.endSnapshot()
}

// waiting returns what the first model waits for, nil if there is a model.
func (l *Learn) waiting() *stats.Waiting {
	switch {
	case l.state.Published > 0 && !l.young():
		return nil
	case l.historyLeft() > 0:
		return &stats.Waiting{Kind: stats.WaitsForHistory, Reason: fmt.Sprintf("the history is learnt first, %s left of it", plural.Are(l.historyLeft(), "record"))}
	case l.learner == nil && l.unusable.First != nil:
		return &stats.Waiting{Kind: stats.WaitsForUsableMessages, Reason: l.unusable.text()}
	case l.learner == nil:
		return &stats.Waiting{Kind: stats.WaitsForMessages, Reason: "no message with rows has come"}
	}
	is, waits := l.learner.Waiting()
	if !waits {
		return nil
	}
	// The learner takes whole minibatches.
	missing, minibatch := is.Wanted-is.Rows, l.batcher.Rows()
	w := &stats.Waiting{Kind: stats.WaitsForRows, Rows: is.Rows + l.batcher.Len(), Wanted: is.Rows + (missing+minibatch-1)/minibatch*minibatch}
	switch {
	case is.Constant:
		w.Rows, w.Wanted = is.Rows, is.Wanted
		w.Kind, w.Reason = stats.WaitsForVariation, "no column varies: a model comes once one does, or after source.features names others (`lca-stream inspect` shows what they hold)"
	case is.Gap > 0:
		w.Kind, w.Reason = stats.WaitsForIndependentRows, fmt.Sprintf("rows are autocorrelated over %s, so more are needed", plural.Count(is.Gap, "row"))
	case l.unusable.Rows+l.unusable.Records > 0:
		w.Kind, w.Reason = stats.WaitsForValidRows, l.unusable.text()
	}
	return w
}

// text says what could not be learnt from.
func (p *Unusable) text() string {
	var said []string
	if p.Records > 0 {
		first := p.First.Error()
		said = append(said, fmt.Sprintf("messages that cannot be learnt from: %d, the first: %s", p.Records, strings.ToValidUTF8(first[:min(len(first), reject.WhyBytes)], "")))
	}
	if p.Rows > 0 {
		said = append(said, fmt.Sprintf("rows with a feature that is null, text, NaN or infinite: %d (`lca-stream inspect` shows which; they are not learnt)", p.Rows))
	}
	if err := p.never(); err != nil {
		said = append(said, err.Error())
	}
	return strings.Join(said, "; ")
}

// warmup is what has been logged about the wait for the first model.
type warmup struct {
	said [stats.WaitingKinds]bool
	last string    // the last line
	at   time.Time // when it was written
}

// warmupEvery is the least time between two lines about the same kind of wait.
const warmupEvery = time.Minute

// say logs how learning goes on. A replay shows that itself.
func (l *Learn) say(now time.Time) {
	if l.Checkpoints != nil {
		l.sayWaiting(now)
		l.skipped.say(l.Log, now, l.skip.k)
	}
}

// sayWaiting shows what the first model waits for. It logs each kind of wait at once, and then at most one change per
// minute.
func (l *Learn) sayWaiting(now time.Time) {
	w := l.waiting()
	l.Stats.SetWaiting(w)
	if w == nil {
		return
	}
	line := w.String()
	if l.warmup.said[w.Kind] && (line == l.warmup.last || now.Sub(l.warmup.at) < warmupEvery) {
		return
	}
	l.warmup.said[w.Kind], l.warmup.last, l.warmup.at = true, line, now
	because := w.Reason
	if because == "" {
		because = "rows are being collected"
	}
	log := l.Log.Info
	if w.Kind == stats.WaitsForUsableMessages || w.Kind == stats.WaitsForValidRows && w.Rows == 0 || w.Kind == stats.WaitsForVariation {
		log = l.Log.Warn // more of the same rows will not do
	}
	text := "there is no model yet"
	if l.shown() > 0 {
		text = "there is no model yet but a young one, which scores the last rows alone"
	}
	log(text, "model_id", l.ModelID, "rows", w.Rows, "wanted", w.Wanted, "because", because)
}

// Unusable counts what a replay read but could not learn from.
type Unusable struct {
	Records uint64              // messages that could not be decoded, or lack a feature
	Rows    uint64              // rows with a feature that is no finite number
	First   *source.RecordError // the first of the records

	messages int              // that could be read
	since    string           // where the first of these is
	lacks    map[string]error // features of which none of these has a number, and what to say of each
}

// neverThere is how many messages may lack a feature, each of them, before it is taken for misspelt, or for no number.
const neverThere = 100

// read notes which features a message lacks, as JSON objects without the key do, or with text there.
func (p *Unusable) read(f *minibatch.Features, rec arrow.Record) {
	if p.messages++; p.messages > 1 && len(p.lacks) == 0 {
		return
	}
	lacks := f.Lacks(rec)
	if p.messages == 1 {
		p.lacks = lacks
	}
	maps.DeleteFunc(p.lacks, func(name string, _ error) bool { return lacks[name] == nil })
}

// never returns an error about the first feature of which no message had a number, nil if there is none.
func (p *Unusable) never() error {
	for _, name := range slices.Sorted(maps.Keys(p.lacks)) {
		return p.lacks[name]
	}
	return nil
}

func (p *Unusable) record(bad *source.RecordError) {
	if p.First == nil {
		p.First = bad
	}
	p.Records++
}

// rows counts the invalid rows of a message.
func (p *Unusable) rows(all, valid int) { p.Rows += uint64(all - valid) }

// nothing returns the error for a replay that found no row to learn from. It says what was found instead.
func (p *Unusable) nothing() *reject.Stop {
	switch {
	case p.First != nil:
		return &reject.Stop{Err: fmt.Errorf("no rows to learn from: %s unusable, the first: %w", plural.Are(p.Records, "message"), p.First)}
	case p.never() != nil:
		return &reject.Stop{Err: fmt.Errorf("no rows to learn from: %w", p.never())}
	case p.Rows > 0:
		return &reject.Stop{Err: fmt.Errorf("no rows to learn from: every row (of %d) has a feature that is null, text, NaN or infinite", p.Rows), Remedy: "name the columns that have numbers in source.features"}
	}
	return &reject.Stop{Err: fmt.Errorf("no rows to learn from"), Remedy: "see what the range holds with --dry-run or inspect"}
}

// named stops at a feature of which none of the first messages has a number, while there is no model: it is misspelt or text, and there will
// never be one.
func (l *Learn) named(m *source.Message) error {
	if l.state.Published > 0 {
		return nil
	}
	if l.unusable.messages == 0 {
		l.unusable.since = fmt.Sprintf("%s at offset %d", m.Partition, m.Offset)
	}
	l.unusable.read(&l.features, m.Record)
	if err := l.unusable.never(); err != nil && l.unusable.messages >= neverThere {
		return &reject.Stop{
			Err:    fmt.Errorf("source.features has a name under which none of %d messages has a number, from %s on: %w", l.unusable.messages, l.unusable.since, err),
			Remedy: "where newer messages have it, begin with them: `lca-stream offsets reset --to TIME` moves a learner that has no model yet, too",
		}
	}
	return nil
}

// WarnLeftOut warns if an empty source.features leaves out numbers of the first message. The choice stands from now on:
// checkpoint and snapshots carry the names.
func WarnLeftOut(log *slog.Logger, f minibatch.Features, leftOut []minibatch.Judgement) {
	if len(leftOut) == 0 {
		return
	}
	reasons := make([]string, len(leftOut))
	for i, j := range leftOut {
		reasons[i] = j.Column.Name + ": " + j.Reason
	}
	log.Warn("source.features is empty, and not every column of numbers is learnt; name the columns to choose others", "learnt", f.Names, "left_out", reasons)
}

// Restart begins another pass over the same rows: the model stays, the offsets go back. What is left of the pass before is
// learnt at once, because the first rows do not follow the last ones.
func (l *Learn) Restart(ctx context.Context, start source.Offsets) error {
	l.acceptRest()
	l.Facts.restart()
	if l.learner != nil {
		if err := l.learnRest(ctx); err != nil {
			return err
		}
		l.released += uint64(l.learner.NextPass())
	}
	l.offsets, l.unusable = start.Clone(), Unusable{}
	return nil
}

// noModel says why the rows of a replay make no model.
func (l *Learn) noModel() *reject.Stop {
	i, features := l.learner.Info(), len(l.features.Names)
	switch w, _ := l.learner.Waiting(); {
	case w.Constant:
		of := "the only feature is"
		if features != 1 {
			of = fmt.Sprintf("all %d features are", features)
		}
		return &reject.Stop{Err: fmt.Errorf("%s constant in %s, up to rounding", of, plural.Count(i.Rows, "row")), Remedy: "name features that vary, in units in which their squares are numbers"}
	case 2*i.Gated > i.Rows:
		return &reject.Stop{Err: fmt.Errorf("%d of %d rows have numbers whose squares are too large", i.Gated, i.Rows), Remedy: "give the features in other units, or leave them out"}
	default:
		return &reject.Stop{Err: fmt.Errorf("%s too few to learn a metric of %s: the first takes %d", plural.Are(i.Rows, "row"), plural.Count(features, "feature"), w.Wanted), Remedy: "replay a longer range, or name fewer features"}
	}
}

// Unusable returns what could not be learnt from since the start or the last Restart.
func (l *Learn) Unusable() Unusable { return l.unusable }

// SetAside counts rows that a replay read and did not learn, over all passes.
type SetAside struct {
	Outliers    uint64 // each is far from all others
	Passing     uint64 // of changes that did not last
	Unconfirmed uint64 // of a change that the range ends with, before it could be believed
}

// SetAside returns what a replay has not learnt.
func (l *Learn) SetAside() SetAside {
	if l.learner == nil {
		return SetAside{}
	}
	dropped, waiting := l.learner.NotLearnt()
	return SetAside{Outliers: l.learner.Info().Gated - l.released, Passing: l.released + dropped, Unconfirmed: uint64(l.learner.Quarantined()) + waiting}
}
