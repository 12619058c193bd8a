package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
)

func manCommand(p *app.Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages",
		Long: `Writes a manual page for each command into a directory, for man: lca-stream.1, lca-stream-run.1 and so on.
The packages install them.`,
		Example: "  lca-stream man ~/.local/share/man/man1",
		Args:    app.Takes(1, 1),
	}
	return app.Command(c, func(_ context.Context, args []string) error {
		dir := args[0]
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
		root := rootCommand(p)
		root.DisableAutoGenTag = true
		date := app.BuildInfo().Time
		header := doc.GenManHeader{Section: "1", Source: "lca-stream", Manual: "lca-stream", Date: &date}
		if err := doc.GenManTree(root, &header, dir); err != nil {
			return err
		}
		pages, err := filepath.Glob(filepath.Join(dir, "lca-stream*.1"))
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(p.Stdout, "%d pages in %s\n", len(pages), dir)
		return err
	})
}
