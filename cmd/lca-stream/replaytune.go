package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
)

// tune chooses ν and ν_g by rows that are held out, and puts them into the configuration.
func (r *replay) tune(ctx context.Context) error {
	start := time.Now()
	rows, err := r.sample(ctx)
	if err != nil {
		return err
	}
	r.warnUnusable(rows.unusable)
	learner, err := r.config.Learner(len(rows.features))
	if err != nil {
		return err
	}
	h, err := r.holdOut(rows)
	if err != nil {
		return err
	}
	c, err := r.fitConfig(len(rows.features))
	if err != nil {
		return err
	}
	c.Nu, c.NuGaussian, c.NuUnit = c.Preset.Resolve(c.Nu, c.NuGaussian, c.NuUnit)
	train, fresh := rowsOf(rows.x, h.train), rowsOf(rows.x, h.fresh)
	grid, score := tuneGrid(), r.scoreBatch(train, fresh)
	if r.flags.algorithm == stochastic {
		c.Kind = learner.Kind
		score = r.scoreOnline(learner, train, fresh, partitionsOf(rows.partitions, h.train))
	}
	if c.Kind == lca.KindLCA {
		grid.NuGaussian = nil // it has no Gaussian part
	}
	best, tried, err := lca.TuneBy(ctx, c, grid, score)
	if err != nil {
		return err
	}
	r.config.LCA.NuGaussian, r.config.LCA.Nu, r.config.LCA.NuUnit = best.NuGaussian, best.Nu, best.NuUnit
	r.tuning = &tuning{
		Rows: rows.seen, Train: len(h.train), Fresh: len(h.fresh), Blocks: h.blocks(), Margin: h.margin, Copies: h.copies,
		Candidates: r.candidates(tried, h), NuGaussian: best.NuGaussian, NuUnit: best.NuUnit.String(), Seconds: time.Since(start).Seconds(),
	}
	r.tuning.conclude(best)
	r.tuning.Note = r.note(best, grid)
	return nil
}

func (r *replay) holdOut(rows *sampled) (*holdOut, error) {
	n, _ := rows.x.Dims()
	gap := likeness(rows.x, rows.partitions)
	h, err := newHoldOut(n, gap)
	if err != nil {
		return nil, err
	}
	if h.margin < gap {
		r.log.Warn("rows are alike for longer than blocks can be kept apart: the differences between candidates may be too good for a small ν",
			"alike_rows", gap, "margin_rows", h.margin)
	}
	if r.config.LCA.NearCopies {
		h.dropCopies(rows.x)
	}
	if len(h.fresh) == 0 {
		return nil, errors.New("all rows that were held out are copies of others; lca.near_copies: false takes copies for rows of their own")
	}
	return h, nil
}

// scoreBatch fits a batch algorithm.
func (r *replay) scoreBatch(train, fresh *mat.Dense) func(context.Context, lca.Config) ([]float64, error) {
	return func(ctx context.Context, c lca.Config) ([]float64, error) {
		c.Trace = r.progress.iteration
		if r.flags.algorithm == local && c.Kind == lca.KindLCA {
			l := lca.LocalConfig{Smoothing: r.flags.batch.smoothing, Shared: c, MaxIter: c.MaxIter, Tol: c.Tol}
			l.Shared.MaxIter = 0
			m, err := lca.FitLocal(ctx, train, l)
			if err != nil {
				return nil, err
			}
			return negative(m.LogDensity(nil, fresh)), nil
		}
		m, err := lca.Fit(ctx, train, c)
		if err != nil {
			return nil, err
		}
		return negative(m.LogDensity(nil, fresh)), nil
	}
}

// scoreOnline runs the learner of the stream over the rows, for each pass. The single Gaussian, by which ν_g is chosen, is fitted.
func (r *replay) scoreOnline(base online.Config, train, fresh *mat.Dense, partitions []int32) func(context.Context, lca.Config) ([]float64, error) {
	n, d := train.Dims()
	base.Finite, base.PassRowsCap = true, n
	gaussian := r.scoreBatch(train, fresh)
	ids := make([]uint64, n)
	for i := range ids {
		ids[i] = uint64(i)
	}
	return func(ctx context.Context, c lca.Config) ([]float64, error) {
		if c.Kind == lca.KindGaussian {
			return gaussian(ctx, c)
		}
		base := base
		base.Nu, base.NuGaussian, base.NuUnit = c.Nu, c.NuGaussian, c.NuUnit
		learner, err := online.NewLearner(base)
		if err != nil {
			return nil, err
		}
		for pass := range max(r.flags.passes, 1) {
			if pass > 0 {
				learner.NextPass()
			}
			for from := 0; from < n; from += base.Minibatch {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				to := min(from+base.Minibatch, n)
				if _, err := learner.Learn(train.Slice(from, to, 0, d).(*mat.Dense), ids[from:to], partitions[from:to]); err != nil {
					return nil, err
				}
			}
		}
		m, err := learner.Model()
		if errors.Is(err, online.ErrWarmup) {
			if _, err = learner.EndOfSet(); err == nil {
				m, err = learner.Model()
			}
		}
		if errors.Is(err, online.ErrWarmup) {
			return nil, fmt.Errorf("%d rows are too few for the learner's first model: raise --sample: %w", n, err)
		}
		if err != nil {
			return nil, err
		}
		return negative(m.LogDensity(nil, fresh)), nil
	}
}

// tuneGrid is what --tune tries. 0 is not among it: a column of few values then has a density without bound on each of them, in rows
// that were held out too.
func tuneGrid() lca.TuneGrid {
	return lca.TuneGrid{
		Nu:         []float64{3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1},
		NuGaussian: []float64{1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2},
	}
}

func negative(logs []float64) []float64 {
	for i := range logs {
		logs[i] = -logs[i]
	}
	return logs
}

func rowsOf(x *mat.Dense, rows []int) *mat.Dense {
	_, d := x.Dims()
	out := mat.NewDense(len(rows), d, nil)
	for i, row := range rows {
		out.SetRow(i, x.RawRowView(row))
	}
	return out
}

func partitionsOf(all []int32, rows []int) []int32 {
	out := make([]int32, len(rows))
	for i, row := range rows {
		out[i] = all[row]
	}
	return out
}

// tuned is tune with its report. What it has read is read again for a snapshot.
func (r *replay) tuned(ctx context.Context, stdout io.Writer) error {
	if err := errors.Join(r.tune(ctx), ctx.Err()); err != nil {
		return err
	}
	if r.flags.output == "" {
		r.progress.end()
		if r.flags.json {
			return json.NewEncoder(stdout).Encode(r.tuning)
		}
		return r.tuning.write(stdout)
	}
	if !r.flags.json {
		if err := r.tuning.write(stdout); err != nil {
			return err
		}
	}
	return r.source.Seek(ctx, r.start)
}
