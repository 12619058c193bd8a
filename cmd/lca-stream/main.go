// Lca-stream learns, online and without labels, the metric of a Kafka stream and whitens every live
// record with it. See `lca-stream help`.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
)

func main() { os.Exit(realMain()) }

// realMain runs the command line; testscript calls it under the program's name.
func realMain() int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // by nohup
		signal.Notify(signals, syscall.SIGHUP) // the terminal is gone
	}
	go func() {
		<-signals // the first signal asks for an orderly stop
		cancel()
		<-signals // the second one does not wait for it
		os.Exit(app.ExitInterrupted)
	}()
	p := &app.Program{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.LookupEnv}
	return execute(ctx, p, os.Args[1:])
}

// execute runs one command line and returns its exit code.
func execute(ctx context.Context, p *app.Program, args []string) int {
	return p.Run(ctx, rootCommand(p), args)
}

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
