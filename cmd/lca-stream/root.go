package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/terminal"
	"github.com/lca-stream/lca-stream/internal/logs"
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

// program is the environment of a command, replaced in tests.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) (string, bool)

	log *slog.Logger // of a command that stays; nil: the command prints its fault
}

// run executes one command line and returns its exit code. The error, if any, is on stderr.
func (p *program) run(ctx context.Context, root *cobra.Command, args []string) int {
	p.stdout, p.stderr = terminal.NewWriter(p.stdout), terminal.NewWriter(p.stderr)
	root.SetArgs(args)
	root.SetIn(p.stdin)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return flagError(c, args, err) })
	err := oneDash(root, args)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	p.complain(err)
	return exitCode(err)
}

func rootCommand(p *program) *cobra.Command {
	root := &cobra.Command{
		Use:     "lca-stream",
		Version: buildInfo().Version,
		Short:   "Learn the metric of a Kafka stream and whiten it, live",
		Long: `Lca-stream learns, online and without labels, the metric in which the records of a Kafka stream are
locally isotropic (local component analysis), and whitens every live record with it.

To see it:      lca-stream demo
To use it:      lca-stream init TOPIC --brokers HOST:PORT -o stream.yaml, lca-stream topics init -c stream.yaml,
                lca-stream doctor -c stream.yaml, lca-stream run -c stream.yaml
When it fails:  lca-stream doctor -c stream.yaml, lca-stream inspect TOPIC -c stream.yaml

Exit codes: 0 done, 1 usage or configuration, 2 fault at run time, 3 another instance owns the work,
130 interrupted twice.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate(buildInfo().String())
	group(root,
		initCommand(p),
		lintCommand(p),
		configCommand(p),
		runCommand(p),
		replayCommand(p),
		emCommand(p),
		learnCommand(p),
		transformCommand(p),
		demoCommand(p),
		snapshotCommand(p),
		topicsCommand(p),
		offsetsCommand(p),
		inspectCommand(p),
		doctorCommand(p),
		versionCommand(p),
		manCommand(p),
	)
	root.InitDefaultHelpCmd()
	if c, _, err := root.Find([]string{"help"}); err == nil && c != root {
		helps(c)
	}
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil && c != root {
		group(c)
	}
	return root
}

// exitError ends a command with an exit code. An error of the command line that cobra finds has none.
type exitError struct {
	code int
	err  error // nil: the output has explained the fault already
}

// Error is the command's own error.
func (e *exitError) Error() string {
	if e.err == nil {
		return "said already"
	}
	return e.err.Error()
}

// Unwrap returns the command's own error.
func (e *exitError) Unwrap() error { return e.err }

// usageError is a usage error that only the command itself could find.
func usageError(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// command makes a cobra command of a function. Whatever is refused before it runs is a usage error.
func command(c *cobra.Command, run func(ctx context.Context, args []string) error) *cobra.Command {
	if c.Args == nil {
		c.Args = takes(0, 0)
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		return withCode(run(c.Context(), args))
	}
	return c
}

// withCode adds an exit code to the error of a command whose command line was valid.
func withCode(err error) error {
	var faults config.Faults
	var coded *exitError
	switch {
	case err == nil, errors.As(err, &coded):
		return err
	case errors.As(err, &faults):
		return &exitError{exitUsage, err}
	case errors.Is(err, sink.ErrFenced), errors.Is(err, source.ErrInstanceFenced):
		return &exitError{exitFenced, err}
	}
	return &exitError{exitFailed, err}
}

// exitCode returns the exit code of a command that ended with an error; nil: it did not.
func exitCode(err error) int {
	var coded *exitError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &coded):
		return coded.code
	}
	return exitUsage
}

// complain writes to stderr what ended the command, if its output has not: into the log where there is one, so that a
// reader of JSON lines finds it.
func (p *program) complain(err error) {
	var faults config.Faults
	var coded *exitError
	switch {
	case err == nil:
	case errors.As(err, &faults):
		fmt.Fprintln(p.stderr, faults)
	case !errors.As(err, &coded):
		fmt.Fprintf(p.stderr, "lca-stream: %v\nSee `lca-stream help`.\n", err)
	case coded.err == nil:
	case p.log != nil:
		p.log.ErrorContext(logs.Unlimited(context.Background()), "stopped", "error", coded.plain(), "exit_code", coded.code)
	default:
		fmt.Fprintln(p.stderr, "lca-stream: "+terminal.Line(strings.ReplaceAll(coded.plain(), "\n", "; "))) // joined errors have lines
	}
}

// plain is what an operator reads.
func (e *exitError) plain() string {
	text := logs.Plain(e.Error())
	if e.code == exitFenced {
		text += ". Another process took over this work: stop one, or give another snapshot.model_id to one. " +
			"After an import, a replay or `lca-stream offsets reset`, start this one again."
	}
	return text
}
