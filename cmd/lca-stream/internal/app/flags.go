package app

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/internal/typo"
)

// configVariable is the environment variable that names the configuration where -c is missing.
const configVariable = "LCA_STREAM_CONFIG"

// Options are the flags of every command that reads a configuration.
type Options struct {
	File     string // of -c; "": not given
	set      []string
	logLevel string
	Needed   bool // without a configuration the command cannot do anything
	brokers  string
	registry string
	getenv   func(string) (string, bool)
}

// BrokersFlag adds --brokers and --registry to a command that needs no more of a configuration.
func (o *Options) BrokersFlag(c *cobra.Command) {
	c.Flags().StringVar(&o.brokers, "brokers", "", "`LIST` of brokers, host:port,…; default localhost:9092, or those of -c, whose login is taken too")
	c.Flags().StringVar(&o.registry, "registry", "", "`URL` of the schema registry, where messages name their schema; for source.registry.url")
}

// Reached checks --brokers and --registry, and makes settings of them.
func (o *Options) Reached() error {
	if o.registry != "" {
		o.set = append(o.set, "source.registry.url="+o.registry)
	}
	if o.brokers == "" {
		return nil
	}
	if o.File != "" {
		return errors.New("--brokers and -c both say where the brokers are: leave out one")
	}
	o.Needed = false
	o.set = append(o.set, "kafka.brokers="+o.brokers)
	return nil
}

// Path returns the configuration file of the command line, or of the environment; "": neither names one.
func (o *Options) Path() string {
	if o.File != "" {
		return o.File
	}
	file, _ := o.getenv(configVariable)
	return file
}

// Set adds a setting to those of --set.
func (o *Options) Set(setting string) { o.set = append(o.set, setting) }

// Sets reports whether --set names a setting.
func (o *Options) Sets(path string) bool {
	return slices.ContainsFunc(o.set, func(one string) bool { return strings.HasPrefix(one, path+"=") })
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

// Either writes the values of a flag, of which there are two or more: "a, b or c".
func Either[T any](all ...T) string {
	names := make([]string, len(all))
	for i, one := range all {
		names[i] = fmt.Sprint(one)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// ErrNoConfig is returned where a command needs a configuration and neither -c nor the environment names one.
var ErrNoConfig = UsageError("which configuration? name it with -c FILE, or in the environment as %s; "+
	"`lca-stream config example --minimal > stream.yaml` writes a short one to begin with", configVariable)

// Group is a command that only holds other commands.
func Group(c *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	c.Args = cobra.ArbitraryArgs // otherwise cobra refuses an unknown command in words of its own
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(c, args[0])
		}
		return c.Help()
	}
	c.AddCommand(commands...)
	return c
}

// unknownCommand says which command of a group was probably meant, or that the name is one of a command elsewhere.
func unknownCommand(c *cobra.Command, name string) error {
	names := commandsOf(c)
	remedy := typo.Question(name, names)
	for _, other := range c.Root().Commands() {
		if other != c && other.Name() == name && other.IsAvailableCommand() {
			remedy = fmt.Sprintf("did you mean `%s`?", other.CommandPath())
		}
	}
	if remedy == "" {
		remedy = "its commands are " + strings.Join(names, ", ")
	}
	return fmt.Errorf("%s has no command %q: %s", c.CommandPath(), name, remedy)
}

func commandsOf(c *cobra.Command) (names []string) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return names
}

// Helps makes help refuse a command that does not exist: cobra prints the help of the root.
func Helps(c *cobra.Command) {
	c.Run = nil
	c.RunE = func(c *cobra.Command, args []string) error {
		found, rest, _ := c.Root().Find(args)
		if len(rest) > 0 && found.HasAvailableSubCommands() {
			return unknownCommand(found, rest[0])
		}
		found.InitDefaultHelpFlag()
		return found.Help()
	}
}

// AnyNumber is the most arguments of a command that takes any number of them.
const AnyNumber = math.MaxInt

// Takes checks the number of arguments, which the command's Use names.
func Takes(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			names := strings.Fields(c.Use)[1:]
			return fmt.Errorf("%s needs %s: write `%s`", c.CommandPath(), strings.Join(names[len(args):], " and "), c.UseLine())
		case len(args) > most && (strings.HasSuffix(args[most], ".yaml") || strings.HasSuffix(args[most], ".yml")):
			return fmt.Errorf("%s does not take %q as it stands: did you mean -c %[2]s?", c.CommandPath(), args[most])
		case len(args) > most && inputAgain(c):
			return fmt.Errorf("%s does not take %q: each file has its own --input; for many, name their directory, or quote the pattern: --input '*.parquet'", c.CommandPath(), args[most])
		case len(args) > most:
			return fmt.Errorf("%s does not take %q: write `%s`", c.CommandPath(), args[most], c.UseLine())
		}
		return nil
	}
}

// flagError says in plain words what is wrong with a flag; args is the whole command line.
func flagError(c *cobra.Command, args []string, err error) error {
	if c.HasSubCommands() { // the flags were meant for another command
		depth := strings.Count(c.CommandPath(), " ")
		if misplaced := notForGroup(c, args[min(depth, len(args)):]); misplaced != nil {
			return misplaced
		}
	}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		return invalidValue(invalid)
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if letters := unknown.GetSpecifiedShortnames(); letters != "" {
		return fmt.Errorf("%s has no flag -%s: see `%[1]s --help`", c.CommandPath(), unknown.GetSpecifiedName())
	}
	name := unknown.GetSpecifiedName()
	if near := typo.Nearest(name, names); near != "" {
		return fmt.Errorf("%s has no flag --%s: did you mean --%s?", c.CommandPath(), name, near)
	}
	return fmt.Errorf("%s has no flag --%s: see `%[1]s --help`", c.CommandPath(), name)
}

// invalidValue says which values a flag takes; the error has the words of the package that parses it.
func invalidValue(err *pflag.InvalidValueError) error {
	flag, value := err.GetFlag(), err.GetValue()
	switch kind := flag.Value.Type(); {
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("--%s %s is too large", flag.Name, value)
	case kind == "bool":
		return fmt.Errorf("--%s=%s: want true or false", flag.Name, value)
	case kind == "duration":
		return fmt.Errorf("--%s %s: want a time such as 30s, 5m or 1h30m", flag.Name, value)
	case errors.As(err, new(*strconv.NumError)):
		return fmt.Errorf("--%s %s: want a number%s", flag.Name, value, numbers[kind])
	}
	return err
}

// numbers says which numbers a flag takes, by its type.
var numbers = map[string]string{"uint64": ", 0 or more, without a fraction", "int": " without a fraction", "int64": " without a fraction"}

// notForGroup says which command a group of commands does not have, or that it needs one; nil: perhaps only a flag is
// misspelt.
func notForGroup(c *cobra.Command, args []string) error {
	values := false
	for i, arg := range args {
		switch {
		case strings.HasPrefix(arg, "-"):
		case i > 0 && strings.HasPrefix(args[i-1], "-"):
			values = true // of a flag, such as -c
		default:
			return unknownCommand(c, arg)
		}
	}
	if values {
		return fmt.Errorf("%s needs a command: its commands are %s", c.CommandPath(), strings.Join(commandsOf(c), ", "))
	}
	return nil
}

// oneDash refuses a long flag with one dash, which would be read as letters: -config as -c onfig.
func oneDash(root *cobra.Command, args []string) error {
	c, rest, err := root.Find(args)
	if err != nil {
		return nil // cobra says more of it
	}
	for _, arg := range rest {
		if arg == "--" {
			return nil
		}
		name, isFlag := strings.CutPrefix(arg, "-")
		name, _, _ = strings.Cut(name, "=")
		if isFlag && len(name) > 1 && c.Flags().Lookup(name) != nil {
			return fmt.Errorf("-%s needs two dashes: did you mean --%[1]s?", name)
		}
	}
	return nil
}

// Choices completes the values of a flag.
func Choices[T any](c *cobra.Command, flag string, all ...T) {
	values := make([]string, len(all))
	for i, one := range all {
		values[i] = fmt.Sprint(one)
	}
	completes(c, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

func completes(c *cobra.Command, flag string, with cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, with); err != nil {
		panic("lca-stream: internal error: " + err.Error()) // the flag does not exist
	}
}

// OneModelOnly refuses a configuration with a model for each value in a command that knows only one model for all rows.
func OneModelOnly(c *config.Config, command string) error {
	if !c.Model.By.Keyed() {
		return nil
	}
	return &ExitError{ExitFailed, fmt.Errorf("model.by is %s, and this release's %s has one model for all rows: set model.by to none", c.Model.By, command)}
}

// OneModelFlag refuses a flag that is about one model for all rows.
func OneModelFlag(c *config.Config, flag, why string) error {
	if !c.Model.By.Keyed() {
		return nil
	}
	return UsageError("%s: model.by is %s, and %s: leave the flag out", flag, c.Model.By, why)
}

// Required marks flags without which a command cannot run.
func Required(c *cobra.Command, names ...string) {
	for _, name := range names {
		if err := c.MarkFlagRequired(name); err != nil {
			panic("lca-stream: internal error: " + err.Error()) // the flag does not exist
		}
	}
}
