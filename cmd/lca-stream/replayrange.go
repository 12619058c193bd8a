package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// replay is one refit: where it reads, and where its snapshot goes.
type replay struct {
	program  *program
	flags    replayFlags
	config   *config.Config
	log      *slog.Logger
	stats    *pipeline.Stats
	progress *replayScreen

	system     *system // nil without Kafka
	source     pipeline.Source
	start, end source.Offsets
	rows       int64    // rows in the range; 0 if not known beforehand
	must       []string // features that the rows must have for the snapshot to be published; nil: any
	messages   int64    // messages in the range, counting the gaps that compaction and transactions left
	sampled    bool     // one in --every of it is read, in stretches, instead of one minibatch in --every learnt

	tuning *tuning // with --tune
}

func (r *replay) open(ctx context.Context) error {
	if len(r.flags.inputs) == 0 || r.flags.publishes() {
		var err error
		if r.system, err = newSystem(r.config, r.log, r.stats); err == nil {
			sayRisks(r.config, r.log)
			err = r.system.reach(ctx, lookFor)
			r.system.cluster.Persist(persistFor)
		}
		if err != nil {
			return err
		}
	}
	if len(r.flags.inputs) > 0 {
		return r.openFiles()
	}
	return r.openRange(ctx)
}

func (r *replay) openFiles() error {
	var err error
	if r.flags.inputs, err = rowInputs(r.flags.inputs); err != nil {
		return err
	}
	c := fileLimits(r.config.Memory, r.log)
	c.Need = needs(r.config.Source.Features, r.config.Model.By.ColumnName())
	files, err := source.OpenFiles(r.flags.inputs, c)
	if err != nil {
		return err
	}
	r.source, r.rows = files, files.Rows()
	return nil
}

// openRange resolves --from and --to once, and opens a reader for each partition, merged by time.
func (r *replay) openRange(ctx context.Context) error {
	parts, err := r.system.input(ctx)
	if err != nil {
		return err
	}
	if err := r.resolve(ctx, parts); err != nil {
		return r.system.cluster.Explain(err)
	}
	from := source.Offsets{}
	for p, start := range r.start {
		if start < r.end[p] {
			from[p] = start
			r.messages += r.end[p] - start
		}
	}
	k := source.KafkaConfig{GatherBytes: replayGather}
	if every := int64(min(r.flags.every, 1<<62)); len(from) > 0 && !r.config.Model.By.Keyed() && source.WorthSampling(r.messages/int64(len(from)), every) {
		k.OneIn, r.sampled = every, true
		r.messages /= every
	}
	merged, _, err := r.system.merged(ctx, k, from, r.end)
	if err != nil {
		return err
	}
	r.source = merged
	return nil
}

// replayGather is how much one Read of a partition gathers: a replay has no latency to keep, so that few large
// fetches are best.
const replayGather = 1 << 20

// resolve returns the range of --from and --to: the partitions that both name, within the available offsets. A read
// would wait for an end beyond the last record.
func (r *replay) resolve(ctx context.Context, parts []source.Partition) error {
	from, err := r.system.at(ctx, parts, r.flags.first)
	if err != nil {
		return fmt.Errorf("--from %s: %w", r.flags.from, err)
	}
	to, err := r.system.at(ctx, parts, r.flags.end)
	if err != nil {
		return fmt.Errorf("--to %s: %w", r.flags.to, err)
	}
	first, err := r.system.at(ctx, parts, place{text: "earliest"})
	if err != nil {
		return err
	}
	last, err := r.system.at(ctx, parts, place{text: "latest"})
	if err != nil {
		return err
	}
	r.start, r.end = source.Offsets{}, source.Offsets{}
	for _, p := range parts {
		start, named := from[p]
		end, bounded := to[p]
		if !named || !bounded {
			continue
		}
		r.start[p] = r.within(p, "--from", start, first[p], last[p])
		r.end[p] = max(r.within(p, "--to", end, first[p], last[p]), r.start[p])
	}
	return nil
}

// within warns if an offset on the command line is not available.
func (r *replay) within(p source.Partition, flag string, offset, first, last int64) int64 {
	is := min(max(offset, first), last)
	if is != offset {
		r.log.Warn("the partition does not reach there", "partition", p.String(), flag, offset, "taken", is, "first", first, "end", last)
	}
	return is
}

// describe implements --dry-run.
func (r *replay) describe(w io.Writer) error {
	if len(r.flags.inputs) > 0 {
		_, err := fmt.Fprintf(w, "%d files, %d rows\n", len(r.flags.inputs), r.rows)
		return err
	}
	for _, p := range r.start.Partitions() {
		if _, err := fmt.Fprintf(w, "%s from %d to %d: %d messages\n", p, r.start[p], r.end[p], max(r.end[p]-r.start[p], 0)); err != nil {
			return err
		}
	}
	if r.sampled {
		if _, err := fmt.Fprintf(w, "one in %d of them is read, in stretches\n", r.flags.every); err != nil {
			return err
		}
	}
	what := fmt.Sprintf("model %q", r.config.Snapshot.ModelID)
	if by := r.config.Model.By; by.Keyed() {
		what = fmt.Sprintf("a model for each %s", by)
	}
	_, err := fmt.Fprintf(w, "%d messages at most, for %s by %s, into %s\n", r.messages, what, r.flags.algorithm, r.target())
	return err
}

func (r *replay) target() string {
	switch r.flags.output {
	case "":
	case "-":
		return "standard output"
	default:
		return r.flags.output
	}
	return "topic " + r.config.Snapshot.Topic
}

// write writes the snapshot to a file, whole or not at all, or publishes it in one transaction.
func (r *replay) write(ctx context.Context, s *snapshot.Snapshot) error {
	if r.flags.output != "" {
		return r.program.writeOutput(r.flags.output, func(w io.Writer) error { return snapshot.WriteFile(w, s) })
	}
	_, err := r.system.publish(ctx, s)
	return err
}

func (r *replay) close() {
	if r.source != nil {
		_ = r.source.Close()
	}
	if r.system != nil {
		r.system.cluster.Close()
	}
}
