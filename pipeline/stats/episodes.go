package stats

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/source"
)

const (
	mostOpenShown   = 200 // open episodes that are kept with what is known of them
	mostClosedShown = 50
)

// EpisodeOpened is the reason under which Episodes counts those that were opened; the others are those of closed ones.
const EpisodeOpened = "opened"

// Episodes are those of the partitions that a process transforms.
type Episodes struct {
	mu     sync.Mutex
	count  map[source.Partition]int // that are open
	open   []episode.Record         // as they were said last
	closed []episode.Record         // the last ones
	said   map[string]uint64        // by reason
	traces map[string]*trace        // of open
}

// Say takes what was said of episodes of a partition, and how many are open there now.
func (e *Episodes) Say(of source.Partition, said []episode.Record, open int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.begin()
	e.count[of] = open
	for i := range said {
		e.say(&said[i])
	}
}

func (e *Episodes) begin() {
	if e.count == nil {
		e.count, e.said, e.traces = map[source.Partition]int{}, map[string]uint64{}, map[string]*trace{}
	}
}

func (e *Episodes) say(r *episode.Record) {
	at := slices.IndexFunc(e.open, func(o episode.Record) bool { return o.ID == r.ID })
	switch {
	case r.Type == episode.Closed:
		e.said[*r.Reason]++
		if at >= 0 {
			e.open = slices.Delete(e.open, at, at+1)
			delete(e.traces, r.ID)
		}
		if len(e.closed) == mostClosedShown {
			e.closed = slices.Delete(e.closed, 0, 1)
		}
		e.closed = append(e.closed, *r)
		return
	case r.Type == episode.Opened:
		e.said[EpisodeOpened]++
	}
	switch {
	case at >= 0:
		e.open[at] = *r
	default:
		e.show(*r)
	}
}

// show adds episodes that are open, as many as there is room for.
func (e *Episodes) show(open ...episode.Record) {
	for _, r := range open[:min(len(open), mostOpenShown-len(e.open))] {
		e.open, e.traces[r.ID] = append(e.open, r), new(trace)
	}
}

// Own takes the episodes that are open where a partition is taken over.
func (e *Episodes) Own(of source.Partition, open []episode.Record) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.begin()
	e.leave(func(p source.Partition) bool { return p == of })
	e.count[of] = len(open)
	e.show(open...)
}

// keep lets go of the episodes of partitions that are not owned.
func (e *Episodes) keep(owned []source.Partition) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leave(func(p source.Partition) bool { return !slices.Contains(owned, p) })
}

func (e *Episodes) leave(left func(source.Partition) bool) {
	maps.DeleteFunc(e.count, func(p source.Partition, _ int) bool { return left(p) })
	e.open = slices.DeleteFunc(e.open, func(r episode.Record) bool {
		if !left(source.Partition{Topic: r.Topic, ID: r.Partition}) {
			return false
		}
		delete(e.traces, r.ID)
		return true
	})
}

// Open returns how many episodes are open, and those that are shown, the newest first.
func (e *Episodes) Open() (count int, shown []episode.Record) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, n := range e.count {
		count += n
	}
	shown = append([]episode.Record{}, e.open...)
	slices.SortStableFunc(shown, func(a, b episode.Record) int {
		if a.From.Time == nil || b.From.Time == nil {
			return cmp.Compare(b.From.Offset, a.From.Offset)
		}
		return b.From.Time.Compare(*a.From.Time)
	})
	return count, shown
}

// Closed returns the episodes that were closed last, the newest first.
func (e *Episodes) Closed() []episode.Record {
	e.mu.Lock()
	defer e.mu.Unlock()
	closed := append([]episode.Record{}, e.closed...)
	slices.Reverse(closed)
	return closed
}

// Said returns how many episodes were opened, and closed for each reason; nil: none are watched for.
func (e *Episodes) Said() map[string]uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.count == nil {
		return nil
	}
	all := map[string]uint64{}
	for _, reason := range append([]string{EpisodeOpened}, episode.Reasons...) {
		all[reason] = e.said[reason]
	}
	return all
}
