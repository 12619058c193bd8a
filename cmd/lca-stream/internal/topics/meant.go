package topics

import (
	"context"

	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/internal/typo"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// Meant asks whether a topic of a similar name was meant, and ends with a space. It returns "" if there is none, or if the brokers do not say
// which topics there are: a user sees those that it may describe.
func Meant(ctx context.Context, cl *kafkaconn.Cluster, name string) string {
	answer, err := cl.Client().Metadata(ctx, &kafka.MetadataRequest{Addr: cl.Addr()})
	if err != nil {
		return ""
	}
	var names []string
	for _, t := range answer.Topics {
		if !t.Internal && t.Name != name {
			names = append(names, t.Name)
		}
	}
	if question := typo.Question(name, names); question != "" {
		return question + " "
	}
	return ""
}
