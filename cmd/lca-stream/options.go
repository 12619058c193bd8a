package main

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/internal/logs"
)

// options are the flags of every command that reads a configuration.
type options struct {
	file     string
	set      []string
	logLevel string
}

// configFlags adds -c, --set and --log-level. Without -c the defaults hold.
func configFlags(c *cobra.Command) *options {
	o := &options{}
	c.Flags().StringVarP(&o.file, "config", "c", "", "configuration `FILE`; - reads standard input")
	c.Flags().StringArrayVar(&o.set, "set", nil, "override one setting: `key.path=value`; may be repeated")
	c.Flags().StringVar(&o.logLevel, "log-level", "", "least `LEVEL` that is logged: "+either(config.Levels()...))
	return o
}

// either writes the values of a flag, of which there are two or more: "a, b or c".
func either[T any](all ...T) string {
	names := make([]string, len(all))
	for i, one := range all {
		names[i] = fmt.Sprint(one)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// needConfig makes -c mandatory.
func needConfig(c *cobra.Command) {
	if err := c.MarkFlagRequired("config"); err != nil {
		panic("lca-stream: internal error: " + err.Error()) // the flag does not exist
	}
}

// load reads the configuration; its error is a config.Faults.
func (p *program) load(o *options) (*config.Config, error) {
	set := o.set
	if o.logLevel != "" {
		set = append(set[:len(set):len(set)], "logger.level="+o.logLevel)
	}
	return config.Load(config.Input{File: o.file, Stdin: p.stdin, Set: set, Getenv: p.getenv})
}

// logger logs to standard error: text on a terminal, JSON elsewhere, unless the configuration says otherwise. It is
// quiet in normal operation, and repeats a fault that persists once per sameCause.
func (p *program) logger(c config.Logger) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		level = slog.LevelInfo // not reached: the configuration allows only slog's names
	}
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: withUnits}
	var h slog.Handler = slog.NewJSONHandler(p.stderr, o)
	if c.Format == config.LogText || c.Format == config.LogAuto && isTerminal(p.stderr) {
		h = slog.NewTextHandler(p.stderr, o)
	}
	return slog.New(logs.Limit(h, sameCause))
}

// withUnits formats durations as text, "15s", in JSON too, where they would be nanoseconds without a unit.
func withUnits(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// sameCause is the interval of log lines about a fault that persists.
const sameCause = time.Minute

// isTerminal reports whether output goes to a terminal.
func isTerminal(w any) bool {
	f, ok := w.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}
