package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// inspectCommand is `lca-stream inspect`.
func inspectCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:   "inspect TOPIC",
		Short: "Show what is in a topic: a verdict for each message and each column, and the features",
		Long: `Reads the newest messages of a topic as lca-stream would, and says of each whether it can be used, and
if not, why. Then it shows each column, with what the values are and whether it is a feature, the newest
message, and a line of features to paste into the configuration. With model.by it also says which models the
rows have. Nothing is committed. Exit code 2 when
no row can be used, or no feature varies.`,
		Example: `  lca-stream inspect events -c stream.yaml -n 20
  lca-stream inspect events --brokers kafka-1:9092`,
		Args: takes(1, 1),
	}
	o := p.configFlags(c)
	o.needed = true
	o.brokersFlag(c)
	n := c.Flags().IntP("messages", "n", 10, "most `MESSAGES` of each partition, 1 … 10000")
	asJSON := c.Flags().Bool("json", false, "print one JSON object a message")
	c.PreRunE = func(*cobra.Command, []string) error {
		if *n < 1 || *n > 10000 {
			return fmt.Errorf("-n is %d; want 1 … 10000", *n)
		}
		return o.reached()
	}
	return command(c, func(ctx context.Context, args []string) error {
		s, err := connect(ctx, p, o)
		if err != nil {
			return err
		}
		defer s.close()
		i := newInspection(s.config, p.stdout)
		i.json = *asJSON
		i.of(s.config, args[0])
		if err := newestMessages(ctx, s, args[0], int64(*n), i.message); err != nil {
			return err
		}
		return i.summary(args[0])
	})
}

// newest calls each for the last n messages of every partition, in order.
func newestMessages(ctx context.Context, s *system, topic string, n int64, each func(*source.Message) error) error {
	parts, err := s.partitions(ctx, topic)
	if err != nil {
		return err
	}
	first, err := source.ListOffsets(ctx, s.cluster, parts, source.Earliest)
	if err != nil {
		return s.cluster.Explain(err)
	}
	end, err := source.ListOffsets(ctx, s.cluster, parts, source.LatestStable)
	if err != nil {
		return s.cluster.Explain(err)
	}
	for _, p := range parts {
		if err := newestMessagesOf(ctx, s, p, first[p], end[p], n, each); err != nil {
			return err
		}
	}
	return nil
}

// newestOf calls each for the last n messages of a partition. Not every offset is a message: a transaction ends with
// a marker, an aborted one has nothing else, and compaction leaves gaps. So it goes back twice as far until there are
// enough.
func newestMessagesOf(ctx context.Context, s *system, p source.Partition, first, end, n int64, each func(*source.Message) error) error {
	to := source.Offsets{p: end}
	for back := n; first < end; back *= 2 {
		from := source.Offsets{p: max(first, end-back)}
		found := int64(0)
		if err := eachMessageOf(ctx, s, from, to, func(*source.Message) error { found++; return nil }); err != nil {
			return err
		}
		if found < n && from[p] > first {
			continue
		}
		return eachMessageOf(ctx, s, from, to, func(m *source.Message) error {
			if found--; found >= n {
				return nil
			}
			return each(m)
		})
	}
	return nil
}

func eachMessageOf(ctx context.Context, s *system, start, end source.Offsets, each func(*source.Message) error) error {
	all := format.Config{Columns: s.config.Source.Features, Nested: true}
	if s.registry != nil {
		all.Registry = briefRegistry{s.registry}
	}
	k, err := s.reader(ctx, source.KafkaConfig{Start: start, End: end, GatherBytes: learnGather}, all)
	if err != nil {
		return err
	}
	defer func() { _ = k.Close() }()
	for {
		b, err := k.Read(ctx)
		if errors.Is(err, source.ErrEnd) {
			return nil
		}
		if err != nil {
			return s.cluster.Explain(err)
		}
		for i := range b.Messages {
			if err == nil {
				err = each(&b.Messages[i])
			}
		}
		b.Release()
		if err != nil {
			return err
		}
	}
}
