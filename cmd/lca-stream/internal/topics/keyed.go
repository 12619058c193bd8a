package topics

import (
	"context"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// copartitioned changes what topics must be like where each value has a model of its own: partition p of snapshots and
// checkpoints is that of partition p of the source. least is that of the output.
func copartitioned(wants []Want, least int) {
	for i := range wants {
		wants[i].Keyed = true
		switch w := &wants[i]; w.Path {
		case "snapshot.topic", "checkpoint.topic":
			w.Partitions, w.Least, w.Grows = 0, least, true
			w.Lag = w.Path == "snapshot.topic"
		case "transform.topic":
			w.Grows = true
		}
	}
}

// otherLayout is the fault of a topic that holds the model of all rows where there is to be one for each value, or the reverse.
func (w Want) otherLayout(faults *verdict) {
	if w.Keyed {
		faults.add("name new topics in snapshot.topic and checkpoint.topic, or set model.by: none",
			"holds model %q, which is one for all rows: with model.by there is one for each value", w.Other)
		return
	}
	faults.add("name new topics in snapshot.topic and checkpoint.topic, or set model.by as it was",
		"holds model %q, which is that of one value: without model.by there is one for all rows", w.Other)
}

// grow adds partitions to the topics that follow the source. It adds none while one of them holds the model of all rows,
// because that model would lose its place.
func grow(ctx context.Context, cl *kafkaconn.Cluster, wants []Want, have map[string]topic) error {
	source := have[wants[0].Topic].partitions
	var more []kafka.TopicPartitionsConfig
	var grown []Want
	for _, w := range wants {
		if w.Other != "" {
			return nil
		}
		if n := have[w.Topic].partitions; w.Grows && n > 0 && n < source {
			more = append(more, kafka.TopicPartitionsConfig{Name: w.Topic, Count: int32(source)})
			grown = append(grown, w)
		}
	}
	if len(more) == 0 {
		return nil
	}
	answer, err := cl.Client().CreatePartitions(ctx, &kafka.CreatePartitionsRequest{Addr: cl.Addr(), Topics: more})
	if err != nil {
		return fmt.Errorf("topics: add partitions: %w", cl.Explain(err))
	}
	for name, err := range answer.Errors {
		if err != nil && !errors.Is(err, kafka.InvalidPartitionNumber) { // another process has added them: the check that follows says so if not
			return fmt.Errorf("topics: add partitions to %s: %w", name, cl.Explain(err))
		}
	}
	return until(ctx, cl, grown, func(have map[string]topic) bool {
		for _, w := range grown {
			if have[w.Topic].partitions < source {
				return false
			}
		}
		return true
	})
}
