package reject

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lca-stream/lca-stream/internal/logs"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/source"
)

// DeadLog logs which messages are set aside and which rows are not whitened: the first of each reason at once, then at most one line a minute
// for each reason, with the number since the previous line. What is left when the minute is over is said then, whether more comes or not, and
// a feature that no line has named is said at once. All partitions of a process share one. A nil DeadLog logs nothing. The number of reasons is
// bounded, see RecordCodes.
type DeadLog struct {
	Log *slog.Logger
	Now func() time.Time

	mu   sync.Mutex
	said map[string]*deadLines // by reason

	remedied sync.Once // what to do about records that pass without a model was said
}

// deadLines is what a reason has had.
type deadLines struct {
	at       time.Time                            // of the last line
	held     uint64                               // dead letters or rows since then
	features []string                             // to blame for them
	named    map[string]bool                      // features that a line has named
	write    func(held uint64, features []string) // writes a line about the last of them
	waits    bool                                 // for the end of the minute
}

// deadEvery is the interval between two lines of one reason.
const deadEvery = time.Minute

// SetAside is the number of messages of a batch that were set aside for a reason, and the last of them.
type SetAside struct {
	Reason    string
	N         uint64
	Partition source.Partition
	Offset    int64
	Err       error
}

// Say logs what was set aside, now that it is committed.
func (l *DeadLog) Say(s SetAside) {
	l.hold(s.Reason, s.N, nil, func(held uint64, _ []string) {
		why := logs.Plain(s.Err.Error())
		l.warn("messages are set aside on dead_letter.topic", "reason", s.Reason, "messages", held,
			"last_partition", s.Partition.String(), "last_offset", s.Offset, "last_error", strings.ToValidUTF8(why[:min(len(why), WhyBytes)], ""))
	})
}

// Rows logs rows of kept messages that are not whitened, in the same way, with the first of the last batch.
func (l *DeadLog) Rows(u *Unusable) {
	last := *u
	l.hold("rows/"+u.Reason, u.N, slices.Clone(u.features), func(held uint64, features []string) {
		about := []any{"reason", last.Reason, "rows", held}
		if last.Row >= 0 {
			about = append(about, "example", fmt.Sprintf("%s@%d, row %d", last.Partition, last.Offset, last.Row))
		}
		if some := len(features); some > mostNamed {
			about = append(about, "features", fmt.Sprintf("%s, and %d more", strings.Join(features[:mostNamed], ", "), some-mostNamed))
		} else if some > 0 {
			about = append(about, "features", strings.Join(features, ", "))
		}
		if last.Reason == minibatch.ReasonText.String() {
			about = append(about, "remedy", "send numbers there, without quotes; a column that is text for good is no feature: take it out of source.features")
		}
		l.warn("rows are not whitened", about...)
	})
}

// WithoutModel logs records that pass before there is a model, which is no fault, with the first of the last batch.
func (l *DeadLog) WithoutModel(n uint64, first RecordPlace) {
	l.hold("passed/"+ReasonNoModel, n, nil, func(held uint64, _ []string) {
		about := []any{"records", held, "example", fmt.Sprintf("%s@%d", first.Partition, first.Offset)}
		l.remedied.Do(func() {
			about = append(about, "remedy", "none for values that are new: a model needs their first rows. For a history that is there already run lca-stream replay before; without model.by, transform.until_model: hold waits for the first model")
		})
		l.Log.InfoContext(logs.Unlimited(context.Background()), "records pass with null results: there is no model for their rows yet", about...)
	})
}

func (l *DeadLog) warn(message string, about ...any) {
	l.Log.WarnContext(logs.Unlimited(context.Background()), message, about...)
}

// mostNamed is how many features a line names.
const mostNamed = 8

// hold counts what has come for a reason, and writes a line, or sees to it that one is written when it is due.
func (l *DeadLog) hold(reason string, n uint64, features []string, write func(uint64, []string)) {
	if l == nil {
		return
	}
	l.mu.Lock()
	lines := l.said[reason]
	if lines == nil {
		lines = &deadLines{at: l.Now().Add(-deadEvery), named: map[string]bool{}}
		if l.said == nil {
			l.said = make(map[string]*deadLines)
		}
		l.said[reason] = lines
	}
	line := lines.add(l.Now(), n, features, write)
	if line == nil && !lines.waits {
		l.wait(lines)
	}
	l.mu.Unlock()
	if line != nil {
		line()
	}
}

// wait has the line of what is held written when the minute is over.
func (l *DeadLog) wait(lines *deadLines) {
	lines.waits = true
	time.AfterFunc(deadEvery-l.Now().Sub(lines.at), func() { l.due(lines) })
}

// due writes the line of what is held, or waits on where there was one in between.
func (l *DeadLog) due(lines *deadLines) {
	var line func()
	l.mu.Lock()
	lines.waits = false
	if now := l.Now(); now.Sub(lines.at) >= deadEvery {
		line = lines.line(now)
	} else if lines.held > 0 {
		l.wait(lines)
	}
	l.mu.Unlock()
	if line != nil {
		line()
	}
}

// add returns the line that is due with what has come; nil: none.
func (d *deadLines) add(now time.Time, n uint64, features []string, write func(uint64, []string)) func() {
	d.held += n
	d.write = write
	fresh := false
	for _, name := range features {
		fresh = fresh || !d.named[name]
		if !slices.Contains(d.features, name) {
			d.features = append(d.features, name)
		}
	}
	if !fresh && now.Sub(d.at) < deadEvery {
		return nil
	}
	return d.line(now)
}

// line returns the line of what is held; nil: nothing is.
func (d *deadLines) line(now time.Time) func() {
	if d.held == 0 {
		return nil
	}
	held, features, write := d.held, d.features, d.write
	for _, name := range features {
		d.named[name] = true
	}
	d.held, d.features, d.at = 0, nil, now
	return func() { write(held, features) }
}

// Counted is the number of messages for one reason. There are few reasons at a time.
type Counted struct {
	Reason string
	N      uint64
}

// RecordPlace is where a record is.
type RecordPlace struct {
	Partition source.Partition
	Offset    int64
}

// Unusable is the number of rows for one reason, and where the first of them is.
type Unusable struct {
	Counted
	Partition source.Partition
	Offset    int64
	Row       int
	features  []string // those that are to blame in the first rows; nil: not known
}

// Blame adds the features to blame in one more row.
func (u *Unusable) Blame(features []string) {
	for _, name := range features {
		if !slices.Contains(u.features, name) {
			u.features = append(u.features, name)
		}
	}
}
