package main

import (
	"context"
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
)

func versionCommand(p *app.Program) *cobra.Command {
	c := &cobra.Command{Use: "version", Short: "Print the version of this binary"}
	var asJSON bool
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return app.Command(c, func(context.Context, []string) error {
		b := app.BuildInfo()
		if asJSON {
			return json.NewEncoder(p.Stdout).Encode(b)
		}
		_, err := io.WriteString(p.Stdout, b.String())
		return err
	})
}
