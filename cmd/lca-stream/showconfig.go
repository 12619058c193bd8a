package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
)

func (p *program) configCommand() *cobra.Command {
	return group(
		&cobra.Command{
			Use:   "config",
			Short: "Show the configuration: resolved, its schema, or every key",
			Long: `A configuration is one YAML file: defaults, then the file, with ${VAR} and ${VAR:default} from the
environment, then --set. Example prints all of it with its defaults, to start from; print shows what
would be used; schema is for editors.`,
		},
		p.configPrintCommand(),
		command(&cobra.Command{
			Use:   "schema",
			Short: "Print the JSON Schema of the configuration, for editors",
		}, func(context.Context, []string) error {
			_, err := p.stdout.Write(config.Schema())
			return err
		}),
		command(&cobra.Command{
			Use:     "example",
			Short:   "Print every key with its default, its range and why it is there",
			Example: "  lca-stream config example > stream.yaml",
		}, func(context.Context, []string) error {
			_, err := io.WriteString(p.stdout, config.Example())
			return err
		}),
	)
}

func (p *program) configPrintCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "print",
		Short: "Print the configuration as it would be used, secrets masked",
		Long: `Prints every key after defaults, file, environment and --set have been applied. Secrets are masked.
Without -c it prints the defaults.`,
		Example: "  lca-stream config print -c stream.yaml --set minibatch.rows=1000",
	}
	o := configFlags(c)
	return command(c, func(context.Context, []string) error {
		cfg, err := p.load(o)
		if err != nil {
			return err
		}
		_, err = io.WriteString(p.stdout, config.Print(cfg))
		return err
	})
}
