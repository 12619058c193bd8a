package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/system"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/topics"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// TopicsCommand is `lca-stream topics`.
func TopicsCommand(p *app.Program) *cobra.Command {
	return app.Group(
		&cobra.Command{
			Use:   "topics",
			Short: "Create or verify the topics of a configuration",
			Long: `A configuration names four to seven topics: the source, the output, snapshots, checkpoints, the states of series,
and dead letters and alarms if they are to be kept. Init creates those that are missing, except the source; check says what is
wrong with those that are there. Neither alters the settings of one that exists.`,
		},
		topicsInitCommand(p),
		topicsCheckCommand(p),
	)
}

func topicsInitCommand(p *app.Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "init",
		Short: "Create the topics that are missing, then verify all",
		Long: `Creates the topics that are missing: the output with as many partitions as the source, snapshots and
checkpoints compacted, with one partition, and alarms that are kept for 90 days. The source is never created: it belongs to its producers, and
a misspelt one would stay empty. The settings of a topic that exists are never altered. Exit code 2 when one
is not as it must be.

With model.by snapshots and checkpoints have as many partitions as the source, and so has the output: init adds
what is missing where the source has gained some. Topics that hold a model for all rows are refused.`,
		Example: "  lca-stream topics init -c stream.yaml --replication 3",
	}
	o := p.ConfigFlags(c)
	o.Needed = true
	var creation topics.Creation
	c.Flags().IntVar(&creation.Replication, "replication", 0, "replication factor `N` of topics that are created; 0: the broker's default")
	asJSON := c.Flags().Bool("json", false, "print one JSON object a topic")
	c.PreRunE = func(*cobra.Command, []string) error {
		if creation.Replication < 0 {
			return fmt.Errorf("--replication is %d; want 0, the broker's default, or more", creation.Replication)
		}
		return nil
	}
	return app.Command(c, func(ctx context.Context, _ []string) error {
		return examineTopics(ctx, p, o, *asJSON, func(cl *kafkaconn.Cluster, wants []topics.Want) ([]topics.Finding, error) {
			return topics.Init(ctx, cl, wants, creation)
		})
	})
}

func topicsCheckCommand(p *app.Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "check",
		Short: "Verify partitions, cleanup.policy and max.message.bytes",
		Long:  "Verifies every topic and says how to correct what is wrong. Exit code 2 when a topic is not as it must be.",
	}
	o := p.ConfigFlags(c)
	o.Needed = true
	asJSON := c.Flags().Bool("json", false, "print one JSON object a topic")
	return app.Command(c, func(ctx context.Context, _ []string) error {
		return examineTopics(ctx, p, o, *asJSON, func(cl *kafkaconn.Cluster, wants []topics.Want) ([]topics.Finding, error) {
			return topics.Check(ctx, cl, wants)
		})
	})
}

func examineTopics(ctx context.Context, p *app.Program, o *app.Options, asJSON bool, examine func(*kafkaconn.Cluster, []topics.Want) ([]topics.Finding, error)) error {
	s, err := system.Connect(ctx, p, o)
	if err != nil {
		return err
	}
	defer s.Close()
	wants, err := s.Wanted(ctx)
	if err != nil {
		return err
	}
	findings, err := examine(s.Cluster, wants)
	if err != nil {
		return err
	}
	faulty := false
	for _, f := range findings {
		faulty = faulty || !f.OK()
		if asJSON {
			err = json.NewEncoder(p.Stdout).Encode(f)
		} else {
			_, err = fmt.Fprintln(p.Stdout, f)
		}
		if err != nil {
			return err
		}
	}
	if faulty {
		return errors.New("some topics are not as they must be")
	}
	return nil
}
