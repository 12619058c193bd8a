package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/system"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/source"
)

// replayScreen shows the progress of a replay: on a terminal a bar with rows/s and ETA, and one for a batch fit's
// steps; elsewhere a JSON line every two seconds.
type replayScreen struct {
	out    io.Writer
	replay *replay
	bar    *progressbar.ProgressBar
	start  time.Time
	last   time.Time
	rows   uint64
	done   int64 // of total
	total  int64 // rows of files, or offsets of a topic, over all passes; 0 = not known
	iter   *lca.Iteration
}

func newReplayScreen(p *app.Program, r *replay) *replayScreen {
	s := &replayScreen{out: p.Stderr, replay: r, start: time.Now(), last: time.Now()}
	passes := int64(1)
	if r.flags.algorithm == stochastic {
		passes = int64(max(r.flags.passes, 1))
	}
	s.total = (r.rows + r.messages) * passes // one of the two is 0
	if app.IsTerminal(p.Stderr) {
		s.bar = app.NewBar(p.Stderr, s.total)
	}
	return s
}

// watched returns the replay's source, with its progress shown.
func (r *replay) watched() pipeline.Source {
	return &watchedSource{Source: r.source, replay: r}
}

type watchedSource struct {
	pipeline.Source
	replay *replay
}

// Read counts the messages that it returns, and refuses the first if its features cannot be published.
func (w *watchedSource) Read(ctx context.Context) (source.Batch, error) {
	b, err := w.Source.Read(ctx)
	w.replay.progress.read(&b)
	if err == nil {
		if err = w.replay.fitsFirst(&b); err != nil {
			b.Release()
		}
	}
	return b, err
}

// fitsFirst compares the features of the first usable record with those that the snapshot must have.
func (r *replay) fitsFirst(b *source.Batch) error {
	for i := 0; i < len(b.Messages) && r.must != nil; i++ {
		rec := b.Messages[i].Record
		if rec == nil || rec.NumRows() == 0 {
			continue
		}
		f, err := minibatch.ResolveRecordWithout(rec, nil, system.SeriesOf(r.config).ColumnName())
		if err != nil {
			continue
		}
		if !slices.Equal(f.Names, r.must) {
			return system.Misfit(r.config.Snapshot.ModelID, r.must, "the rows have", f.Names)
		}
		r.must = nil
	}
	return nil
}

func (s *replayScreen) read(b *source.Batch) {
	rows := b.Rows()
	s.rows += uint64(rows)
	if s.replay.rows > 0 {
		s.done += rows
	} else {
		s.done += int64(len(b.Messages))
	}
	if s.bar != nil {
		s.bar.Describe(fmt.Sprintf("%d rows, %.0f/s, %s", s.rows, float64(s.rows)/time.Since(s.start).Seconds(), s.mind()))
		_ = s.bar.Set64(min(s.done, max(s.total, 1)))
		return
	}
	s.line()
}

// iteration shows one step of a batch fit.
func (s *replayScreen) iteration(i lca.Iteration) {
	if s.bar != nil && s.iter == nil { // all rows are read
		_ = s.bar.Finish()
		s.bar = app.NewBar(s.out, int64(max(s.replay.flags.passes, 0)),
			progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("steps"))
	}
	s.iter = &i
	if s.bar != nil {
		s.bar.Describe(s.mind())
		_ = s.bar.Set(i.Iter)
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
	if s.done > 0 && s.total >= s.done && s.iter == nil {
		line["eta_seconds"] = math.Round(seconds * float64(s.total-s.done) / float64(s.done))
	}
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
		if i.Run > 0 {
			return fmt.Sprintf("run %d: NLL %.4f, %d Parzen + %d Gaussian", i.Run+1, i.NLL, i.Parzen, i.Gaussian)
		}
		return fmt.Sprintf("NLL %.4f, %d Parzen + %d Gaussian", i.NLL, i.Parzen, i.Gaussian)
	}
	if l := s.replay.stats.Learning(); l != nil && !math.IsNaN(l.NLL) {
		return fmt.Sprintf("NLL %.4f", l.NLL)
	}
	return "reading"
}

// more says that the range is read again, in so many passes, for models that there was no memory for.
func (s *replayScreen) more(passes int) {
	s.total += (s.replay.rows + s.replay.messages) * int64(passes)
	if s.bar != nil && s.total > 0 {
		s.bar.ChangeMax64(s.total)
	}
}

func (s *replayScreen) end() {
	if s.bar != nil {
		_ = s.bar.Finish()
	}
}
