package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/system"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/learn"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// The algorithms of --algorithm that are no model of the paper.
const (
	stochastic = "stochastic"       // the learner of the live stream
	search     = "lca-gauss-search" // chooses among candidates by rows that are held back
	local      = "lca-local"        // LCA with a covariance for each point, which is no snapshot
)

// algorithms are the values of --algorithm: the models of the paper have their own names, with hyphens.
func algorithms() []string {
	all := []string{stochastic}
	for _, kind := range batchKinds() {
		all = append(all, algorithmOf(kind))
	}
	return append(all, search, local)
}

// batchKinds are the models that a batch algorithm can fit.
func batchKinds() []lca.Kind {
	return slices.DeleteFunc(lca.Kinds(), func(k lca.Kind) bool { return k == lca.KindAuto })
}

func algorithmOf(kind lca.Kind) string { return strings.ReplaceAll(kind.String(), "_", "-") }

// batchKind returns the model that a batch algorithm of --algorithm fits; false: it is not a batch algorithm.
func batchKind(algorithm string) (lca.Kind, bool) {
	switch algorithm {
	case search:
		return lca.KindLCAGaussRed, true
	case local:
		return lca.KindLCA, true
	}
	for _, kind := range batchKinds() {
		if algorithmOf(kind) == algorithm {
			return kind, true
		}
	}
	return 0, false
}

// batchFlags are the flags of replay that only a batch algorithm reads.
type batchFlags struct {
	sample    int
	fresh     int
	tolerance float64
	precision string
	subsample bool
	smoothing float64
}

func (f *batchFlags) add(flags *pflag.FlagSet) {
	flags.IntVar(&f.sample, "sample", 0, fmt.Sprintf("most `ROWS` a batch algorithm or --tune takes; default %d, of %s and --tune %d", batchRows, local, fewRows))
	flags.IntVar(&f.fresh, "fresh", 0, "last `ROWS` of the sample that judge the candidates of "+search+" and are not learnt; 0 = a fifth")
	flags.Float64Var(&f.tolerance, "tolerance", 1e-6, "a batch algorithm has converged when a step gains less than this `NLL`, nats/row; 0 = never, which wants --passes")
	flags.StringVar(&f.precision, "precision", lca.Float64.String(), "`TYPE` of a batch algorithm's E-step: "+app.Either(lca.Precisions()...))
	flags.BoolVar(&f.subsample, "subsample", false,
		"a batch algorithm takes steps of minibatch.rows rows against lca.neighbours others drawn again for each step, into a running C_L by lca.gamma")
	flags.Float64Var(&f.smoothing, "smoothing", lca.Auto, "`ROWS` that the shared covariance counts for in the own one of each point ("+local+"); default d+2")
	flags.Lookup("smoothing").DefValue = "0" // help would show -1, which means nothing to a reader
}

// The default of --sample. What costs more per row, or is done for every candidate, takes fewer rows.
const (
	batchRows = 10000
	fewRows   = 2000
)

// rows is how many rows are taken at most.
func (f *replayFlags) rows() int {
	switch {
	case f.batch.sample > 0:
		return f.batch.sample
	case f.algorithm == local || f.tune:
		return fewRows
	}
	return batchRows
}

func (f *batchFlags) check(algorithm string, passes int) error {
	if f.sample < 2 && f.sample != 0 {
		return fmt.Errorf("--sample is %d; want at least 2 rows", f.sample)
	}
	if f.smoothing != lca.Auto && (!(f.smoothing >= 0) || algorithm != local) {
		return fmt.Errorf("--smoothing is %v for %s; want 0 or more rows, and --algorithm %s", f.smoothing, algorithm, local)
	}
	if f.fresh < 0 || (f.fresh > 0 && algorithm != search) {
		return fmt.Errorf("--fresh is %d for %s; want 0 or more rows, and --algorithm %s", f.fresh, algorithm, search)
	}
	if !(f.tolerance >= 0) || (f.tolerance == 0 && passes <= 0) {
		return fmt.Errorf("--tolerance is %v; want more than 0, or 0 and --passes, which then are all made", f.tolerance)
	}
	if _, err := lca.ParsePrecision(f.precision); err != nil {
		return fmt.Errorf("--precision is %q; want float64 or float32", f.precision)
	}
	if kind, _ := batchKind(algorithm); f.subsample && (kind != lca.KindLCA && kind != lca.KindLCAGauss) {
		return fmt.Errorf("--subsample is for the algorithms lca and lca-gauss, not %s", algorithm)
	}
	return nil
}

// sampled is the rows that a batch algorithm takes.
type sampled struct {
	x          *mat.Dense
	partitions []int32 // of each row
	features   []string
	seen       uint64 // rows that they were drawn from
	unusable   learn.Unusable
}

// sample reads the range.
func (r *replay) sample(ctx context.Context) (*sampled, error) {
	if r.config.Model.By.Keyed() {
		return r.sampleOfOne(ctx)
	}
	stage := &learn.Sample{Columns: r.config.Source.Features, Series: system.SeriesOf(r.config), Rows: r.flags.rows(), Stats: r.stats, Log: r.log}
	loop := &pipeline.Loop{Source: r.watched(), Stage: stage, Sink: discard{}, Stats: r.stats, Log: r.log}
	if err := errors.Join(loop.Run(ctx), ctx.Err()); err != nil {
		return nil, err
	}
	x, features, seen, err := stage.Matrix()
	return &sampled{x: x, partitions: stage.Partitions(), features: features, seen: seen, unusable: stage.Unusable}, err
}

// batch fits one of the paper's algorithms to a sample of the range.
func (r *replay) batch(ctx context.Context) (*refit, error) {
	rows, err := r.sample(ctx)
	if err != nil {
		return nil, err
	}
	x, features, seen := rows.x, rows.features, rows.seen
	fit, err := r.fitConfig(len(features))
	if err != nil {
		return nil, err
	}
	iterations := 0
	fit.Trace = func(i lca.Iteration) {
		iterations = max(iterations, i.Iter)
		r.progress.iteration(i)
	}
	m, err := r.fit(ctx, x, fit)
	if err != nil {
		return nil, err
	}
	m.Info.Rows = seen
	s := &snapshot.Snapshot{
		Model: m, ModelID: r.config.Snapshot.ModelID, Version: seen, Features: features,
		Offsets: r.end, Producer: app.Producer(),
	}
	n, _ := x.Dims()
	return &refit{snapshot: s, passes: iterations, rows: seen, learnt: uint64(n), unusable: rows.unusable}, nil
}

// fitConfig returns the configuration of a batch fit of dim features, from the configuration and the flags.
func (r *replay) fitConfig(dim int) (lca.Config, error) {
	learner, err := r.config.Learner(dim)
	if err != nil {
		return lca.Config{}, err
	}
	fit, f := learner.Fit(), &r.flags.batch
	fit.Kind, _ = batchKind(r.flags.algorithm)
	fit.MaxIter, fit.Tol = max(r.flags.passes, 0), f.tolerance
	if fit.Tol == 0 {
		fit.Tol = -1 // never converged, so that all passes are made
	}
	if fit.Precision, err = lca.ParsePrecision(f.precision); err != nil {
		return lca.Config{}, err
	}
	if f.subsample {
		fit.Minibatch, fit.Neighbours, fit.Gamma = learner.Minibatch, learner.Neighbours, learner.Gamma
	}
	return fit, nil
}

// fit runs the algorithm. For an algorithm that compares candidates it holds the last rows of x back.
func (r *replay) fit(ctx context.Context, x *mat.Dense, c lca.Config) (*lca.Model, error) {
	if r.flags.algorithm != search {
		return lca.Fit(ctx, x, c)
	}
	n, d := x.Dims()
	fresh := r.flags.batch.fresh
	if fresh == 0 {
		fresh = n / 5
	}
	if fresh < 1 || n-fresh < 2 {
		return nil, fmt.Errorf("%d rows are too few to hold %d back", n, fresh)
	}
	train, judges := x.Slice(0, n-fresh, 0, d).(*mat.Dense), x.Slice(n-fresh, n, 0, d).(*mat.Dense)
	m, candidates, err := lca.Search(ctx, train, judges, c)
	for _, k := range candidates {
		r.log.Info("candidate", "start", k.Name, "fresh_nll", k.NLL, "d_parzen", k.Parzen)
	}
	return m, err
}
