// Lca-stream learns, online and without labels, the metric of a Kafka stream and whitens every live
// record with it. See `lca-stream help`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
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
		os.Exit(exitInterrupted)
	}()
	p := &program{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.LookupEnv}
	return execute(ctx, p, os.Args[1:])
}

// execute runs one command line and returns its exit code.
func execute(ctx context.Context, p *program, args []string) int {
	return p.run(ctx, rootCommand(p), args)
}
