// Package app is what all commands share of a command line: the program's environment (Program), flags and their faults,
// exit codes, the logger, the files that are read and written, and the memory that may be used. It knows no brokers:
// package system does.
//
// A command is a function of a Program that returns a cobra command made with Command, which gives errors their exit codes.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/terminal"
	"github.com/lca-stream/lca-stream/internal/logs"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// Program is the environment of a command, replaced in tests.
type Program struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) (string, bool)

	Log *slog.Logger // of a command that stays; nil: the command prints its fault
}

// Run executes one command line and returns its exit code. The error, if any, is on stderr.
func (p *Program) Run(ctx context.Context, root *cobra.Command, args []string) int {
	p.Stdout, p.Stderr = terminal.NewWriter(p.Stdout), terminal.NewWriter(p.Stderr)
	root.SetArgs(args)
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return flagError(c, args, err) })
	err := oneDash(root, args)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	p.Complain(err)
	return ExitCode(err)
}

// Complain writes to stderr what ended the command, if its output has not: into the log where there is one, so that a
// reader of JSON lines finds it.
func (p *Program) Complain(err error) {
	var faults config.Faults
	var coded *ExitError
	switch {
	case err == nil:
	case errors.As(err, &faults):
		fmt.Fprintln(p.Stderr, faults)
	case !errors.As(err, &coded):
		fmt.Fprintf(p.Stderr, "lca-stream: %v\nSee `lca-stream help`.\n", err)
	case coded.Err == nil:
	case p.Log != nil:
		p.Log.ErrorContext(logs.Unlimited(context.Background()), "stopped", "error", coded.plain(), "exit_code", coded.Code)
	default:
		fmt.Fprintln(p.Stderr, "lca-stream: "+terminal.Line(strings.ReplaceAll(coded.plain(), "\n", "; "))) // joined errors have lines
	}
}

// Load reads the configuration. Its error is a config.Faults, or a usage error if no configuration is named where one
// is needed.
func (p *Program) Load(o *Options) (*config.Config, error) {
	file := o.Path()
	if file == "" && o.Needed {
		return nil, ErrNoConfig
	}
	set := o.set
	if o.logLevel != "" {
		set = append(set[:len(set):len(set)], "logger.level="+o.logLevel)
	}
	return config.Load(config.Input{File: file, Stdin: p.Stdin, Set: set, Getenv: p.Getenv})
}

// Logger logs to standard error: text on a terminal, for a person, and JSON elsewhere, for what collects logs. It is
// quiet in normal operation, and repeats a fault that persists once per sameCause.
func (p *Program) Logger(c config.Logger) *slog.Logger { return p.logger(c, IsTerminal(p.Stderr)) }

// TextLogger logs text wherever it goes, for a command that a person watches.
func (p *Program) TextLogger(c config.Logger) *slog.Logger { return p.logger(c, true) }

func (p *Program) logger(c config.Logger, text bool) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		level = slog.LevelInfo // not reached: the configuration allows only slog's names
	}
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: readable}
	var h slog.Handler = slog.NewJSONHandler(p.Stderr, o)
	if text {
		h = slog.NewTextHandler(p.Stderr, o)
	}
	return slog.New(logs.Limit(h, sameCause))
}

// QuietLogger logs warnings and worse, unless the configuration asks for more: commands that print
// an answer should print nothing else.
func QuietLogger(p *Program, c config.Logger) *slog.Logger {
	if c.Level == config.LevelInfo {
		c.Level = config.LevelWarn
	}
	return p.Logger(c)
}

// readable formats durations as text, "15s", in JSON too, where they would be nanoseconds without a unit, and errors
// without names of packages.
func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	if err, ok := a.Value.Any().(error); ok {
		a.Value = slog.StringValue(logs.Plain(err.Error()))
	}
	return a
}

// sameCause is the interval of log lines about a fault that persists.
const sameCause = time.Minute

// IsTerminal reports whether output goes to a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := terminal.Unwrap(w).(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

// OpenInput opens a file, standard input for "-", or a pipe with a name, such as a shell makes of <(command).
func (p *Program) OpenInput(ctx context.Context, path string, c format.FileConfig) (Input, error) {
	if isStdin(path) {
		return openPipe(ctx, "standard input", p.Stdin, c)
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		f := &namedPipe{path: path}
		in, err := openPipe(ctx, path, f, c)
		if err != nil {
			return nil, err
		}
		return closing{in, f}, nil
	}
	return source.OpenFiles([]string{path}, c)
}

// ConfigFlags adds -c, --set and --log-level. Without a configuration the defaults apply.
func (p *Program) ConfigFlags(c *cobra.Command) *Options {
	o := &Options{getenv: p.Getenv}
	c.Flags().StringVarP(&o.File, "config", "c", "", "configuration `FILE`; - reads standard input; default $"+configVariable)
	c.Flags().StringArrayVar(&o.set, "set", nil, "override one setting: `key.path=value`; may be repeated")
	c.Flags().StringVar(&o.logLevel, "log-level", "", "least `LEVEL` that is logged: "+Either(config.Levels()...))
	completes(c, "config", cobra.FixedCompletions([]string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt))
	completes(c, "set", completeSetting)
	Choices(c, "log-level", config.Levels()...)
	return o
}

// WriteOutput writes to standard output where the path is "-", and otherwise a file. A regular file is written whole or not at all: to a temporary
// file next to it, so that a crash leaves either the old file or the new one. A symbolic link is followed, and what is no regular file, such as a
// pipe or a device, is written to as it is.
func (p *Program) WriteOutput(path string, write func(io.Writer) error) error {
	if path == "-" {
		return write(terminal.Unwrap(p.Stdout)) // a file, not text for a person
	}
	if err := WriteFile(path, write); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

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

// Build describes the source of this binary.
type Build struct {
	Module   string    `json:"module"`
	Version  string    `json:"version"`
	Revision string    `json:"revision"` // "" when built outside a checkout
	Modified bool      `json:"modified"` // the checkout had uncommitted changes
	Time     time.Time `json:"-"`        // of the commit
	Go       string    `json:"go"`
	Platform string    `json:"platform"` // GOOS/GOARCH
}

// String is the answer of the version command and of --version.
func (b Build) String() string {
	revision := cmp.Or(b.Revision, "unknown")
	if b.Modified {
		revision += " (modified)"
	}
	return fmt.Sprintf("lca-stream %s\nmodule   %s\nrevision %s\ngo       %s %s\n", b.Version, b.Module, revision, b.Go, b.Platform)
}

// BuildInfo reads the binary itself, so that no build flag can be forgotten.
func BuildInfo() Build {
	b := Build{Version: "(devel)", Time: commitTime(""), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Module = info.Main.Path
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = commitTime(s.Value)
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// commitTime reads the time of the source from the binary, so that the same source gives the same pages.
func commitTime(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Unix(0, 0).UTC() // built outside a checkout
	}
	return t.UTC()
}

// Producer names the program that makes snapshots. It must not change between two runs of one binary, because the
// bytes of a snapshot depend only on data.
func Producer() string { return "lca-stream " + BuildInfo().Version }
