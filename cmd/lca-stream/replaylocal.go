package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// local fits the paper's extension with a covariance for each point to a sample of the range, and writes them to the file of
// --output.
func (r *replay) local(ctx context.Context, stdout io.Writer, start time.Time) error {
	rows, err := r.sample(ctx)
	if err != nil {
		return err
	}
	shared, err := r.fitConfig(len(rows.features))
	if err != nil {
		return err
	}
	c := lca.LocalConfig{Smoothing: r.flags.batch.smoothing, Shared: shared, MaxIter: shared.MaxIter, Tol: shared.Tol, Trace: r.progress.iteration}
	c.Shared.MaxIter = 0 // --passes is for what comes after
	m, err := lca.FitLocal(ctx, rows.x, c)
	if err != nil {
		return err
	}
	r.progress.end()
	r.warnUnusable(rows.unusable)
	var fingerprint string
	err = r.program.writeOutput(r.flags.output, func(w io.Writer) (err error) {
		fingerprint, err = snapshot.WriteLocal(w, &snapshot.Local{Model: m, Rows: rows.x, Features: rows.features, Seen: rows.seen, Producer: producer()})
		return err
	})
	if err != nil {
		return err
	}
	points, _ := rows.x.Dims()
	result := replayResult{
		Rows: rows.seen, Passes: m.Iter, NLL: finite(m.NLL), Parzen: m.Shared.Parzen(), Fingerprint: fingerprint, Seconds: time.Since(start).Seconds(),
		LearntRows: uint64(points), Rejected: rows.unusable.Records, Invalid: rows.unusable.Rows, Tuning: r.tuning,
	}
	if r.flags.json {
		return r.report(stdout, result)
	}
	_, err = fmt.Fprintf(stdout, "%d rows in %.1f s: NLL %s nats/row with a covariance for each of %d points, %s with one for all\npoints and covariances to %s\nfingerprint %s\n",
		result.Rows, result.Seconds, maybe(result.NLL), points, known(m.Shared.Info.NLL), r.target(), fingerprint)
	return err
}
