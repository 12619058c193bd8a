package kafkaconn

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/segmentio/kafka-go/protocol"
)

// BrokerOffer is a broker, and what it speaks.
type BrokerOffer struct {
	protocol.Broker
	Offer Offer
}

// Offers asks each broker of the cluster what it speaks, and returns them by their ids.
func (c *Cluster) Offers(ctx context.Context) (all []BrokerOffer, err error) {
	var brokers []protocol.Broker
	for i := 0; i == 0 || i < len(brokers); i++ {
		var at protocol.Broker
		offer, err := c.offer(ctx, func(cluster protocol.Cluster) (protocol.Broker, error) {
			if brokers == nil {
				for _, b := range cluster.Brokers {
					brokers = append(brokers, b)
				}
				slices.SortFunc(brokers, func(a, b protocol.Broker) int { return cmp.Compare(a.ID, b.ID) })
			}
			if len(brokers) == 0 {
				return protocol.Broker{}, errNoBroker
			}
			at = brokers[i]
			return at, nil
		})
		if err != nil {
			return nil, fmt.Errorf("kafkaconn: what the brokers speak: %w", err)
		}
		all = append(all, BrokerOffer{at, offer})
	}
	return all, nil
}
