package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/backtest"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/demo"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/doctor"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/em"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/episodes"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/offsets"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/replay"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/run"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/snapshots"
)

func rootCommand(p *app.Program) *cobra.Command {
	root := &cobra.Command{
		Use:   "lca-stream",
		Short: "Learn the metric of a Kafka stream and whiten it, live",
		Long: `Lca-stream learns, online and without labels, the metric in which the records of a Kafka stream are
locally isotropic (local component analysis), and whitens every live record with it.

To see it:      lca-stream demo
To use it:      lca-stream init TOPIC --brokers HOST:PORT -o stream.yaml, lca-stream run -c stream.yaml,
                lca-stream episodes list -c stream.yaml; without Kafka: lca-stream backtest FILE
When it fails:  lca-stream doctor -c stream.yaml, lca-stream inspect TOPIC -c stream.yaml

Exit codes: 0 done, 1 usage or configuration, 2 fault at run time, 3 another instance owns the work,
130 interrupted twice.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	app.Group(root,
		doctor.InitCommand(p),
		lintCommand(p),
		configCommand(p),
		run.Command(p),
		replay.Command(p),
		backtest.Command(p),
		em.Command(p),
		run.LearnCommand(p),
		run.TransformCommand(p),
		demo.Command(p),
		episodes.Command(p),
		snapshots.Command(p),
		doctor.TopicsCommand(p),
		offsets.Command(p),
		doctor.InspectCommand(p),
		doctor.Command(p),
		versionCommand(p),
		manCommand(p),
	)
	versionFlag(p, root)
	root.InitDefaultHelpCmd()
	if c, _, err := root.Find([]string{"help"}); err == nil && c != root {
		app.Helps(c)
	}
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil && c != root {
		app.Group(c)
	}
	return root
}

// versionFlag adds --version. Cobra's own is of a text/template, for which the linker keeps the methods of all types: 7 MB.
func versionFlag(p *app.Program, root *cobra.Command) {
	version := root.Flags().BoolP("version", "v", false, "version for lca-stream")
	others := root.RunE
	root.RunE = func(c *cobra.Command, args []string) error {
		if !*version {
			return others(c, args)
		}
		_, err := io.WriteString(p.Stdout, app.BuildInfo().String())
		return err
	}
}
