package topics

import (
	"context"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// Present checks whether the topics still exist, with as many partitions as they need, and which of these have no
// leader. It checks nothing else: one small request, which is repeated while the work goes on. It returns an error if the brokers cannot be reached.
func Present(ctx context.Context, cl *kafkaconn.Cluster, wants []Want) ([]Finding, error) {
	metadata, err := cl.Metadata(ctx, names(wants)...)
	if err != nil {
		return nil, fmt.Errorf("topics: %w", cl.Explain(err))
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
			faults.add(w.CreateIt(), "is missing")
		case errors.Is(t.Err, kafka.TopicAuthorizationFailed):
			// The client's own metadata leave the topic out, so that its requests cannot tell this case from a topic
			// that is still to come. They would be repeated forever.
			faults.add("`lca-stream doctor` says which right is missing", "is not for this user any more: %v", t.Err)
		case have.partitions > 0: // otherwise an election is under way, and the work itself waits for it
			comparePartitions(w, have, source, &faults, &warnings)
		}
		findings[i].Leaderless = leaderless(t)
		findings[i].Partitions, findings[i].Faults, findings[i].Remedy = have.partitions, faults.what, faults.remedy()
	}
	return findings, nil
}
