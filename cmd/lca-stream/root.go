package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// Exit codes.
const (
	exitDone        = 0
	exitUsage       = 1   // usage, configuration or lint
	exitFailed      = 2   // a fault at run time
	exitFenced      = 3   // another instance owns the work
	exitInterrupted = 130 // interrupted twice
)

// program is what a command touches of the world, so that tests can run it.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) (string, bool)
}

// run executes one command line and returns its exit code. The error, if any, is on stderr.
func (p *program) run(ctx context.Context, args []string) int {
	root := p.root()
	root.SetArgs(args)
	root.SetIn(p.stdin)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	err := root.ExecuteContext(ctx)
	if err != nil && !errors.Is(err, errSaid) {
		p.complain(err)
	}
	return exitCode(err)
}

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "lca-stream",
		Short: "Learn the metric of a Kafka stream and whiten it, live",
		Long: `Lca-stream learns, online and without labels, the metric in which the records of a Kafka stream are
locally isotropic (local component analysis), and whitens every live record with it.

To see it:      lca-stream demo
To use it:      lca-stream config example > stream.yaml, edit it, lca-stream topics init -c stream.yaml,
                lca-stream doctor -c stream.yaml, lca-stream run -c stream.yaml
When it fails:  lca-stream doctor -c stream.yaml, lca-stream inspect TOPIC -c stream.yaml

Exit codes: 0 done, 1 usage or configuration, 2 fault at run time, 3 another instance owns the work,
130 interrupted twice.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(
		p.lintCommand(),
		p.configCommand(),
		p.runCommand(),
		p.replayCommand(),
		p.learnCommand(),
		p.transformCommand(),
		p.demoCommand(),
		p.snapshotCommand(),
		p.topicsCommand(),
		p.offsetsCommand(),
		p.inspectCommand(),
		p.doctorCommand(),
		p.versionCommand(),
	)
	return root
}

// group is a command that only holds others.
func group(c *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("unknown command %q for %q", args[0], c.CommandPath())
		}
		return c.Help()
	}
	c.AddCommand(commands...)
	return c
}

// begun is an error of a command that had been understood: from there on it is not the usage.
type begun struct{ err error }

func (b *begun) Error() string { return b.err.Error() }

// Unwrap returns the command's own error.
func (b *begun) Unwrap() error { return b.err }

// errSaid ends a command with exit code 1 whose output has said already what is wrong.
var errSaid = errors.New("said already")

// command makes a cobra command of a function; whatever is refused before it runs is usage.
func command(c *cobra.Command, run func(ctx context.Context, args []string) error) *cobra.Command {
	if c.Args == nil {
		c.Args = cobra.NoArgs
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := run(c.Context(), args); err != nil {
			return &begun{err}
		}
		return nil
	}
	return c
}

// usage is an error of what was asked for that only the command could see.
type usage struct{ error }

func exitCode(err error) int {
	var faults config.Faults
	var running *begun
	var wrong usage
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &faults), errors.As(err, &wrong), errors.Is(err, errSaid), !errors.As(err, &running):
		return exitUsage
	case errors.Is(err, sink.ErrFenced), errors.Is(err, source.ErrInstanceFenced):
		return exitFenced
	default:
		return exitFailed
	}
}

func (p *program) complain(err error) {
	var faults config.Faults
	var running *begun
	switch {
	case errors.As(err, &faults):
		fmt.Fprintln(p.stderr, faults)
	case exitCode(err) == exitFenced:
		fmt.Fprintf(p.stderr, "lca-stream: %v\nAnother process took over this work: stop one of the two. After an import, a replay or `lca-stream offsets reset`, start this one again.\n", err)
	case errors.As(err, &running):
		fmt.Fprintf(p.stderr, "lca-stream: %v\n", err)
	default:
		fmt.Fprintf(p.stderr, "lca-stream: %v\nSee `lca-stream help`.\n", err)
	}
}
