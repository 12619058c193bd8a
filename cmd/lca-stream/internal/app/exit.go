package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/internal/logs"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// Exit codes.
const (
	ExitDone        = 0
	ExitUsage       = 1   // usage, configuration or lint
	ExitFailed      = 2   // a fault at run time
	exitFenced      = 3   // another instance owns the work
	ExitInterrupted = 130 // interrupted twice
)

// ExitError ends a command with an exit code. An error of the command line that cobra finds has none.
type ExitError struct {
	Code int
	Err  error // nil: the output has explained the fault already
}

// Error is the command's own error.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return "said already"
	}
	return e.Err.Error()
}

// Unwrap returns the command's own error.
func (e *ExitError) Unwrap() error { return e.Err }

// plain is what an operator reads.
func (e *ExitError) plain() string {
	text := logs.Plain(e.Error())
	if e.Code == exitFenced {
		text += ". Another process took over this work: stop one, or give another snapshot.model_id to one. " +
			"After an import, a replay or `lca-stream offsets reset`, start this one again."
	}
	return text
}

// UsageError is a usage error that only the command itself could find.
func UsageError(format string, args ...any) error {
	return &ExitError{ExitUsage, fmt.Errorf(format, args...)}
}

// Command makes a cobra command of a function. Whatever is refused before it runs is a usage error.
func Command(c *cobra.Command, run func(ctx context.Context, args []string) error) *cobra.Command {
	if c.Args == nil {
		c.Args = Takes(0, 0)
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		return withCode(run(c.Context(), args))
	}
	return c
}

// withCode adds an exit code to the error of a command whose command line was valid.
func withCode(err error) error {
	var faults config.Faults
	var coded *ExitError
	switch {
	case err == nil, errors.As(err, &coded):
		return err
	case errors.As(err, &faults):
		return &ExitError{ExitUsage, err}
	case errors.Is(err, sink.ErrFenced), errors.Is(err, source.ErrInstanceFenced):
		return &ExitError{exitFenced, err}
	}
	return &ExitError{ExitFailed, err}
}

// ExitCode returns the exit code of a command that ended with an error; nil: it did not.
func ExitCode(err error) int {
	var coded *ExitError
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &coded):
		return coded.Code
	}
	return ExitUsage
}
