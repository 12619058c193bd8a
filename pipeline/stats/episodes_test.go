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
