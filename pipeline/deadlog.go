package pipeline

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/lca-stream/lca-stream/internal/logs"
	"github.com/lca-stream/lca-stream/source"
)

// DeadLog says which messages are set aside: the first of each reason, and then of each reason one line a
// minute, with the last message and how many there were since the line before. All partitions of a
// process share one; nil says nothing. There are as many lines as reasons, see recordCodes.
type DeadLog struct {
	Log *slog.Logger
	Now func() time.Time

	mu   sync.Mutex
	said map[string]*deadLines // by reason
}

type deadLines struct {
	at   time.Time // of the last line
	held uint64    // dead letters since
}

// deadEvery is how long a reason stays silent between two lines.
const deadEvery = time.Minute

// setAside is how many messages of a batch were set aside for a reason, and the last of them.
type setAside struct {
	reason    string
	n         uint64
	partition source.Partition
	offset    int64
	err       error
}

// dead counts one more.
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

// say says what was set aside, now that it is committed.
func (l *DeadLog) say(s setAside) {
	if l == nil {
		return
	}
	records, says := l.since(s)
	if !says {
		return
	}
	why := s.err.Error()
	l.Log.WarnContext(logs.Unlimited(context.Background()), "messages are set aside on dead_letter.topic", "reason", s.reason, "messages", records,
		"last_partition", s.partition.String(), "last_offset", s.offset, "last_error", strings.ToValidUTF8(why[:min(len(why), whyBytes)], ""))
}

// since is how many there were since the last line, if it is time for one.
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
