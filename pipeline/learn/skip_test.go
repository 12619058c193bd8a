package learn

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A stream brings some records while a batch is read, and costs times as many while it is learnt besides. With
// a share x learnt it keeps its distance if brings·(1 + costs·x) is a batch, so of 34 it can learn 0.157.
func TestSkipper(t *testing.T) {
	const batch = 50
	for _, c := range []struct {
		name        string
		backlog     int64
		brings      int64 // records that arrive while a batch is read and not learnt
		costs       int64 // how many times as long it takes to learn a batch
		least, most float64
		endsBehind  int64 // at most
		batches     int
	}{
		{"a backlog of a quiet stream", 20000, 0, 3, 1, 1, 0, 1000},
		{"a backlog of a stream that it can follow", 20000, 10, 3, 1, 1, skipBehind, 4000},
		{"a stream that it can follow", 0, 10, 3, 1, 1, skipBehind, 4000},
		{"a stream that is too fast", 0, 34, 3, 0.12, 0.16, 30000, 20000},
		{"and with a backlog", 100000, 34, 3, 0.12, 0.16, 200000, 20000},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s skipper
			lag, read, learnt := c.backlog, int64(0), int64(0)
			for range c.batches {
				n := min(lag, batch)
				s.measure(true, func() int64 { return lag })
				time := int64(1)
				if n > 0 && !s.now() {
					learnt += n
					time += c.costs
				}
				read += n
				lag += c.brings*time - n
			}
			if share := float64(learnt) / float64(max(read, 1)); share < c.least || share > c.most {
				t.Errorf("%.2f of the rows were learnt, want %.2f to %.2f", share, c.least, c.most)
			}
			if lag > c.endsBehind {
				t.Errorf("it ends %d records behind, want %d at most", lag, c.endsBehind)
			}
		})
	}
}

// TestSkippedRowsAreSaid holds the lines about skipped rows: at once, once a minute with the share since then, and the end.
func TestSkippedRowsAreSaid(t *testing.T) {
	var log bytes.Buffer
	logger, now := slog.New(slog.NewTextHandler(&log, nil)), time.UnixMilli(0)
	var s skipped
	for second := range 200 {
		s.learnt += 100
		if second >= 10 && second < 100 {
			s.rows += 300
		}
		s.say(logger, now.Add(time.Duration(second)*time.Second), 2)
	}
	var got []string
	for line := range strings.Lines(log.String()) {
		_, line, _ = strings.Cut(line, "msg=")
		got = append(got, strings.TrimSpace(line[:min(len(line), 160)]))
	}
	for i, want := range []string{"share=\"50 %\" learnt_one_minibatch_in=2", "skipped=18000 learnt=6000 share=\"75 %\"", "skipped=8700 learnt=6000", "keeps up again"} {
		if i >= len(got) || !strings.Contains(got[i], want) {
			t.Errorf("line %d is not about %q\n%s", i, want, &log)
		}
	}
	if len(got) != 4 {
		t.Errorf("%d lines\n%s", len(got), &log)
	}
}
