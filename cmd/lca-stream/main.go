// Lca-stream learns, online and without labels, the metric of a Kafka stream and whitens every live
// record with it. See `lca-stream help`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
)

func main() { os.Exit(realMain()) }

// realMain runs the command line; testscript calls it under the program's name.
func realMain() int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
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
