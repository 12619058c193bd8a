package topics

import (
	"context"

	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// Inner checks the topics in which brokers keep offsets and the state of transactions, because exactly-once delivery
// depends on them. A topic that does not exist yet, or that the user may not see, has no finding.
func Inner(ctx context.Context, cl *kafkaconn.Cluster) ([]Finding, error) {
	var findings []Finding
	for _, name := range []string{"__consumer_offsets", "__transaction_state"} {
		w := Want{Path: "of the brokers", Topic: name, Compact: true}
		found, err := describe(ctx, cl, []Want{w})
		have := found[name]
		if err != nil || have.partitions == 0 || have.unknown != nil {
			continue
		}
		n, err := brokers(ctx, cl, name)
		if err != nil {
			return nil, err
		}
		f := Finding{Path: w.Path, Topic: name, Partitions: have.partitions, Replication: have.replication, Policy: have.policy, Leaderless: have.leaderless}
		var warnings verdict
		compareLeaders(w, have, &warnings)
		compareReplicas(w, have, n, &warnings)
		f.Warnings, f.Advice = warnings.what, warnings.remedy()
		findings = append(findings, f)
	}
	return findings, nil
}
