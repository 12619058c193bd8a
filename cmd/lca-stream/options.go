package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/terminal"
	"github.com/lca-stream/lca-stream/internal/logs"
)

// configVariable is the environment variable that names the configuration where -c is missing.
const configVariable = "LCA_STREAM_CONFIG"

// options are the flags of every command that reads a configuration.
type options struct {
	file     string // of -c; "": not given
	set      []string
	logLevel string
	needed   bool // without a configuration the command cannot do anything
	brokers  string
	registry string
	getenv   func(string) (string, bool)
}

// configFlags adds -c, --set and --log-level. Without a configuration the defaults apply.
func (p *program) configFlags(c *cobra.Command) *options {
	o := &options{getenv: p.getenv}
	c.Flags().StringVarP(&o.file, "config", "c", "", "configuration `FILE`; - reads standard input; default $"+configVariable)
	c.Flags().StringArrayVar(&o.set, "set", nil, "override one setting: `key.path=value`; may be repeated")
	c.Flags().StringVar(&o.logLevel, "log-level", "", "least `LEVEL` that is logged: "+either(config.Levels()...))
	completes(c, "config", cobra.FixedCompletions([]string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt))
	completes(c, "set", completeSetting)
	choices(c, "log-level", config.Levels()...)
	return o
}

// brokersFlag adds --brokers and --registry to a command that needs no more of a configuration.
func (o *options) brokersFlag(c *cobra.Command) {
	c.Flags().StringVar(&o.brokers, "brokers", "", "`LIST` of brokers, host:port,…; default localhost:9092, or those of -c, whose login is taken too")
	c.Flags().StringVar(&o.registry, "registry", "", "`URL` of the schema registry, where messages name their schema; for source.registry.url")
}

// reached checks --brokers and --registry, and makes settings of them.
func (o *options) reached() error {
	if o.registry != "" {
		o.set = append(o.set, "source.registry.url="+o.registry)
	}
	if o.brokers == "" {
		return nil
	}
	if o.file != "" {
		return errors.New("--brokers and -c both say where the brokers are: leave out one")
	}
	o.needed = false
	o.set = append(o.set, "kafka.brokers="+o.brokers)
	return nil
}

// path returns the configuration file of the command line, or of the environment; "": neither names one.
func (o *options) path() string {
	if o.file != "" {
		return o.file
	}
	file, _ := o.getenv(configVariable)
	return file
}

// completeSetting completes the key of --set, and after = the values of a setting with few of them.
func completeSetting(_ *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
	const noFiles = cobra.ShellCompDirectiveNoFileComp
	path, _, hasValue := strings.Cut(text, "=")
	var found []string
	for _, key := range config.Keys(config.Default()) {
		switch {
		case !hasValue && strings.HasPrefix(key.Path, text):
			found = append(found, key.Path+"=\t"+key.Why)
		case hasValue && key.Path == path:
			for _, value := range key.Choices() {
				found = append(found, path+"="+value)
			}
		}
	}
	if hasValue {
		return found, noFiles
	}
	return found, noFiles | cobra.ShellCompDirectiveNoSpace
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

// load reads the configuration. Its error is a config.Faults, or a usage error if no configuration is named where one
// is needed.
func (p *program) load(o *options) (*config.Config, error) {
	file := o.path()
	if file == "" && o.needed {
		return nil, errNoConfig
	}
	set := o.set
	if o.logLevel != "" {
		set = append(set[:len(set):len(set)], "logger.level="+o.logLevel)
	}
	return config.Load(config.Input{File: file, Stdin: p.stdin, Set: set, Getenv: p.getenv})
}

// errNoConfig is returned where a command needs a configuration and neither -c nor the environment names one.
var errNoConfig = usageError("which configuration? name it with -c FILE, or in the environment as %s; "+
	"`lca-stream config example --minimal > stream.yaml` writes a short one to begin with", configVariable)

// logger logs to standard error: text on a terminal, JSON elsewhere, unless the configuration says otherwise. It is
// quiet in normal operation, and repeats a fault that persists once per sameCause.
func (p *program) logger(c config.Logger) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		level = slog.LevelInfo // not reached: the configuration allows only slog's names
	}
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: readable}
	var h slog.Handler = slog.NewJSONHandler(p.stderr, o)
	if c.Format == config.LogText || c.Format == config.LogAuto && isTerminal(p.stderr) {
		h = slog.NewTextHandler(p.stderr, o)
	}
	return slog.New(logs.Limit(h, sameCause))
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

// isTerminal reports whether output goes to a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := terminal.Unwrap(w).(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}
