package start

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/source"
)

// A topic of states that was made again, or of which records were deleted, is said of each partition, once. Compaction, and a topic of another name, lose nothing.
func TestLostStatesAreSaid(t *testing.T) {
	for _, c := range []struct {
		name, topic, id string
		begin           int64
		want            string
	}{
		{"the same", "states", "one", 5, ""},
		{"made again", "states", "two", 0, "deleted and created again"},
		{"deleted by age", "states", "one", 6, "records were deleted"},
		{"brokers without ids", "states", "", 5, ""},
		{"another topic", "others", "two", 9, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			town, wrote := newTown(), newWrittenLogs()
			both := []source.Partition{fixtures.Part(0), fixtures.Part(1)}
			topic, id, begin := "states", "one", int64(5)
			open := func() string {
				var text bytes.Buffer
				p := town.positions(source.Earliest, "")
				p.Written, p.Log = wrote.written("out", "dead"), slog.New(slog.NewTextHandler(&text, nil))
				p.States = func(source.Partition) *checkpoint.ReadBack {
					return &checkpoint.ReadBack{
						Topic: topic,
						Begin: func(context.Context) (int64, error) { return begin, nil }, TopicID: func(context.Context) (string, error) { return id, nil },
					}
				}
				for range 2 { // as after an aborted transaction
					if _, err := p.Open(t.Context(), town, source.Claim{Group: "g", Generation: -1}, both); err != nil {
						t.Fatal(err)
					}
				}
				return text.String()
			}
			if said := open(); strings.Contains(said, "series is lost") {
				t.Errorf("at the first start: %s", said)
			}
			town.openWritten(t, wrote) // without transform.recent
			if said := open(); strings.Contains(said, "series is lost") {
				t.Errorf("where there were none: %s", said)
			}
			topic, id, begin = c.topic, c.id, c.begin
			said := open()
			for _, part := range both {
				want := 0
				if c.want != "" {
					want = 1
				}
				if got := strings.Count(said, "partition="+part.String()); got != want || !strings.Contains(said, c.want) {
					t.Errorf("%s is named %d times, want %d, and %q is said: %s", part, got, want, c.want, said)
				}
			}
			if said := open(); strings.Contains(said, "series is lost") {
				t.Errorf("once more: %s", said)
			}
		})
	}
}
