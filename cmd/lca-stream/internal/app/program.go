package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/terminal"
	"github.com/lca-stream/lca-stream/internal/logs"
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

// Logger logs to standard error: text on a terminal, JSON elsewhere, unless the configuration says otherwise. It is
// quiet in normal operation, and repeats a fault that persists once per sameCause.
func (p *Program) Logger(c config.Logger) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		level = slog.LevelInfo // not reached: the configuration allows only slog's names
	}
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: readable}
	var h slog.Handler = slog.NewJSONHandler(p.Stderr, o)
	if c.Format == config.LogText || c.Format == config.LogAuto && IsTerminal(p.Stderr) {
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
