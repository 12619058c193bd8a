package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/minibatch"
)

func (p *program) initCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "init TOPIC",
		Short: "Look at a topic, propose its features and write a short configuration",
		Long: `Reads the newest messages of a topic, proposes the features, and writes a configuration that lint accepts.
Labels, ids, constants and times are left out, each with its reason as a comment. Names tell, and values
do where there are 100 of them. Nothing is created or committed: read the file before you use it.

The table of the columns goes to standard error if the configuration goes to standard output.`,
		Example: `  lca-stream init plant.sensors --brokers kafka-1:9092,kafka-2:9092 -o stream.yaml
  lca-stream init plant.sensors -c login.yaml > stream.yaml`,
		Args: takes(1, 1),
	}
	o := p.configFlags(c)
	brokers := c.Flags().String("brokers", "", "`LIST` of brokers, host:port,…; default localhost:9092, or those of -c, whose login is taken too")
	output := c.Flags().StringP("output", "o", "", "new `FILE` to write; default: standard output")
	n := c.Flags().IntP("messages", "n", 200, "most `MESSAGES` of each partition, 1 … 10000")
	c.PreRunE = func(*cobra.Command, []string) error {
		if *n < 1 || *n > 10000 {
			return fmt.Errorf("-n is %d; want 1 … 10000", *n)
		}
		if *brokers != "" && o.file != "" {
			return errors.New("--brokers and -c both say where the brokers are: leave out one")
		}
		return nil
	}
	return command(c, func(ctx context.Context, args []string) error {
		if *brokers != "" {
			o.set = append(o.set, "kafka.brokers="+*brokers)
		}
		s, err := p.connect(ctx, o)
		if err != nil {
			return err
		}
		defer s.close()
		s.config.Source.Topic, s.config.Source.Features = args[0], nil
		text, err := s.propose(ctx, int64(*n), p.report(*output))
		if err != nil {
			return err
		}
		return p.writeNew(*output, text)
	})
}

// report is where init puts what it has found.
func (p *program) report(output string) io.Writer {
	if output == "" {
		return p.stderr
	}
	return p.stdout
}

// propose looks at the newest messages of the source and returns a configuration that names the features. What it has
// found goes to report.
func (s *system) propose(ctx context.Context, messages int64, report io.Writer) (string, error) {
	topic := s.config.Source.Topic
	i := newInspection(s.config, io.Discard)
	i.propose = true
	if err := s.newest(ctx, topic, messages, i.message); err != nil {
		return "", err
	}
	if err := i.verdict(topic); err != nil {
		return "", err
	}
	if i.survey.Rows == 0 {
		return "", fmt.Errorf("topic %s has no rows to look at: write some, or begin with `lca-stream config example --minimal`", topic)
	}
	features, leftOut := i.survey.Features()
	if len(features) == 0 {
		return "", fmt.Errorf("topic %s has no column that could be a feature: %s", topic, strings.Join(reasons(leftOut), "; "))
	}
	if len(i.rejected) > 0 {
		fmt.Fprintf(report, "Some messages cannot be used; `lca-stream inspect %s` says why.\n", topic)
	}
	writeColumns(report, &i.survey)
	s.config.Source.Features = features
	starter := config.Starter{Config: s.config, LeftOut: reasons(leftOut)}
	text := starter.String()
	_, err := config.Load(config.Input{File: "-", Stdin: strings.NewReader(text), Getenv: func(string) (string, bool) { return "x", true }})
	if err != nil {
		return "", fmt.Errorf("topic %s: the names made of it cannot be used, write the configuration by hand: %w", topic, err)
	}
	return text, nil
}

func reasons(leftOut []minibatch.Judgement) []string {
	all := make([]string, len(leftOut))
	for i, j := range leftOut {
		all[i] = printable([]byte(j.Column.Name)) + ": " + j.Reason // a name may hold anything, a line feed too
	}
	return all
}

// writeNew writes a file that does not exist yet, and says how to go on; "" is standard output.
func (p *program) writeNew(name, text string) error {
	if name == "" {
		_, err := io.WriteString(p.stdout, text)
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
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
	_, err = fmt.Fprintf(p.stdout, "\nwritten to %s. Read it, then:\n  lca-stream topics init -c %[1]s\n  lca-stream doctor -c %[1]s\n  lca-stream run -c %[1]s\n", name)
	return err
}
