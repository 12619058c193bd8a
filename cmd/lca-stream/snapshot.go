package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// snapshotCommand is `lca-stream snapshot`.
func snapshotCommand(p *program) *cobra.Command {
	return group(
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
	options *options
	file    string
	model   string // its id; "": that of the configuration
	version uint64
}

func choiceFlags(p *program, c *cobra.Command) *choice {
	ch := &choice{options: p.configFlags(c)}
	c.Flags().StringVar(&ch.file, "file", "", "read the snapshot `FILE` instead of the topic")
	c.Flags().StringVar(&ch.model, "model-id", "", modelIDHelp)
	c.Flags().Uint64Var(&ch.version, "version", 0, "`VERSION` on the topic; 0: the newest")
	c.Args = takes(0, 1)
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
		if ch.file != "" && ch.options.file != "" || ch.file == "" && ch.options.path() == "" {
			return errors.New("say where the snapshot is: either -c FILE, for the topic of a configuration, or --file PATH")
		}
		if ch.file != "" && ch.version != 0 {
			return errors.New("--version is of the topic: a file holds one snapshot")
		}
		return nil
	}
	return ch
}

// withTopic reads the whole snapshot topic of a configuration.
func withTopic(ctx context.Context, p *program, o *options, use func(modelID string, a *snapshot.Assembler) error) error {
	return withSystem(ctx, p, o, func(s *system) error {
		return s.withSnapshots(ctx, func(a *snapshot.Assembler) error { return use(s.config.Snapshot.ModelID, a) })
	})
}

// pick returns a version, or the newest for 0.
func pick(a *snapshot.Assembler, modelID string, version uint64) (*snapshot.Snapshot, error) {
	if version != 0 {
		s, err := a.Version(modelID, version)
		if err != nil {
			return nil, fmt.Errorf("%w: see `lca-stream snapshot list`", err)
		}
		return s, nil
	}
	s, ok := a.Newest(modelID)
	if !ok {
		return nil, fmt.Errorf("no whole snapshot of model %q; %s", modelID, others(a.Models()))
	}
	return s, nil
}

// oneOrFile reads a snapshot that is named by a version on the topic or by a file.
func oneOrFile(ctx context.Context, p *program, o *options, modelID, name string) (*snapshot.Snapshot, error) {
	version, err := strconv.ParseUint(name, 10, 64)
	if err != nil || o.path() == "" {
		return readSnapshotFile(name)
	}
	return snapshotOf(ctx, p, &choice{options: o, model: modelID, version: version})
}
