package demo

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/demo/toy"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/system"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/terminal"
)

// screen shows the demo's progress: on a terminal a few lines that are redrawn, elsewhere a line now and then, and
// with --json nothing.
type screen struct {
	out    io.Writer
	quiet  bool
	live   bool
	width  int // columns of the terminal
	system *system.Process
	last   time.Time
	drawn  int // lines that are on the terminal now
}

func newScreen(p *app.Program, f demoFlags, s *system.Process) *screen {
	sc := &screen{out: p.Stderr, quiet: f.json, system: s}
	if app.IsTerminal(p.Stderr) {
		sc.live, sc.width = !f.json, 80
		if fd, ok := terminal.Unwrap(p.Stderr).(interface{ Fd() uintptr }); ok {
			if w, _, err := term.GetSize(int(fd.Fd())); err == nil && w > 0 {
				sc.width = w
			}
		}
	}
	return sc
}

func (s *screen) begin(stream *toy.Stream, f demoFlags) {
	if s.quiet {
		return
	}
	fmt.Fprint(s.out, opening(stream, f))
	if s.system.Status != nil {
		fmt.Fprintf(s.out, "Live page: http://%s/\n", s.system.Status.Addr())
	}
}

// opening says what will be streamed, and what the learner does not know.
func opening(stream *toy.Stream, f demoFlags) string {
	how := "as fast as it goes"
	if f.pace > 0 {
		how = "over " + f.pace.String()
	}
	return fmt.Sprintf(`Streaming %s rows of %s, and %s more to judge by, %s, through a broker inside this process.
The learner sees %d columns of numbers, and is told neither which of them matter nor that there are %d clusters.
`, thousand(uint64(f.rows)), stream.About, thousand(judgeRows), how, stream.Dim, stream.Clusters)
}

// progress is called many times a second.
func (s *screen) progress(rows, of int) {
	every := 2 * time.Second
	if s.live {
		every = 100 * time.Millisecond
	}
	now := time.Now()
	if s.quiet || now.Sub(s.last) < every {
		return
	}
	s.last = now
	v := s.mind(rows, of)
	if !s.live {
		fmt.Fprintln(s.out, v.line())
		return
	}
	s.wipe()
	lines := v.panel(s.width)
	s.drawn = len(lines)
	fmt.Fprint(s.out, strings.Join(lines, "\n")+"\n")
}

// wipe erases the redrawn lines: it moves up to the first of them, and clears to the end of the screen.
func (s *screen) wipe() {
	if s.drawn > 0 {
		fmt.Fprintf(terminal.Unwrap(s.out), "\x1b[%dA\r\x1b[J", s.drawn)
		s.drawn = 0
	}
}

func (s *screen) end() { s.wipe() }

// view is what the screen shows at one moment.
type view struct {
	rows, of        int
	learnt          uint64
	nll, gaussian   float64 // NaN while the learner warms up
	dParzen, dGauss int
	chosen          bool   // the data have chosen the directions
	version         uint64 // 0: no model yet
	address         string
}

func (s *screen) mind(rows, of int) view {
	v := view{rows: min(rows, of), of: of, nll: math.NaN(), gaussian: math.NaN()}
	if s.system.Status != nil {
		v.address = s.system.Status.Addr()
	}
	if l := s.system.Stats.Learning(); l != nil {
		v.learnt, v.nll, v.gaussian = l.Version, l.NLL, l.GaussianNLL
	}
	if m := s.system.Stats.CurrentModel(); m != nil {
		c := m.Model.Info.Choice
		v.dParzen, v.dGauss, v.version, v.chosen = m.Model.Parzen(), m.Model.Gaussian(), m.Version, c != nil && !c.Beginning()
	}
	return v
}

// fit says how well the model fits.
func (v view) fit() string {
	gain := v.gaussian - v.nll
	switch {
	case math.IsNaN(gain):
		return "collecting the first rows"
	case gain < 0:
		return fmt.Sprintf("%.2f nats per row worse than a single Gaussian, so far", -gain)
	}
	return fmt.Sprintf("%.2f nats per row better than a single Gaussian", gain)
}

// metric says what has been found.
func (v view) metric() string {
	if v.version == 0 {
		return "no model yet"
	}
	if v.dGauss == 0 && !v.chosen {
		return fmt.Sprintf("all %d directions count as structure, so far", v.dParzen)
	}
	return fmt.Sprintf("%d of %d directions carry structure", v.dParzen, v.dParzen+v.dGauss)
}

// line formats the view for a log.
func (v view) line() string {
	if v.version == 0 {
		return fmt.Sprintf("%s rows learnt, no model yet: rows are whitened from the first model on", thousand(v.learnt))
	}
	return fmt.Sprintf("%s of %s rows whitened, %s learnt: %s, %s", thousand(uint64(v.rows)), thousand(uint64(v.of)), thousand(v.learnt), v.metric(), v.fit())
}

// panel formats the view for a terminal. No line is wider than the terminal, because a line that wraps cannot be
// erased.
func (v view) panel(width int) []string {
	done := float64(v.rows) / float64(max(v.of, 1))
	const bar = 24
	full := int(done * bar)
	lines := []string{
		fmt.Sprintf("  whitened   %s%s %3.0f %%   %s of %s", strings.Repeat("█", full), strings.Repeat("░", bar-full), 100*done, thousand(uint64(v.rows)), thousand(uint64(v.of))),
		fmt.Sprintf("  learnt     %s rows", thousand(v.learnt)),
		"  structure  " + v.metric(),
		"  fit        " + v.fit(),
	}
	if v.address != "" {
		lines = append(lines, "  page       http://"+v.address+"/")
	}
	for i, l := range lines {
		if r := []rune(l); len(r) >= width {
			lines[i] = string(r[:max(width-1, 0)])
		}
	}
	return lines
}

// thousand formats a count with commas.
func thousand(n uint64) string {
	digits := strconv.FormatUint(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
