package pipeline

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/lca-stream/lca-stream/internal/logs"
	"github.com/lca-stream/lca-stream/source"
)

// DeadLog logs which messages are set aside: the first of each reason at once, then at most one line a minute for
// each reason, with the last message and the number since the previous line. All partitions of a process share one. A
// nil DeadLog logs nothing. The number of reasons is bounded, see recordCodes.
type DeadLog struct {
	Log *slog.Logger
	Now func() time.Time

	mu   sync.Mutex
	said map[string]*deadLines // by reason
}

type deadLines struct {
	at   time.Time // of the last line
	held uint64    // dead letters since then
}

// deadEvery is the interval between two lines of one reason.
const deadEvery = time.Minute

// setAside is the number of messages of a batch that were set aside for a reason, and the last of them.
type setAside struct {
	reason    string
	n         uint64
	partition source.Partition
	offset    int64
	err       error
}

// dead counts one more dead letter.
func (p *provisional) dead(bad *source.RecordError) {
	now := setAside{bad.Code, 1, bad.Partition, bad.Offset, bad.Err}
	for i := range p.deads {
		if p.deads[i].reason == bad.Code {
			now.n += p.deads[i].n
			p.deads[i] = now
			return
		}
	}
	p.deads = append(p.deads, now)
}

// say logs what was set aside, now that it is committed.
func (l *DeadLog) say(s setAside) {
	if l == nil {
		return
	}
	records, says := l.since(s)
	if !says {
		return
	}
	why := logs.Plain(s.err.Error())
	l.Log.WarnContext(logs.Unlimited(context.Background()), "messages are set aside on dead_letter.topic", "reason", s.reason, "messages", records,
		"last_partition", s.partition.String(), "last_offset", s.offset, "last_error", strings.ToValidUTF8(why[:min(len(why), whyBytes)], ""))
}

// rows logs rows of kept messages that are not whitened, in the same way, with the first of the batch.
func (l *DeadLog) rows(u *unusable) {
	if l == nil {
		return
	}
	n, says := l.since(setAside{reason: "rows/" + u.reason, n: u.n})
	if !says {
		return
	}
	about := []any{"reason", u.reason, "rows", n}
	if u.row >= 0 {
		about = append(about, "example", fmt.Sprintf("%s@%d, row %d", u.partition, u.offset, u.row))
	}
	if some := len(u.features); some > mostNamed {
		about = append(about, "features", fmt.Sprintf("%s, and %d more", strings.Join(u.features[:mostNamed], ", "), some-mostNamed))
	} else if some > 0 {
		about = append(about, "features", strings.Join(u.features, ", "))
	}
	l.Log.WarnContext(logs.Unlimited(context.Background()), "rows are not whitened", about...)
}

// mostNamed is how many features a line names.
const mostNamed = 8

// since returns how many were set aside since the last line, if another line is due.
func (l *DeadLog) since(s setAside) (n uint64, says bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.said == nil {
		l.said = make(map[string]*deadLines)
	}
	now, lines := l.Now(), l.said[s.reason]
	if lines == nil {
		lines = &deadLines{at: now.Add(-deadEvery)}
		l.said[s.reason] = lines
	}
	lines.held += s.n
	if now.Sub(lines.at) < deadEvery {
		return 0, false
	}
	n, lines.held, lines.at = lines.held, 0, now
	return n, true
}
