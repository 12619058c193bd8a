package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lca-stream/lca-stream/internal/typo"
)

// group is a command that only holds other commands.
func group(c *cobra.Command, commands ...*cobra.Command) *cobra.Command {
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

// helps makes help refuse a command that does not exist: cobra prints the help of the root.
func helps(c *cobra.Command) {
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

// anyNumber is the most arguments of a command that takes any number of them.
const anyNumber = math.MaxInt

// takes checks the number of arguments, which the command's Use names.
func takes(least, most int) cobra.PositionalArgs {
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

// choices completes the values of a flag.
func choices[T any](c *cobra.Command, flag string, all ...T) {
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
