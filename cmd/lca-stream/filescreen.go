package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/schollz/progressbar/v3"
)

// fileScreen shows how many rows have been read: on a terminal a spinner with rows per second, elsewhere a JSON line every two seconds.
type fileScreen struct {
	out         io.Writer
	bar         *progressbar.ProgressBar
	start, last time.Time
	read        int64
}

// newFileScreen shows nothing unless standard error is a terminal.
func newFileScreen(p *program) *fileScreen {
	s := &fileScreen{out: p.stderr, start: time.Now(), last: time.Now()}
	if isTerminal(p.stderr) {
		s.bar = newBar(p.stderr, 0)
	}
	return s
}

// rows counts rows that have been read.
func (s *fileScreen) rows(n int64) {
	s.read += n
	seconds := time.Since(s.start).Seconds()
	if s.bar != nil {
		s.bar.Describe(fmt.Sprintf("%d rows, %.0f/s", s.read, float64(s.read)/seconds))
		_ = s.bar.Set64(s.read)
		return
	}
	if time.Since(s.last) < 2*time.Second {
		return
	}
	s.last = time.Now()
	_ = json.NewEncoder(s.out).Encode(map[string]any{"rows": s.read, "rows_per_second": math.Round(float64(s.read) / seconds), "seconds": math.Round(seconds)})
}

// end takes the bar away.
func (s *fileScreen) end() {
	if s.bar != nil {
		_ = s.bar.Finish()
	}
}
