package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/source"
)

// replayScreen shows how far a replay is: a bar with rows/s and ETA on a terminal, a JSON line every
// two seconds elsewhere.
type replayScreen struct {
	out    io.Writer
	replay *replay
	bar    *progressbar.ProgressBar
	start  time.Time
	last   time.Time
	rows   uint64
	iter   *lca.Iteration
}

func newReplayScreen(p *program, r *replay) *replayScreen {
	s := &replayScreen{out: p.stderr, replay: r, start: time.Now(), last: time.Now()}
	if isTerminal(p.stderr) {
		total := r.rows
		if total == 0 {
			total = -1 // a spinner: the number of rows in a topic is not known beforehand
		}
		s.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(p.stderr), progressbar.OptionShowIts(),
			progressbar.OptionSetItsString("rows"), progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true),
			progressbar.OptionFullWidth(), progressbar.OptionClearOnFinish())
	}
	return s
}

// watched is the replay's source with its progress shown.
func (r *replay) watched() pipeline.Source {
	return &watchedSource{Source: r.source, screen: r.progress}
}

type watchedSource struct {
	pipeline.Source
	screen *replayScreen
}

// Read counts what it hands on.
func (w *watchedSource) Read(ctx context.Context) (source.Batch, error) {
	b, err := w.Source.Read(ctx)
	w.screen.read(&b)
	return b, err
}

func (s *replayScreen) read(b *source.Batch) {
	s.rows += uint64(b.Rows())
	if s.bar != nil {
		s.bar.Describe(s.mind())
		_ = s.bar.Set64(int64(s.rows))
		return
	}
	s.line()
}

// iteration shows one step of a batch fit.
func (s *replayScreen) iteration(i lca.Iteration) {
	s.iter = &i
	if s.bar != nil {
		s.bar.Describe(s.mind())
		return
	}
	s.line()
}

// line prints progress for programs, at most every two seconds.
func (s *replayScreen) line() {
	if time.Since(s.last) < 2*time.Second {
		return
	}
	s.last = time.Now()
	seconds := time.Since(s.start).Seconds()
	line := map[string]any{"rows": s.rows, "rows_per_second": math.Round(float64(s.rows) / seconds), "seconds": math.Round(seconds)}
	if s.iter != nil {
		line["run"], line["iteration"], line["nll"] = s.iter.Run, s.iter.Iter, s.iter.NLL
		line["d_gaussian"], line["d_parzen"] = s.iter.Gaussian, s.iter.Parzen
	} else if l := s.replay.stats.Learning(); l != nil && !math.IsNaN(l.NLL) {
		line["nll"] = l.NLL
	}
	_ = json.NewEncoder(s.out).Encode(line)
}

func (s *replayScreen) mind() string {
	if i := s.iter; i != nil {
		return fmt.Sprintf("iteration %d: NLL %.4f, %d Parzen + %d Gaussian", i.Iter, i.NLL, i.Parzen, i.Gaussian)
	}
	if l := s.replay.stats.Learning(); l != nil && !math.IsNaN(l.NLL) {
		return fmt.Sprintf("NLL %.4f", l.NLL)
	}
	return "reading"
}

func (s *replayScreen) end() {
	if s.bar != nil {
		_ = s.bar.Finish()
	}
}
