package main

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// isGlob reports whether an id stands for several.
func isGlob(id string) bool { return strings.ContainsAny(id, "*?") }

// globOf returns what the ids match that a glob stands for: * is any text, / included, and ? is one character.
func globOf(glob string) *regexp.Regexp {
	text := regexp.QuoteMeta(glob)
	text = strings.ReplaceAll(strings.ReplaceAll(text, `\*`, ".*"), `\?`, ".")
	return regexp.MustCompile("^(?s:" + text + ")$")
}

// snapshotOf reads the chosen snapshot, which must be one.
func snapshotOf(ctx context.Context, p *program, c *choice) (*snapshot.Snapshot, error) {
	all, err := snapshotsOf(ctx, p, c)
	if err != nil {
		return nil, err
	}
	if len(all) > 1 {
		return nil, usageError("--model-id %s stands for %d models, such as %s and %s: name one", c.model, len(all), all[0].ModelID, all[1].ModelID)
	}
	return all[0], nil
}

// snapshotsOf reads the chosen snapshots, of one model or of those that a glob stands for, sorted by id.
func snapshotsOf(ctx context.Context, p *program, c *choice) (all []*snapshot.Snapshot, err error) {
	if c.file != "" {
		s, err := readSnapshotFile(c.file)
		return []*snapshot.Snapshot{s}, err
	}
	one := func(id string, a *snapshot.Assembler) error {
		s, err := pick(a, id, c.version)
		all = append(all, s)
		return err
	}
	err = withSystem(ctx, p, c.options, func(s *system) error {
		id := cmp.Or(c.model, s.config.Snapshot.ModelID)
		if !s.config.Model.By.Keyed() && !isGlob(id) {
			return s.withSnapshots(ctx, func(a *snapshot.Assembler) error { return one(id, a) })
		}
		if c.model == "" {
			return usageError("model.by is %s: say which model with --model-id, such as --model-id '*/NAME'; `lca-stream snapshot list` shows them", s.config.Model.By)
		}
		if err := s.eachSnapshots(ctx, id, one); err != nil || len(all) > 0 {
			return err
		}
		return fmt.Errorf("no whole snapshot on %s has an id like %q; `lca-stream snapshot list` shows them", s.config.Snapshot.Topic, id)
	})
	slices.SortFunc(all, func(a, b *snapshot.Snapshot) int { return strings.Compare(a.ModelID, b.ModelID) })
	return all, err
}

// withSystem connects to the brokers of a configuration, whose snapshot topic must be there.
func withSystem(ctx context.Context, p *program, o *options, use func(*system) error) error {
	s, err := connect(ctx, p, o)
	if err != nil {
		return err
	}
	defer s.close()
	if _, err := s.partitions(ctx, s.config.Snapshot.Topic); err != nil {
		return err
	}
	return s.cluster.Explain(use(s))
}

// withSnapshots reads the whole of a snapshot topic of one partition.
func (s *Models) withSnapshots(ctx context.Context, use func(*snapshot.Assembler) error) error {
	a, err := s.snapshots(ctx, source.LatestStable)
	if err != nil {
		return err
	}
	return use(a)
}

// eachSnapshots reads the models whose ids match, partition by partition, so that no more than those of one are in memory.
// An empty glob matches all.
func (s *Models) eachSnapshots(ctx context.Context, glob string, use func(id string, a *snapshot.Assembler) error) error {
	parts, err := s.snapshotPartitions(ctx, glob)
	if err != nil {
		return err
	}
	matches := globOf(cmp.Or(glob, "*"))
	for _, p := range parts {
		a := &snapshot.Assembler{Most: s.versionBytes()}
		if err := s.assemble(ctx, p, a, matches.MatchString); err != nil {
			return err
		}
		for _, id := range a.Models() {
			if err := use(id, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// snapshotPartitions returns the partitions of the snapshot topic that may hold a model: that of its id, or all.
func (s *Models) snapshotPartitions(ctx context.Context, id string) ([]source.Partition, error) {
	all, err := s.partitions(ctx, s.config.Snapshot.Topic)
	if err != nil || isGlob(id) || id == "" || !s.config.Model.By.Keyed() {
		return all, err
	}
	if _, partition, _, ok := modelkey.Split(id); ok {
		return slices.DeleteFunc(all, func(p source.Partition) bool { return p.ID != partition }), nil
	}
	return all, nil
}

// assemble reads the snapshots of a partition whose ids are wanted.
func (s *Models) assemble(ctx context.Context, p source.Partition, a *snapshot.Assembler, wanted func(id string) bool) error {
	return s.assembleTo(ctx, p, source.LatestStable, a, wanted)
}

func (s *Models) assembleTo(ctx context.Context, p source.Partition, to source.At, a *snapshot.Assembler, wanted func(id string) bool) error {
	return s.readBackOf(p, to).Read(ctx, func(got *source.Fetched) error {
		for _, r := range got.Records {
			if id, ok := modelIDOf(r); ok && !wanted(id) {
				continue
			}
			if err := a.Add(r.Key, r.Value, r.Headers, time.UnixMilli(r.Timestamp)); err != nil {
				s.log.Warn("a snapshot chunk is unusable", "partition", p.ID, "offset", r.Offset, "error", err)
			}
		}
		return nil
	})
}

// modelIDOf returns the model that a record of ours is of, by its header, or by its key where it is a tombstone.
func modelIDOf(r source.Record) (id string, ok bool) {
	for _, h := range r.Headers {
		if h.Key == "lca-model-id" {
			return string(h.Value), true
		}
	}
	return "", false
}
