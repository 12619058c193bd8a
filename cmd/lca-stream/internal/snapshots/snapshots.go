// Package snapshots holds the commands of published models, on their topic or in files: list, show (with a picture), diff,
// export and import.
package snapshots

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/system"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// Command is `lca-stream snapshot`.
func Command(p *app.Program) *cobra.Command {
	return app.Group(
		&cobra.Command{
			Use:   "snapshot",
			Short: "List, show, compare, export and import models",
			Long: `A snapshot is a model as it was published. It comes from the snapshot topic of a configuration (-c), or
from a file (--file) in any format that export writes.`,
		},
		snapshotListCommand(p),
		snapshotShowCommand(p),
		snapshotDiffCommand(p),
		snapshotExportCommand(p),
		snapshotImportCommand(p),
	)
}

// modelIDHelp is the help of the flag that chooses a model of the topic.
const modelIDHelp = "`ID` of a model on the topic, or a glob such as '*/press-7', in which * is any text; default: that of the configuration"

// choice says which snapshot a command is about.
type choice struct {
	options *app.Options
	file    string
	model   string // its id; "": that of the configuration
	version uint64
}

func choiceFlags(p *app.Program, c *cobra.Command) *choice {
	ch := &choice{options: p.ConfigFlags(c)}
	c.Flags().StringVar(&ch.file, "file", "", "read the snapshot `FILE` instead of the topic")
	c.Flags().StringVar(&ch.model, "model-id", "", modelIDHelp)
	c.Flags().Uint64Var(&ch.version, "version", 0, "`VERSION` on the topic; 0: the newest")
	c.Args = app.Takes(0, 1)
	c.PreRunE = func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			if ch.model != "" {
				return errors.New("MODEL and --model-id say the same: give one of them")
			}
			ch.model = args[0]
		}
		switch ext := filepath.Ext(ch.model); {
		case ext == ".yaml" || ext == ".yml":
			return fmt.Errorf("%q is no id of a model: did you mean -c %[1]s?", ch.model)
		case ch.file == "" && ext == ".arrows":
			return fmt.Errorf("%q is no id of a model: did you mean --file %[1]s?", ch.model)
		}
		if ch.file != "" && ch.model != "" {
			return errors.New("MODEL, or --model-id, is of the topic: a file holds one")
		}
		if ch.file != "" && ch.options.File != "" || ch.file == "" && ch.options.Path() == "" {
			return errors.New("say where the snapshot is: either -c FILE, for the topic of a configuration, or --file PATH")
		}
		if ch.file != "" && ch.version != 0 {
			return errors.New("--version is of the topic: a file holds one snapshot")
		}
		return nil
	}
	return ch
}

// oneOrFile reads a snapshot that is named by a version on the topic or by a file.
func oneOrFile(ctx context.Context, p *app.Program, o *app.Options, modelID, name string) (*snapshot.Snapshot, error) {
	version, err := strconv.ParseUint(name, 10, 64)
	if err != nil || o.Path() == "" {
		return app.ReadSnapshotFile(name)
	}
	return snapshotOf(ctx, p, &choice{options: o, model: modelID, version: version})
}

// snapshotOf reads the chosen snapshot, which must be one.
func snapshotOf(ctx context.Context, p *app.Program, c *choice) (*snapshot.Snapshot, error) {
	all, err := snapshotsOf(ctx, p, c)
	if err != nil {
		return nil, err
	}
	if len(all) > 1 {
		return nil, app.UsageError("--model-id %s stands for %d models, such as %s and %s: name one", c.model, len(all), all[0].ModelID, all[1].ModelID)
	}
	return all[0], nil
}

// snapshotsOf reads the chosen snapshots, of one model or of those that a glob stands for, sorted by id.
func snapshotsOf(ctx context.Context, p *app.Program, c *choice) (all []*snapshot.Snapshot, err error) {
	if c.file != "" {
		s, err := app.ReadSnapshotFile(c.file)
		return []*snapshot.Snapshot{s}, err
	}
	one := func(id string, a *snapshot.Assembler) error {
		s, err := system.Pick(a, id, c.version)
		all = append(all, s)
		return err
	}
	err = system.WithSystem(ctx, p, c.options, func(s *system.System) error {
		id := cmp.Or(c.model, s.Config.Snapshot.ModelID)
		if !s.Config.Model.By.Keyed() && !system.IsGlob(id) {
			return s.WithSnapshots(ctx, func(a *snapshot.Assembler) error { return one(id, a) })
		}
		if c.model == "" {
			return app.UsageError("model.by is %s: say which model with --model-id, such as --model-id '*/NAME'; `lca-stream snapshot list` shows them", s.Config.Model.By)
		}
		if err := s.EachSnapshots(ctx, id, one); err != nil || len(all) > 0 {
			return err
		}
		return fmt.Errorf("no whole snapshot on %s has an id like %q; `lca-stream snapshot list` shows them", s.Config.Snapshot.Topic, id)
	})
	slices.SortFunc(all, func(a, b *snapshot.Snapshot) int { return strings.Compare(a.ModelID, b.ModelID) })
	return all, err
}
