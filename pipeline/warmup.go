package pipeline

import (
	"fmt"
	"strings"
	"time"
)

// Waiting says why a learner has published no model yet.
type Waiting struct {
	Rows   int    // Rows collected for the first model.
	Wanted int    // Rows that the first model takes; 0 while that is not known, because no usable row has come.
	Reason string // What it waits for, if not only for rows.

	kind waitingKind
}

// String returns it as a sentence.
func (w *Waiting) String() string {
	switch {
	case w.Wanted == 0:
		return "no model yet: " + w.Reason
	case w.Reason == "":
		return fmt.Sprintf("no model yet: %d of %d rows collected", w.Rows, w.Wanted)
	}
	return fmt.Sprintf("no model yet: %d of %d rows collected; %s", w.Rows, w.Wanted, w.Reason)
}

// waitingKind is a Reason without its numbers.
type waitingKind int

const (
	waitsForHistory waitingKind = iota
	waitsForMessages
	waitsForUsableMessages
	waitsForValidRows
	waitsForRows
	waitsForIndependentRows
	waitsForVariation
	waitingKinds
)

// waiting returns what the first model waits for, nil if there is a model.
func (l *Learn) waiting() *Waiting {
	switch {
	case l.state.Published > 0:
		return nil
	case l.historyLeft() > 0:
		return &Waiting{kind: waitsForHistory, Reason: fmt.Sprintf("the history is learnt first, %d records of it are left", l.historyLeft())}
	case l.learner == nil && l.unusable.First != nil:
		return &Waiting{kind: waitsForUsableMessages, Reason: l.unusable.text()}
	case l.learner == nil:
		return &Waiting{kind: waitsForMessages, Reason: "no message with rows has come"}
	}
	is, waits := l.learner.Waiting()
	if !waits {
		return nil
	}
	// The learner takes whole minibatches.
	missing, minibatch := is.Wanted-is.Rows, l.batcher.Rows()
	w := &Waiting{kind: waitsForRows, Rows: is.Rows + l.batcher.Len(), Wanted: is.Rows + (missing+minibatch-1)/minibatch*minibatch}
	switch {
	case is.Constant:
		w.Rows, w.Wanted = is.Rows, is.Wanted
		w.kind, w.Reason = waitsForVariation, "no column varies: a model comes once one does, or after source.features names others (`lca-stream inspect` shows what they hold)"
	case is.Gap > 0:
		w.kind, w.Reason = waitsForIndependentRows, fmt.Sprintf("rows are autocorrelated over %d rows, so more are needed", is.Gap)
	case l.unusable.Rows+l.unusable.Records > 0:
		w.kind, w.Reason = waitsForValidRows, l.unusable.text()
	}
	return w
}

// text says what could not be learnt from.
func (p *Unusable) text() string {
	var said []string
	if p.Records > 0 {
		first := p.First.Error()
		said = append(said, fmt.Sprintf("messages that cannot be learnt from: %d, the first: %s", p.Records, strings.ToValidUTF8(first[:min(len(first), whyBytes)], "")))
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
	said [waitingKinds]bool
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
	if l.warmup.said[w.kind] && (line == l.warmup.last || now.Sub(l.warmup.at) < warmupEvery) {
		return
	}
	l.warmup.said[w.kind], l.warmup.last, l.warmup.at = true, line, now
	because := w.Reason
	if because == "" {
		because = "rows are being collected"
	}
	log := l.Log.Info
	if w.kind == waitsForUsableMessages || w.kind == waitsForValidRows && w.Rows == 0 || w.kind == waitsForVariation {
		log = l.Log.Warn // more of the same rows will not do
	}
	log("there is no model yet", "model_id", l.ModelID, "rows", w.Rows, "wanted", w.Wanted, "because", because)
}
