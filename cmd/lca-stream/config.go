package main

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/configs"
	"github.com/lca-stream/lca-stream/internal/typo"
)

func configCommand(p *app.Program) *cobra.Command {
	return app.Group(
		&cobra.Command{
			Use:   "config",
			Short: "Show the configuration: resolved, its schema, or every key",
			Long: `A configuration is one YAML file: defaults, then the file, with ${VAR} and ${VAR:default} from the
environment, then --set. Example prints all of it with its defaults, or the few lines of a first start;
print shows what would be used; schema is for editors.`,
		},
		configPrintCommand(p),
		app.Command(&cobra.Command{
			Use:   "schema",
			Short: "Print the JSON Schema of the configuration, for editors",
		}, func(context.Context, []string) error {
			_, err := p.Stdout.Write(config.Schema())
			return err
		}),
		configExampleCommand(p),
	)
}

func configExampleCommand(p *app.Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "example [NAME]",
		Short: "Print every key with its default, its range and why it is there, or a worked example",
		Long: `Prints every key with its default, its range and why it is there. With --minimal, only what a first
start needs; "lca-stream init TOPIC" writes the same for a topic that exists, and proposes the features.
With a NAME, a worked example: ` + strings.Join(exampleNames(), ", ") + ".",
		Example:   "  lca-stream config example --minimal > stream.yaml\n  lca-stream config example anomaly-scores > scores.yaml",
		Args:      app.Takes(0, 1),
		ValidArgs: exampleNames(),
	}
	minimal := c.Flags().Bool("minimal", false, "only what a first start needs")
	return app.Command(c, func(_ context.Context, args []string) error {
		text := config.Example()
		switch {
		case len(args) > 0 && *minimal:
			return app.UsageError("--minimal is an example of its own: leave out %q, or --minimal", args[0])
		case len(args) > 0:
			if !slices.Contains(exampleNames(), args[0]) {
				return app.UsageError("there is no example %q: %s", args[0], cmp.Or(typo.Question(args[0], exampleNames()), "they are "+strings.Join(exampleNames(), ", ")))
			}
			data, err := configs.Files.ReadFile(args[0] + ".yaml")
			if err != nil {
				return err
			}
			text = string(data)
		case *minimal:
			text = config.Starter{Config: config.Default()}.String()
		}
		_, err := io.WriteString(p.Stdout, text)
		return err
	})
}

// exampleNames lists the worked examples: all files of configs/ except the one that holds every key.
func exampleNames() []string {
	files, err := configs.Files.ReadDir(".")
	if err != nil {
		panic("lca-stream: internal error: " + err.Error()) // it is part of the binary
	}
	var names []string
	for _, f := range files {
		if name := strings.TrimSuffix(f.Name(), ".yaml"); name != "lca-stream" {
			names = append(names, name)
		}
	}
	return names
}

func configPrintCommand(p *app.Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "print",
		Short: "Print the configuration as it would be used, secrets masked",
		Long: `Prints every key after defaults, file, environment and --set have been applied. Secrets are masked.
Without -c it prints the defaults.`,
		Example: "  lca-stream config print -c stream.yaml --set minibatch.rows=1000",
	}
	o := p.ConfigFlags(c)
	return app.Command(c, func(context.Context, []string) error {
		cfg, err := p.Load(o)
		if err != nil {
			return err
		}
		_, err = io.WriteString(p.Stdout, config.Print(cfg))
		return err
	})
}
