package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/explain"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/system"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/terminal"
	"github.com/lca-stream/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/source"
)

// InitCommand is `lca-stream init`.
func InitCommand(p *app.Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "init TOPIC",
		Short: "Look at a topic, propose its features and write a short configuration",
		Long: `Reads the newest messages of a topic, proposes the features, and writes a configuration that lint accepts.
Labels, ids, constants and times are left out, each with its reason as a comment. Names tell, and values
do where there are 100 of them. Where keys come again, the rows of each are a series, and where keys explain
most of what rows vary by, each has a model of its own (model.by). Nothing is created or committed: read the file before you use it.

The table of the columns goes to standard error if the configuration goes to standard output.`,
		Example: `  lca-stream init plant.sensors --brokers kafka-1:9092,kafka-2:9092 -o stream.yaml
  lca-stream init plant.sensors -c login.yaml > stream.yaml`,
		Args: app.Takes(1, 1),
	}
	o := p.ConfigFlags(c)
	o.BrokersFlag(c)
	output := c.Flags().StringP("output", "o", "", "new `FILE` to write; default: standard output")
	purpose := c.Flags().String("for", forScores, "`PURPOSE`: scores, of rows and of episodes in which they are unusual, or clustering")
	app.Choices(c, "for", forScores, forClustering)
	n := c.Flags().IntP("messages", "n", 0, "most `MESSAGES` of each partition, 1 … 10000; default: 200, and more where they have fewer than 2000 rows")
	c.PreRunE = func(*cobra.Command, []string) error {
		if c.Flags().Changed("messages") && (*n < 1 || *n > 10000) {
			return fmt.Errorf("-n is %d; want 1 … 10000", *n)
		}
		if *purpose != forScores && *purpose != forClustering {
			return fmt.Errorf("--for is %q; want %s or %s", *purpose, forScores, forClustering)
		}
		return o.Reached()
	}
	return app.Command(c, func(ctx context.Context, args []string) error {
		s, err := system.Connect(ctx, p, o)
		if err != nil {
			return err
		}
		defer s.Close()
		s.Config.Source.Topic, s.Config.Source.Features = args[0], nil
		s.Config.Model.By, s.Config.Transform.Series = modelkey.By{}, config.SeriesAuto
		s.Config.StartFor(*purpose == forClustering)
		text, err := propose(ctx, s, int64(*n), reportTo(p, *output))
		if err != nil {
			return err
		}
		return writeNew(p, *output, text)
	})
}

// What a configuration is for.
const (
	forScores     = "scores"
	forClustering = "clustering"
)

// reportTo is where init puts what it has found.
func reportTo(p *app.Program, output string) io.Writer {
	if output == "" {
		return p.Stderr
	}
	return p.Stdout
}

const (
	proposeMessages, proposeMost = 200, 10000 // messages of each partition
	proposeRows                  = 2000       // setpoints are told from 1000 on
)

// look surveys the newest messages of a topic, and returns how many of each partition it took: 0 asks for as many as have 2000 rows.
func look(ctx context.Context, s *system.System, topic string, messages int64) (i *inspection, took int64, err error) {
	took = messages
	if messages == 0 {
		took = proposeMessages
	}
	for {
		i = newInspection(s.Config, io.Discard)
		i.spans = &spans{}
		if err := newestMessages(ctx, s, topic, took, i); err != nil {
			return nil, 0, err
		}
		rows := int64(i.survey.Rows)
		if messages > 0 || rows == 0 || rows >= proposeRows || took > proposeMessages {
			return i, took, nil
		}
		took = min((took*proposeRows+rows-1)/rows, proposeMost)
	}
}

// propose looks at the newest messages of the source, as look does, and returns a configuration that names the features. What it has
// found goes to report.
func propose(ctx context.Context, s *system.System, messages int64, report io.Writer) (string, error) {
	topic := s.Config.Source.Topic
	i, messages, err := look(ctx, s, topic, messages)
	if err != nil {
		return "", err
	}
	if i.survey.Rows == 0 {
		if i.usable == 0 && len(i.rejected) > 0 {
			return "", i.verdict(topic)
		}
		if i.deleted > 0 {
			return "", i.verdict(topic)
		}
		return "", fmt.Errorf("topic %s has no rows to look at: write some, or begin with `lca-stream config example --minimal`", topic)
	}
	writeColumns(report, &i.survey)
	features, leftOut := proposed(&i.survey)
	switch {
	case len(features)+len(leftOut) == 0 && len(i.rejected) > 0:
		return "", fmt.Errorf("topic %s: no row has a column, and some messages cannot be used; the first, %d@%d: %s", topic, i.first.Partition, i.first.Offset, i.first.Error)
	case len(features)+len(leftOut) == 0:
		return "", fmt.Errorf("topic %s: no row has a column", topic)
	case len(features) == 0:
		return "", fmt.Errorf("topic %s has no column that could be a feature: %s", topic, strings.Join(leftOut, "; "))
	}
	s.Config.Source.Features = features
	s.Config.Transform.Column = freeColumn(s.Config.Transform.Column, &i.survey)
	used := newInspection(s.Config, io.Discard) // by these names, as run reads it
	if err := newestMessages(ctx, s, topic, messages, used); err != nil {
		return "", err
	}
	if err := used.verdict(topic); err != nil {
		return "", err
	}
	if len(used.rejected) > 0 {
		fmt.Fprintf(report, "\nSome messages cannot be used; `lca-stream inspect %s` says why.\n", topic)
	}
	if used.wasted > 0 {
		fmt.Fprintf(report, "\n%s of %d lack a feature, and source.on_invalid says what becomes of them; leave out what is null too often.\n", plural.Count(used.wasted, "row"), used.allRows)
	}
	s.Config.Transform.Series = i.series()
	by, err := seriesOf(ctx, s, topic, messages, used.features)
	if err != nil {
		return "", err
	}
	if s.Config.StartsForScores() { // otherwise no episodes are told
		if said := i.spans.said(i.survey.Judge(), s.Config.Alarms.Budget.String()); said != "" {
			fmt.Fprintf(report, "\n%s\n", said)
		}
	}
	starter := config.Starter{Config: s.Config, LeftOut: leftOut, By: i.reportSeries(report, s, by)}
	text := starter.String()
	_, err = config.Load(config.Input{File: "-", Stdin: strings.NewReader(text), Getenv: func(string) (string, bool) { return "x", true }})
	if err != nil {
		return "", fmt.Errorf("topic %s: the names made of it cannot be used, write the configuration by hand: %w", topic, err)
	}
	return text, nil
}

// seriesOf looks at messages from all of the topic, not only at the newest: what drifts slowly would differ between values by chance. It
// returns nil where rows are no series.
func seriesOf(ctx context.Context, s *system.System, topic string, n int64, features *minibatch.Features) (*explain.Keys, error) {
	by := s.Config.Transform.Series.By()
	if !by.Keyed() || features == nil {
		return nil, nil
	}
	b := explain.Of(by, features)
	return b, throughout(ctx, s, topic, n, b.Message)
}

// throughout calls each for n messages from the beginning, the middle and the end of every partition.
func throughout(ctx context.Context, s *system.System, topic string, n int64, each func(*source.Message) error) error {
	return eachPartition(ctx, s, topic, func(p source.Partition, from, end int64) error {
		for _, at := range []int64{from, (from + end - n) / 2, end - n} {
			start := max(from, at)
			stop := min(start+n, end)
			if start >= stop {
				continue
			}
			if err := eachMessageOf(ctx, s, source.Offsets{p: start}, source.Offsets{p: stop}, each); err != nil {
				return err
			}
			from = stop
		}
		return nil
	})
}

// reportSeries says whose rows are a series. Where the values explain the rows it sets model.by, and returns why.
func (i *inspection) reportSeries(report io.Writer, s *system.System, by *explain.Keys) string {
	name, n := i.survey.Tall()
	if name == "" {
		n = i.repeated()
	}
	if n == 0 || by == nil {
		return ""
	}
	whose := fmt.Sprintf("The newest messages have %d keys, and the rows of each are a series.", n)
	if name != "" {
		whose = fmt.Sprintf("The rows are of %d values of %s, one after the other, and those of each are a series.", n, terminal.Name(name))
	}
	if why := by.Why(); why != "" {
		s.Config.Model.By, s.Config.Transform.Series = by.By, config.SeriesAuto
		fmt.Fprintf(report, "\n%s %s: each has a model of its own.\n", whose, why)
		return why
	}
	fmt.Fprintf(report, "\n%s If each is a machine, a tenant or a product that should have a model of its own, add model: {by: %s} before `run`.\n", whose, by.By)
	return ""
}

// series returns which rows are a series: those of one value where values come again and again, and otherwise those of a partition.
func (i *inspection) series() config.Series {
	by := "auto"
	if name, _ := i.survey.Tall(); name != "" {
		by = "column:" + name
	} else if i.repeated() > 0 {
		by = "key"
	}
	series, err := config.ParseSeries(by)
	if err != nil { // a column of a name that no configuration holds
		return config.SeriesAuto
	}
	return series
}

// proposed returns the names of the features that a survey proposes, and why others are none. A column without any
// number is not proposed, nor is one whose name a configuration cannot hold.
func proposed(s *minibatch.Survey) (features, leftOut []string) {
	for _, j := range s.Judge() {
		why := j.Reason
		switch {
		case !j.Feature:
		case config.FeatureName(j.Column.Name) != nil:
			why = config.FeatureName(j.Column.Name).Error()
		case !j.Column.List && numberless(j.Column, s.Rows) == s.Rows:
			why = fmt.Sprintf("no number in %s", plural.Count(s.Rows, "row"))
		default:
			features = append(features, j.Column.Name)
			continue
		}
		leftOut = append(leftOut, terminal.Name(j.Column.Name)+": "+why)
	}
	return features, leftOut
}

// freeColumn returns a name for the columns that the output gains: the given one, or another if the input has columns
// of such names.
func freeColumn(name string, s *minibatch.Survey) string {
	for _, free := range []string{name, "white", "white2", "white3"} {
		if !slices.ContainsFunc(s.Judge(), func(j minibatch.Judgement) bool {
			return j.Column.Name == free || strings.HasPrefix(j.Column.Name, free+"_")
		}) {
			return free
		}
	}
	return name
}

// writeNew writes a file that does not exist yet, and says how to go on; "" is standard output.
func writeNew(p *app.Program, name, text string) error {
	if name == "" {
		_, err := io.WriteString(p.Stdout, text)
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists already, and is left as it is: name another file", name)
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Stdout, "\nwritten to %s. Read it, then:\n  lca-stream run -c %[1]s\n  lca-stream episodes list -c %[1]s\n", name)
	return err
}
