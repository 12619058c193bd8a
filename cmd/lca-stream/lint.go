package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
)

func lintCommand(p *app.Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "lint FILE...",
		Short: "Check configurations: one line a fault, with place and remedy",
		Long: `Checks configuration files without a broker. Exit code 1 and one line a fault, with file:line:column,
what is wrong, what to write instead, and a caret under the place. With --format json, one JSON object
a line: file, line, column, path, message, remedy. FILE - is standard input.`,
		Example: "  lca-stream lint configs/*.yaml",
		Args:    app.Takes(1, app.AnyNumber),
	}
	var format string
	c.Flags().StringVar(&format, "format", "text", "`FORMAT` of the faults: text or json")
	app.Choices(c, "format", "text", "json")
	c.PreRunE = func(*cobra.Command, []string) error {
		if format != "text" && format != "json" {
			return fmt.Errorf("--format is %q; want text or json", format)
		}
		return nil
	}
	return app.Command(c, func(_ context.Context, args []string) error { return lint(p, args, format) })
}

func lint(p *app.Program, files []string, format string) error {
	faulty := false
	for _, file := range files {
		_, err := config.Load(config.Input{File: file, Stdin: p.Stdin, Getenv: p.Getenv})
		var faults config.Faults
		if err == nil {
			continue
		}
		if !errors.As(err, &faults) {
			return err
		}
		faulty = true
		for _, f := range faults {
			if err := printFault(p, f, format); err != nil {
				return err
			}
		}
	}
	if faulty {
		return &app.ExitError{Code: app.ExitUsage}
	}
	return nil
}

func printFault(p *app.Program, f config.Fault, format string) error {
	if format == "json" {
		return json.NewEncoder(p.Stdout).Encode(f)
	}
	_, err := fmt.Fprintf(p.Stdout, "%s\n%s", f, f.Excerpt())
	return err
}
