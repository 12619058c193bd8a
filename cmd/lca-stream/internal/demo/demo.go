// Package demo shows the whole system on a broker inside this process: it streams toy data, whitens it live, and compares
// clusters with the labels that the learner never saw.
package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/demo/toy"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/run"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/system"
	"github.com/lca-stream/lca-stream/internal/embedded"
)

// demoFlags are the flags of `lca-stream demo`.
type demoFlags struct {
	rows int
	data string
	seed uint64
	http string
	keep bool
	json bool
	pace time.Duration // over which rows are streamed; 0 = as fast as possible
}

// demoPace is how long the demo takes on a terminal, so that one can look at it.
const demoPace = time.Minute

// Command is `lca-stream demo`.
func Command(p *app.Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "demo",
		Short: "See the whole system work, on a broker inside this process",
		Long: `Starts an embedded broker, streams data into a topic, learns the metric, whitens every record live and
reads the result back with read_committed. Then it clusters raw, globally whitened and LCA-whitened
records and compares each with the labels, which the learner never saw. Nothing but this binary is needed.`,
		Example: "  lca-stream demo --data circles\n  lca-stream demo --data digits --keep",
	}
	f := demoFlags{}
	c.Flags().IntVar(&f.rows, "rows", 20000, "`ROWS` to stream before the judging")
	c.Flags().StringVar(&f.data, "data", "five", "data `NAME`: "+strings.Join(toy.Names(), ", "))
	c.Flags().Uint64Var(&f.seed, "seed", 1, "`SEED` of the data")
	c.Flags().StringVar(&f.http, "http", "127.0.0.1:0", "`ADDR` of the status page; port 0 takes any free one, and an empty ADDR is none")
	c.Flags().BoolVar(&f.keep, "keep", false, "go on streaming after the judging, with the status page and the broker up, until interrupted")
	c.Flags().DurationVar(&f.pace, "pace", 0, "`DURATION` over which the rows are streamed, 0s is as fast as possible; by default 1m0s on a terminal, and 0s elsewhere and with --json")
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON object at the end")
	app.Choices(c, "data", toy.Names()...)
	c.PreRunE = func(*cobra.Command, []string) error {
		if f.rows < 1000 {
			return fmt.Errorf("--rows is %d; want at least 1000, or there is little to learn from", f.rows)
		}
		if f.pace < 0 {
			return fmt.Errorf("--pace is %v; want 0s or more", f.pace)
		}
		if !c.Flags().Changed("pace") && app.IsTerminal(p.Stderr) && !f.json {
			f.pace = demoPace
		}
		if !slices.Contains(toy.Names(), f.data) {
			return fmt.Errorf("--data is %q; want one of %s", f.data, strings.Join(toy.Names(), ", "))
		}
		return nil
	}
	return app.Command(c, func(ctx context.Context, _ []string) error { return runDemo(ctx, p, f) })
}

func runDemo(ctx context.Context, p *app.Program, f demoFlags) error {
	stream, err := toy.Open(f.data, f.seed)
	if err != nil {
		return err
	}
	broker, err := embedded.Start(embedded.Config{RetentionBytes: 16 << 20, SegmentBytes: 4 << 20})
	if err != nil {
		return err
	}
	defer broker.Close()
	cfg := demoConfig(f, stream, broker.Addr())
	if err := demoTopics(broker, cfg); err != nil {
		return err
	}
	log := p.TextLogger(config.Logger{Level: config.LevelWarn})
	s, err := system.OpenProcess(ctx, cfg, log, system.StagesOf("run"))
	if err != nil {
		return err
	}
	defer s.Close()
	show := newScreen(p, f, s)
	show.begin(stream, f)

	running, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, 1)
	go func() {
		failed <- run.Both(running, s, false)
		stop() // so that whatever waits for rows ends
	}()
	r, err := newDemoRun(running, s, stream, f, show, failed)
	if err != nil {
		return demoStopped(ctx, p, err)
	}
	defer r.close()
	report, back, err := r.run(running)
	if err != nil {
		return demoStopped(ctx, p, err)
	}
	going := make(chan error, 1)
	if f.keep {
		go func() { defer close(going); going <- r.goOn(running) }() // also during the judging, so that the page shows no pause
	} else {
		close(going)
	}
	if err = r.judge(back, report); err == nil {
		err = reportDemo(p, f, stream, report)
	}
	if err != nil {
		stop()
		for range going { // until it has ended, because of stop
		}
		return err
	}
	if f.keep {
		if s.Status != nil {
			fmt.Fprintf(p.Stderr, "The status page stays at http://%s/, and rows go on coming.\n", s.Status.Addr())
		}
		fmt.Fprintf(p.Stderr, "The broker stays at %s, with topics %s, %s and %s, until you press Ctrl-C.\n",
			broker.Addr(), cfg.Source.Topic, cfg.Transform.Topic, cfg.Snapshot.Topic)
	}
	if err := <-going; err != nil {
		return system.Stopped(ctx, err)
	}
	stop()
	return <-failed
}

func demoStopped(ctx context.Context, p *app.Program, err error) error {
	if err = system.Stopped(ctx, err); err == nil {
		fmt.Fprintln(p.Stderr, "Stopped before all rows had come, so nothing was compared. Its broker and topics are gone with it.")
	}
	return err
}

// demoConfig is configs/demo.yaml, except for the addresses, which are not known beforehand, and what depends on the data.
func demoConfig(f demoFlags, stream *toy.Stream, broker string) *config.Config {
	c := config.Default()
	c.Kafka.Brokers = []string{broker}
	c.HTTP.Listen = f.http
	c.Snapshot.EveryRows, c.Snapshot.Every = 2000, time.Second
	c.LCA.Model, c.LCA.Preset = stream.Model, stream.Preset
	c.LCA.SkipWhenBehind = false // learn every row: the demo waits for the learner, a stream would not
	if f.data == "digits" {
		c.Source.Features = []string{"x"}
	}
	return c
}

const demoPartitions = 3

func demoTopics(b *embedded.Broker, c *config.Config) error {
	compact := map[string]string{"cleanup.policy": "compact"}
	for _, t := range []struct {
		name       string
		partitions int32
		configs    map[string]string
	}{
		{c.Source.Topic, demoPartitions, nil},
		{c.Transform.Topic, demoPartitions, map[string]string{"max.message.bytes": "4194304"}}, // as topics init would
		{c.Snapshot.Topic, 1, compact},
		{c.Checkpoint.Topic, 1, compact},
		{c.StateTopic(), demoPartitions, compact},
	} {
		if err := b.CreateTopic(t.name, t.partitions, t.configs); err != nil {
			return err
		}
	}
	return nil
}
