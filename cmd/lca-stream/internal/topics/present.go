package topics

import (
	"context"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// Present looks whether the topics are still there, with as many partitions as they need, and at nothing
// else: one small request, to be repeated while the work goes on. Its error is one of reaching the brokers.
func Present(ctx context.Context, cl *kafkaconn.Cluster, wants []Want) ([]Finding, error) {
	metadata, err := cl.Metadata(ctx, names(wants)...)
	if err != nil {
		return nil, fmt.Errorf("topics: look: %w", cl.Explain(err))
	}
	source := topic{partitions: len(metadata[wants[0].Topic].Partitions)}
	findings := make([]Finding, len(wants))
	for i, w := range wants {
		findings[i] = Finding{Path: w.Path, Topic: w.Topic}
		t := metadata[w.Topic]
		have := topic{partitions: len(t.Partitions)}
		var faults, warnings verdict
		switch {
		case errors.Is(t.Err, kafka.UnknownTopicOrPartition):
			faults.add(createIt, "is missing")
		case errors.Is(t.Err, kafka.TopicAuthorizationFailed):
			// The client's own picture of the cluster leaves the topic out, so that its requests cannot tell
			// this from a topic that is still to come: they would be repeated forever.
			faults.add("`lca-stream doctor` says which right is missing", "is not for this user any more: %v", t.Err)
		case have.partitions > 0: // else an election is on: the work itself waits for it
			comparePartitions(w, have, source, &faults, &warnings)
		}
		findings[i].Partitions, findings[i].Faults, findings[i].Remedy = have.partitions, faults.what, faults.remedy()
	}
	return findings, nil
}
