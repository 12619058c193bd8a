package main

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/lca-stream/lca-stream/internal/demo"
)

// screen shows the demo's progress: one living line on a terminal, a line now and then elsewhere,
// and nothing at all with --json.
type screen struct {
	out    io.Writer
	quiet  bool
	system *system
	bar    *progressbar.ProgressBar
	last   time.Time
}

func newScreen(p *program, f demoFlags, s *system) *screen {
	sc := &screen{out: p.stderr, quiet: f.json, system: s}
	if !f.json && isTerminal(p.stderr) {
		sc.bar = progressbar.NewOptions(f.rows+judgeRows, progressbar.OptionSetWriter(p.stderr),
			progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("rows"),
			progressbar.OptionSetPredictTime(true), progressbar.OptionFullWidth(), progressbar.OptionClearOnFinish())
	}
	return sc
}

func (s *screen) begin(stream *demo.Stream) {
	if s.quiet {
		return
	}
	fmt.Fprintf(s.out, "Streaming %s (%d columns) through an embedded broker.\n", stream.About, stream.Dim)
	if page := s.system.status; page != nil { // --http "" wants none
		fmt.Fprintf(s.out, "Live page: http://%s/\n", page.Addr())
	}
}

// progress is called many times a second.
func (s *screen) progress(rows, of int) {
	if s.quiet {
		return
	}
	now := time.Now()
	if s.bar != nil {
		s.bar.Describe(s.mind())
		_ = s.bar.Set(min(rows, of))
		return
	}
	if now.Sub(s.last) >= 2*time.Second {
		s.last = now
		fmt.Fprintf(s.out, "%d of %d rows whitened; %s\n", rows, of, s.mind())
	}
}

// mind is what the learner thinks at the moment.
func (s *screen) mind() string {
	text := "warming up"
	if l := s.system.stats.Learning(); l != nil && !math.IsNaN(l.NLL) {
		text = fmt.Sprintf("%d rows learnt, NLL %.2f (Gaussian %.2f)", l.Version, l.NLL, l.GaussianNLL)
	}
	if m := s.system.stats.InForce(); m != nil {
		text += fmt.Sprintf(", %d Parzen + %d Gaussian, version %d", m.Model.Parzen(), m.Model.Gaussian(), m.Version)
	}
	return text
}

func (s *screen) end() {
	if s.bar != nil {
		_ = s.bar.Finish()
	}
}
