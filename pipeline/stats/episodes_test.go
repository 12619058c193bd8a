package stats

import (
	"fmt"
	"testing"

	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/source"
)

// Open episodes go with their partition, and what is shown of them is bounded; how many are open is not.
func TestEpisodesOfPartitions(t *testing.T) {
	one, two := source.Partition{Topic: "events", ID: 1}, source.Partition{Topic: "events", ID: 2}
	record := func(of source.Partition, n int, kind string) episode.Record {
		r := episode.Record{Type: kind, ID: fmt.Sprint(of.ID, n), Topic: of.Topic, Partition: of.ID, From: episode.Place{Offset: int64(n)}}
		if kind == episode.Closed {
			reason := episode.Usual
			r.Reason = &reason
		}
		return r
	}
	s := NewStats()
	if s.Episodes.Said() != nil {
		t.Error("nothing is watched for, and said")
	}
	s.Episodes.Own(one, []episode.Record{record(one, 7, episode.Updated)})
	var all []episode.Record
	for i := range 300 {
		all = append(all, record(two, i, episode.Opened))
	}
	s.Episodes.Say(two, all, 300)
	s.Episodes.Say(two, []episode.Record{record(two, 3, episode.Closed), record(two, 250, episode.Closed), record(two, 1, episode.Updated)}, 298)
	count, shown := s.Episodes.Open()
	if said := s.Episodes.Said(); count != 299 || len(shown) != mostOpenShown-1 || said[EpisodeOpened] != 300 || said[episode.Usual] != 2 {
		t.Errorf("%d open, %d shown, %v", count, len(shown), said)
	}
	if closed := s.Episodes.Closed(); len(closed) != 2 || closed[0].ID != "2 250" {
		t.Errorf("%v", closed)
	}
	s.SetOwned("learn", nil)
	s.SetOwned("transform", []source.Partition{one})
	if count, shown = s.Episodes.Open(); count != 1 || len(shown) != 1 || shown[0].ID != "1 7" {
		t.Errorf("after a rebalance: %d open, %v", count, shown)
	}
}

// TestTraces holds that the trace of an open episode spans all its samples in a bounded number of points, and is gone with it.
func TestTraces(t *testing.T) {
	var e Episodes
	of := source.Partition{Topic: "events"}
	one := episode.Record{Type: episode.Opened, ID: "m/0/a/1.0", Topic: "events"}
	e.Say(of, []episode.Record{one}, 1)
	for i := range 10_000 {
		e.Trace(one.ID, []int{2, 5}, []float64{float64(i), -float64(i)})
		e.Trace("another", []int{2}, []float64{1})
	}
	points := e.Traces()[one.ID]
	if len(points) != 2 || len(e.Traces()) != 1 {
		t.Fatal(points)
	}
	for k, all := range points {
		sign := 1 - 2*float64(k)
		if n := len(all); n < mostTraced/2 || n > mostTraced || sign*all[0] > 300 || sign*all[n-1] < 9700 {
			t.Errorf("column %d: %d points from %v to %v", k, n, all[0], all[n-1])
		}
		for i := 1; i < len(all); i++ {
			if step := sign * (all[i] - all[i-1]); step < 1 || step > 300 {
				t.Errorf("column %d: point %d is %v behind the one before", k, i, step)
			}
		}
	}
	e.Trace(one.ID, []int{5, 2}, []float64{1, 2})
	if got := e.Traces()[one.ID]; len(got) != 2 || len(got[0]) != 1 || got[0][0] != 1 {
		t.Errorf("columns in another order are mixed with those before: %v", got)
	}
	reason := episode.Usual
	one.Type, one.Reason = episode.Closed, &reason
	e.Say(of, []episode.Record{one}, 0)
	if len(e.Traces()) > 0 || len(e.traces) > 0 {
		t.Error("the trace of an episode that is closed is kept")
	}
}
