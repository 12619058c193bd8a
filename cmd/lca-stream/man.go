package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func manCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages",
		Long: `Writes a manual page for each command into a directory, for man: lca-stream.1, lca-stream-run.1 and so on.
The packages install them.`,
		Example: "  lca-stream man ~/.local/share/man/man1",
		Args:    takes(1, 1),
	}
	return command(c, func(_ context.Context, args []string) error {
		dir := args[0]
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
		root := rootCommand(p)
		root.DisableAutoGenTag = true
		date := buildInfo().Time
		header := doc.GenManHeader{Section: "1", Source: "lca-stream", Manual: "lca-stream", Date: &date}
		if err := doc.GenManTree(root, &header, dir); err != nil {
			return err
		}
		pages, err := filepath.Glob(filepath.Join(dir, "lca-stream*.1"))
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(p.stdout, "%d pages in %s\n", len(pages), dir)
		return err
	})
}

// commitTime reads the time of the source from the binary, so that the same source gives the same pages.
func commitTime(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Unix(0, 0).UTC() // built outside a checkout
	}
	return t.UTC()
}
